"""Codec tokens to audio and back."""

import multiprocessing
import os
import pathlib
import threading
import unittest
import warnings

import numpy

import melisma
from melisma import snac

SAMPLE = os.path.join(os.path.dirname(__file__), "../../melisma-models/mini24/sample.wav")


def frames(n, seed=0):
    return numpy.random.default_rng(seed).integers(0, 4096, (n, 7), dtype="i4")


def use(decoder, queue):
    try:
        decoder.decode(frames(2))
    except RuntimeError as error:
        queue.put(str(error))


class Names(unittest.TestCase):
    def test_a_model_is_a_name_or_a_path(self):
        for model in ["builtin:mini24", pathlib.Path("builtin:mini24")]:
            self.assertEqual(snac.Decoder(model).model_hash, snac.Encoder(model).model_hash)


class Populate(unittest.TestCase):
    def test_the_levels_of_the_plain_loop(self):
        for n in [0, 1, 4, 28]:
            multiframe = frames(n)
            expected = [numpy.zeros((1, n * per_frame), "i4") for per_frame in [1, 2, 4]]
            for i in range(n):
                expected[0][0, i] = multiframe[i, 0]
                expected[1][0, 2 * i : 2 * i + 2] = multiframe[i, [1, 4]]
                expected[2][0, 4 * i : 4 * i + 4] = multiframe[i, [2, 3, 5, 6]]
            for given in [multiframe, multiframe.reshape(-1), multiframe.reshape(-1).tolist(), multiframe.astype("u2")]:
                for found, level in zip(snac.populate(given), expected, strict=True):
                    self.assertEqual(found.dtype, "i4")
                    numpy.testing.assert_array_equal(found, level)

    def test_codes_after_the_last_frame_and_outside(self):
        self.assertEqual(snac.populate([1] * 13)[2].shape, (1, 4))
        for codes, text in [
            ([4096] + [0] * 6, "frame 0, slot 0: code 4096 is not in the codebook; 0 to 4095"),
            ([0] * 13 + [-1], "frame 1, slot 6: code -1"),
            ([2**40] * 7, "32 bits"),
            ([0.5] * 7, "float64"),
            (5, r"codes of shape \(\)"),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                snac.populate(codes)
        with self.assertRaisesRegex(ValueError, r"codes of shape \(\)"):
            snac.validate(numpy.int32(5))
        self.assertEqual(snac.validate([1] * 7 + [9999]), (True, True, True))
        for size in [0, -1, -(2**31), 2**40]:
            with self.assertRaisesRegex(ValueError, f"codebook_size is {size}"):
                snac.populate([0] * 7, codebook_size=size)
            with self.assertRaisesRegex(ValueError, f"codebook_size is {size}"):
                snac.validate([0] * 7, codebook_size=size)

    def test_flags_of_the_levels(self):
        for slot, level in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 1), (5, 2), (6, 2)]:
            for bad in [4096, -1]:
                codes = numpy.full((3, 7), 4095)
                codes[1, slot] = bad
                flags = snac.validate(codes)
                self.assertEqual([*flags], [other != level for other in range(3)])
                self.assertEqual(flags, (flags.valid_0, flags.valid_1, flags.valid_2))
        self.assertEqual(snac.validate([]), (True, True, True))
        self.assertEqual(snac.validate([3] * 7, codebook_size=3), (False, False, False))
        with self.assertRaisesRegex(ValueError, "codes of shape"):
            snac.validate(numpy.zeros((2, 8), "i4"))


class Decoding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.decoder = snac.Decoder(device="cpu")

    def test_facts(self):
        decoder = self.decoder
        facts = (decoder.sample_rate, decoder.frame_len, decoder.frame_codes, decoder.codebook_size)
        self.assertEqual(facts, (24_000, 2_048, [1, 2, 4], 4096))
        self.assertRegex(decoder.model_hash, "^[0-9a-f]{32}$")

    def test_frames_levels_and_batches(self):
        codes = frames(11)
        whole = self.decoder.decode(codes)
        self.assertEqual((whole.shape, whole.dtype), ((11 * 2_048,), "f4"))
        numpy.testing.assert_array_equal(self.decoder.decode(snac.populate(codes)), whole)
        self.assertTrue((self.decoder.decode(codes, noise=None) != self.decoder.decode(codes, noise=1)).any())
        clips = [frames(n, seed=n) for n in [3, 0, 11, 40, 1]]
        for clip, samples in zip(clips, self.decoder.decode_batch(clips), strict=True):
            numpy.testing.assert_array_equal(samples, self.decoder.decode(clip))
        self.assertEqual(self.decoder.decode_batch([]), [])

    def test_streams_are_the_whole_clip(self):
        codes = frames(13)
        whole = self.decoder.decode(codes)
        encoder = snac.Encoder(device="cpu")
        ids = [int(word) for word in encoder.to_text(codes, format="ids").split()]
        text = encoder.to_text(codes)
        for name, pieces in {
            "frames": [codes[:1], codes[1:5], codes[5:]],
            "levels": [snac.populate(codes)],
            "text": [text[start : start + 50] for start in range(0, len(text), 50)],
            "bytes": [text.encode()],
            "ids": [ids[:10], numpy.array(ids[10:])],
            "single ids": ids,
        }.items():
            stream = self.decoder.stream()
            samples = list(stream.samples(pieces))
            self.assertGreater(len(samples), 1 if name != "bytes" else 0, name)
            numpy.testing.assert_array_equal(numpy.concatenate(samples), whole, name)
            self.assertTrue(stream.is_finished)
        self.assertEqual(stream.ledger["accepted"], 91)
        with self.assertRaisesRegex(ValueError, "is finished"):
            stream.push(codes)
        with self.assertRaisesRegex(ValueError, "is finished"):
            stream.finish()

    def test_the_wrong_codec_is_not_silent(self):
        with self.assertWarnsRegex(UserWarning, "codes of builtin:mini24; .* Encoder") as warned:
            text = snac.Encoder(device="cpu").to_text(frames(3))
        self.assertEqual(os.path.basename(warned.filename), "test_snac.py")
        stamp, bare = text.split("\n", 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.decoder.stream().push(text)
            self.decoder.stream().push(frames(3))
        with self.assertRaisesRegex(ValueError, "made by the model 0000"):
            self.decoder.stream().push(text.replace(self.decoder.model_hash, "0" * 32))
        stream = self.decoder.stream()
        with self.assertWarnsRegex(UserWarning, "without a model's stamp") as warned:
            stream.push(bare)
        self.assertEqual(os.path.basename(warned.filename), "test_snac.py")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stream.push(bare)

    def test_early_samples(self):
        stream = self.decoder.stream()
        self.assertEqual(stream.push(frames(1)).size, 0)
        self.assertEqual(stream.peek().size, 2_048)

    def test_streams_of_many_threads(self):
        expected = [self.decoder.decode(frames(6, seed)) for seed in range(8)]
        found = [None] * 8

        def play(seed):
            stream = self.decoder.stream()
            found[seed] = numpy.concatenate(list(stream.samples(frames(6, seed)[:, None])))

        threads = [threading.Thread(target=play, args=(seed,)) for seed in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for one, other in zip(found, expected, strict=True):
            numpy.testing.assert_array_equal(one, other)

    def test_what_is_refused(self):
        decode = self.decoder.decode
        for exception, text, work in [
            (ValueError, r"codes of shape \[2, 6\]; frames of this model are \[n, 7\]", lambda: decode(numpy.zeros((2, 6), "i4"))),
            (ValueError, "level 1, code 3 is 4096", lambda: decode([[0] * 2, [0, 0, 0, 4096], [0] * 8])),
            (ValueError, "1 levels of codes, the model has 3", lambda: decode([[0]])),
            (ValueError, "at least one level", lambda: decode([])),
            (ValueError, r"shape \(7,\)", lambda: decode(numpy.zeros(7, "i4"))),
            (ValueError, "level 0 has the shape", lambda: decode([numpy.zeros((2, 1), "i4")] * 3)),
            (ValueError, "float64", lambda: decode(numpy.zeros((1, 7)))),
            (ValueError, "unknown token format", lambda: self.decoder.stream(format="codes")),
            (ValueError, "unknown built-in model", lambda: snac.Decoder("builtin:none")),
            (OSError, "no/such", lambda: snac.Decoder("no/such")),
            (ValueError, "neither a file nor", lambda: snac.Decoder("/dev/zero")),
            (MemoryError, "", lambda: snac.Decoder(memory_limit=1000)),
            (ValueError, "device", lambda: snac.Decoder(device="tpu")),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()

    def test_a_fork_is_refused_and_does_not_hang(self):
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=use, args=(self.decoder, queue))
        child.start()
        self.assertIn("made before a fork", queue.get(timeout=120))
        child.join(120)
        self.assertEqual(child.exitcode, 0)


class Encoding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.encoder = snac.Encoder(device="cpu")
        cls.samples = melisma.audio.read(SAMPLE).samples[0][:30_000]

    def test_streams_and_batches(self):
        whole = self.encoder.encode(self.samples)
        self.assertEqual([(level.shape, level.dtype) for level in whole], [((15,), "i4"), ((30,), "i4"), ((60,), "i4")])
        stream = self.encoder.stream()
        pieces = [stream.push(piece) for piece in numpy.array_split(self.samples, 7)] + [stream.finish()]
        for level, codes in enumerate(whole):
            numpy.testing.assert_array_equal(numpy.concatenate([piece[level] for piece in pieces]), codes)
        batch = self.encoder.encode_batch([self.samples, self.samples[:5_000], self.samples[:0]])
        numpy.testing.assert_array_equal(batch[0][2], whole[2])
        self.assertEqual([len(codes[0]) for codes in batch], [15, 3, 0])
        with self.assertRaisesRegex(ValueError, "is finished"):
            stream.finish()

    def test_rates_and_shapes(self):
        other = melisma.audio.resample(self.samples, 24_000, 48_000)
        self.assertEqual(self.encoder.encode(other[None], sample_rate=48_000)[0].shape, (15,))
        with self.assertRaisesRegex(ValueError, r"shape \(2, 5\)"):
            self.encoder.encode(numpy.zeros((2, 5), "f4"))
        with self.assertRaisesRegex(ValueError, "sample 3 is NaN"):
            self.encoder.encode(numpy.float32([0, 0, 0, numpy.nan]))

    def test_the_interface_of_the_snac_package(self):
        model = snac.SNAC.from_pretrained("builtin:mini24", device="cpu").eval()
        batch = numpy.stack([self.samples[:8_192], self.samples[8_192:16_384]])[:, None]
        codes = model.encode(batch)
        self.assertEqual([(level.shape, level.dtype) for level in codes], [((2, 4), "i8"), ((2, 8), "i8"), ((2, 16), "i8")])
        self.assertEqual((model.decode(codes).shape, model.sampling_rate), ((2, 1, 8_192), 24_000))
        self.assertEqual(model(batch[..., :8_000])[0].shape, (2, 1, 8_000))
        self.assertIs(model.to("cpu"), model)
        for work in [lambda: model.encode(batch[0]), lambda: model.decode(codes[:1] + [codes[1][:1]]), lambda: model.decode([])]:
            with self.assertRaises(ValueError):
                work()


if __name__ == "__main__":
    unittest.main()
