"""Random calls with random arguments: each returns or raises, and none ends or hangs the interpreter.

TEST_CALLS sets their number; the extended check draws 100,000.
"""

import os
import random
import tempfile
import threading
import unittest

import numpy

import melisma
from melisma import audio, dataset, mel, optimize, pack, snac, synth

N_CALLS = int(os.environ.get("TEST_CALLS", 3_000))
DTYPES = ["f4", "f8", "f2", "i2", "i4", "i8", "u1", "u2", "?", "c8", "O", "S3", "U2", ">f4", ">i4", "M8[s]"]


def array(rng):
    shape = tuple(rng.choice([0, 1, 2, 3, 7, 14, 100, 700]) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])))
    if numpy.prod(shape) > 200_000:
        shape = shape[:1]
    values = numpy.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape) * rng.choice([0.1, 1, 5_000, 1e30])
    with numpy.errstate(all="ignore"):
        try:
            made = numpy.asarray(values).astype(rng.choice(DTYPES))
        except (TypeError, ValueError):
            made = numpy.asarray(values).astype("f4")
    if made.dtype.kind in "fc" and made.size and rng.random() < 0.2:
        made.reshape(-1)[rng.randrange(made.size)] = rng.choice([numpy.nan, numpy.inf, -numpy.inf])
    if rng.random() < 0.3:
        made = numpy.asarray(made[tuple(slice(None, None, rng.choice([-1, 2, -3])) for _ in shape)])
    if rng.random() < 0.2:
        made = made.T
    made = numpy.asarray(made)
    if rng.random() < 0.2:
        made.flags.writeable = False
    return made


def anything(rng):
    return rng.choice(
        [
            lambda: array(rng),
            lambda: array(rng),
            lambda: array(rng).tolist(),
            lambda: [array(rng) for _ in range(rng.randrange(4))],
            lambda: rng.choice([None, True, 0, 1, -1, 7, 4096, 2**31, 2**63, 2**64, -(2**70), 0.5, 1e308, float("nan")]),
            lambda: rng.choice(["", "x", "cpu", "cuda:99", "float16", "focus", "preset:focus", "\0", "é" * 50, "builder"]),
            lambda: rng.choice([b"", b"RIFF", bytes(range(256)), bytearray(5), memoryview(b"abc")]),
            lambda: {rng.choice(["w", "tempo", "notes", 3]): anything(rng)},
            lambda: rng.choice([object(), int, len, ..., range(5), {1, 2}, 3j]),
        ]
    )()


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        path = os.path.join(cls.folder.name, "x")
        decoder, encoder = snac.Decoder(device="cpu"), snac.Encoder(device="cpu")
        finished = decoder.stream()
        finished.finish()
        optimizer = melisma.TensorOptimizer({"mixed_precision": True}, memory_limit="4MiB")
        tensor = optimizer.optimize_tensor(numpy.ones((3, 4), "f4"))
        transform, stream = mel.Transform("builder"), synth.Stream(rate=16_000)
        tiles, untiles = pack.Encoder(64), pack.Decoder()
        wave, weights, whole = path + ".wav", path + ".safetensors", path + ".whole.safetensors"
        pack.save_file({"w": numpy.arange(6_000, dtype="f4").reshape(60, 100)}, whole)
        opened = pack.safe_open(whole, "np")
        with pack.safe_open(whole, "np") as closed:
            pass
        blob = pack.compress(numpy.arange(100, dtype="f4"))
        audio.write(wave + "0.wav", numpy.zeros(22_050 * 3), 22_050)
        dataset.build(wave + "0.wav", path + ".rows.h5", segment=0.5, progress=False)
        rows = dataset.open(path + ".rows.h5")
        with melisma.trace() as trace:
            pass
        # Rates and lengths are bounded where an answer may be as large as it was asked to be.
        small = lambda value: value if not isinstance(value, int | float) or not value > 50_000 else 50_000
        cls.functions = [
            lambda a, b, c: audio.write(wave, a, b),
            lambda a, b, c: audio.write(wave, a, 8_000, sample_format=b),
            lambda a, b, c: audio.read(a),
            lambda a, b, c: audio.resample(a, 8_000, small(b)),
            lambda a, b, c: audio.resample(a, 8_000, 4_000, out=b),
            lambda a, b, c: audio.stretch(a, small(b), c),
            lambda a, b, c: audio.Clip(a, b)._repr_html_() if isinstance(a, numpy.ndarray) else None,
            lambda a, b, c: mel.spectrogram(a),
            lambda a, b, c: mel.spectrogram(a, preset="whisper-80", n_mels=b),
            lambda a, b, c: mel.spectrogram(a, sample_rate=small(b), out=c),
            lambda a, b, c: mel.Transform(a, device=b, hop_length=c),
            lambda a, b, c: transform(a, out=b),
            lambda a, b, c: transform.shape(a),
            lambda a, b, c: snac.populate(a),
            lambda a, b, c: snac.populate(a, codebook_size=b),
            lambda a, b, c: decoder.decode(a, noise=b),
            lambda a, b, c: decoder.decode(numpy.zeros((1, 7), "i4"), out=a),
            lambda a, b, c: decoder.decode_batch([a, b]),
            lambda a, b, c: decoder.stream(noise=a, format=b),
            lambda a, b, c: decoder.stream().push(a),
            lambda a, b, c: finished.push(a),
            lambda a, b, c: encoder.encode(a, sample_rate=b),
            lambda a, b, c: encoder.to_text(a, format=b),
            lambda a, b, c: encoder.stream().push(a),
            lambda a, b, c: snac.Decoder(a, device=b, memory_limit=c),
            lambda a, b, c: snac.SNAC.from_pretrained(a),
            lambda a, b, c: synth.render(a, seconds=0.05, rate=b),
            lambda a, b, c: synth.render({"tempo": 120, "notes": [a]}, seconds=0.05, rate=16_000),
            lambda a, b, c: synth.render({"tempo": 120, "notes": []}, rate=16_000, device=a, out=b),
            lambda a, b, c: synth.Score.from_midi(a) if isinstance(a, bytes) else synth.Score.from_dict(a),
            lambda a, b, c: synth.compose(a, seconds=1, seed=b),
            lambda a, b, c: stream.note("lead", a, b),
            lambda a, b, c: stream.note_off(a),
            lambda a, b, c: stream.set(a, b),
            lambda a, b, c: stream.read(small(a)),
            lambda a, b, c: pack.save_file({"w": a, "v": b}, weights),
            lambda a, b, c: pack.save_file(a, weights, b, tile_size=c),
            lambda a, b, c: pack.load_file(a, b),
            lambda a, b, c: pack.safe_open(weights, "np").get_tensor(a),
            lambda a, b, c: opened.get_slice("w")[a],
            lambda a, b, c: opened.get_slice("w")[a, b],
            lambda a, b, c: closed.get_tensor("w"),
            lambda a, b, c: pack.load_to_device(whole, a),
            lambda a, b, c: pack.decompress(pack.compress(a)),
            lambda a, b, c: pack.decompress(blob, out=a),
            lambda a, b, c: pack.decompress(a),
            lambda a, b, c: untiles.decode(tiles.encode(a), b, c),
            lambda a, b, c: untiles.decode(a, (3, 4), "f4"),
            lambda a, b, c: dataset.build(a, path + ".h5", progress=False),
            lambda a, b, c: dataset.open(a),
            lambda a, b, c: rows[a],
            lambda a, b, c: rows.__getitems__(a),
            lambda a, b, c: rows.column(a),
            lambda a, b, c: trace.table(a, b),
            lambda a, b, c: optimize.Session(a),
            lambda a, b, c: optimizer.optimize_tensor(a, b),
            lambda a, b, c: optimizer.matmul(a, b),
            lambda a, b, c: optimizer.combine(a, b, c),
            lambda a, b, c: optimizer.combine_in_place("add", a, b),
            lambda a, b, c: optimizer.combine("multiply", tensor, a),
            lambda a, b, c: melisma.apply_tensor_optimizations()(lambda x: x)(a),
            lambda a, b, c: melisma.TensorOptimizer(a, b, c),
            lambda a, b, c: melisma.MemoryTracker(a),
            lambda a, b, c: melisma.Config(a, b),
            lambda a, b, c: melisma.Weights(a),
        ]

    def call(self, seed, n):
        """Draws `n` calls; whether each returned."""
        rng, outcomes = random.Random(seed), []
        for _ in range(n):
            function, arguments = rng.choice(self.functions), [anything(rng) for _ in range(3)]
            try:
                function(*arguments)
                outcomes.append(True)
            except Exception:
                outcomes.append(False)
        return outcomes

    def test_calls_after_a_fork(self):
        child = os.fork()
        if child == 0:
            os.chdir(self.folder.name)
            os._exit(0 if len(self.call(4, N_CALLS // 10)) == N_CALLS // 10 else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_calls_return_or_raise(self):
        outcomes = []
        work = lambda seed: outcomes.extend(self.call(seed, N_CALLS // 4))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        folder = os.getcwd()
        os.chdir(self.folder.name)
        try:
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        finally:
            os.chdir(folder)
        self.assertEqual(len(outcomes), N_CALLS // 4 * 4)
        self.assertGreater(sum(outcomes), N_CALLS // 50)


if __name__ == "__main__":
    unittest.main()
