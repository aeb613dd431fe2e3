"""What people do without thinking of it: it works, or is refused in words."""

import gc
import multiprocessing
import os
import pickle
import time
import unittest
import urllib.request

import numpy

import melisma
from folder import FolderCase
from melisma import audio, dataset, mel, optimize, pack, snac, speak, synth


class Doubled(dataset.Dataset):
    """A dataset with rows of its own, and a value of its own."""

    def __init__(self, path):
        super().__init__(path)
        self.factor = 2

    def __getitem__(self, index):
        return super().__getitem__(index) * self.factor


def shape_of(transform, queue):
    queue.put(transform(numpy.zeros(22_050, "f4")).shape)


class Habits(FolderCase):
    def test_codes_of_another_shape(self):
        frames = numpy.arange(28).reshape(4, 7)
        decoder = snac.Decoder(device="cpu")
        for work in [decoder.decode, decoder.stream().push, snac.populate]:
            for codes in [frames.T, frames.reshape(1, 28), frames.reshape(2, 14)]:
                with self.assertRaisesRegex(ValueError, "codes of shape"):
                    work(codes)
        self.assertEqual(decoder.stream().push([]).size, 0)

    def test_unaligned_arrays_are_copied(self):
        samples = numpy.sin(numpy.arange(22_050) / 9).astype("f4")
        moved = numpy.frombuffer(b"-" + samples.tobytes(), "f4", offset=1)
        self.assertFalse(moved.flags.aligned)
        numpy.testing.assert_array_equal(mel.spectrogram(moved), mel.spectrogram(samples))
        numpy.testing.assert_array_equal(audio.resample(moved, 2, 1), audio.resample(samples, 2, 1))
        room = numpy.frombuffer(bytearray(80 * 87 * 2 + 1), "f2", offset=1).reshape(80, 87)
        with self.assertRaisesRegex(ValueError, "out: .*aligned"):
            mel.spectrogram(samples, out=room)

    def test_unaligned_tensors_are_copied(self):
        optimizer = melisma.TensorOptimizer({"device": "cpu", "threads": 1})
        values = numpy.arange(12, dtype="f4").reshape(3, 4)
        moved = numpy.frombuffer(bytearray(b"-" + values.tobytes()), "f4", offset=1).reshape(3, 4)
        self.assertFalse(moved.flags.aligned)
        numpy.testing.assert_array_equal(optimizer.optimize_tensor(moved), values)
        numpy.testing.assert_array_equal(optimizer.optimize_tensor(moved[:, ::-1]), values[:, ::-1])
        numpy.testing.assert_array_equal(optimizer.matmul(moved, moved.T), values @ values.T)
        numpy.testing.assert_array_equal(optimizer.combine("add", moved, moved), values * 2)
        changed = values.copy()
        optimizer.combine_in_place("add", changed, moved)
        numpy.testing.assert_array_equal(changed, values * 2)
        with self.assertRaisesRegex(melisma.MelismaError, "aligned"):
            optimizer.combine_in_place("add", moved, 1)
        nothing = moved[:0]
        optimizer.combine_in_place("add", nothing, 1)
        self.assertEqual(optimizer.optimize_tensor(nothing).shape, (0, 4))
        self.assertEqual(audio.stretch(moved[0, :0], 8_000, 2).shape, (0,))
        audio.write(self.path("empty.wav"), moved[0, :0], 8_000)

    def test_integers_are_no_paths(self):
        """As a path, an int is an open file of this process, and whoever opens it closes it."""
        file = os.open(self.path("open"), os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, file)
        score, samples = synth.Score(), numpy.zeros(9, "f4")
        audio.write(self.path("a.wav"), samples, 8_000)
        pack.save_file({"w": samples}, self.path("x"))
        for number in [file, True]:
            for name, work in {
                "read": audio.read,
                "write": lambda path: audio.write(path, samples, 8_000),
                "build": lambda path: dataset.build(path, self.path("x.h5"), progress=False),
                "build of many": lambda path: dataset.build([path], self.path("x.h5"), progress=False),
                "output": lambda path: dataset.build(self.folder, path, progress=False),
                "metadata": lambda path: dataset.build(
                    self.folder, "x.h5", dataset.Tokens(texts=dataset.Table(path, 1)), progress=False
                ),
                "merge": lambda path: dataset.merge([path], self.path("x.h5")),
                "merged": lambda path: dataset.merge([self.path("x.h5")], path),
                "open": dataset.open,
                "session": optimize.Session,
                "optimize": lambda path: optimize.optimize(path, {}),
                "calibrate": lambda path: optimize.optimize("x.onnx", {}, calibrate=path),
                "onnx": lambda path: melisma.TensorRTOptimizer().optimize_onnx(path, {}),
                "run": lambda path: melisma.TensorOptimizer().run(path, {}),
                "settings": lambda path: melisma.TensorOptimizer(config=path),
                "load_file": pack.load_file,
                "base": lambda path: pack.load_file(self.path("x"), base=path),
                "safe_open": pack.safe_open,
                "save_file": lambda path: pack.save_file({"w": samples}, path),
                "delta": lambda path: pack.save_file({"w": samples}, self.path("x"), base=path),
                "snac": snac.SNAC.from_pretrained,
                "decoder": snac.Decoder,
                "speaker": speak.Speaker,
                "from_midi": synth.Score.from_midi,
                "to_midi": score.to_midi,
                "weights": melisma.Weights,
                "trace": melisma.trace,
            }.items():
                with self.assertRaises(TypeError, msg=name):
                    work(number)
        os.fstat(file)

    def test_subclasses_of_datasets(self):
        audio.write(self.path("a.wav"), numpy.sin(numpy.arange(66_150) / 9), 22_050)
        dataset.build(self.path("a.wav"), self.path("a.h5"), dataset.Mel(segment=1.0), progress=False)
        rows, doubled = dataset.open(self.path("a.h5")), Doubled(self.path("a.h5"))
        doubled.factor = 3
        for opened in [doubled, pickle.loads(pickle.dumps(doubled))]:
            numpy.testing.assert_array_equal(opened.__getitems__([1])[0], rows[1] * 3)
        with self.assertRaisesRegex(ValueError, "list is not a batch"):
            dataset.collate(doubled.__getitems__([1]))

    def test_a_file_that_is_replaced_while_it_is_open(self):
        tensors = {"a": numpy.zeros(4096, "f4"), "b": numpy.zeros(4096, "f4")}
        pack.save_file(tensors, self.path("x.safetensors"))
        with pack.safe_open(self.path("x.safetensors"), "np") as file:
            pack.save_file({name: values + 1 for name, values in tensors.items()}, self.path("x.safetensors"))
            self.assertEqual(file.get_tensor("b")[0], 0)
        os.mkfifo(self.path("pipe"))
        with self.assertRaisesRegex(ValueError, "not a file"):
            pack.load_file(self.path("pipe"))

    def test_files_that_are_missing(self):
        for work in [audio.read, pack.load_file, snac.Decoder, dataset.open]:
            with self.assertRaises(FileNotFoundError) as raised:
                work(self.path("none.wav"))
            self.assertIsInstance(raised.exception, melisma.MelismaError)
            self.assertEqual(pickle.loads(pickle.dumps(raised.exception)).errno, 2)

    def test_samples_that_are_not_finite(self):
        for value in [numpy.nan, numpy.inf]:
            with self.assertRaisesRegex(ValueError, "sample 2 is not finite"):
                audio.write(self.path("x.wav"), numpy.array([0, 0, value, 0]), 8_000)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_transform_after_a_fork(self):
        transform = mel.Transform()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=shape_of, args=(transform, queue))
        child.start()
        self.assertEqual(queue.get(timeout=120), (80, 87))
        child.join(120)
        self.assertEqual(child.exitcode, 0)

    def test_models_move_in_place(self):
        model = snac.SNAC.from_pretrained("builtin:mini24")
        self.assertIs(model.cpu().eval().float(), model)
        self.assertEqual((model.codebook_size, model.hop_length), (4096, 512))

    def test_traces_end_with_their_block(self):
        with melisma.trace() as trace:
            mel.spectrogram(numpy.zeros(22_050, "f4"))
        before = trace.table()
        mel.spectrogram(numpy.zeros(22_050, "f4"))
        self.assertEqual(trace.table(), before)
        ran = []
        with self.assertRaises(OSError):
            with melisma.trace(self.path("none/trace.json")):
                ran.append(True)
        self.assertEqual(ran, [])
        with self.assertRaises(KeyError):
            with melisma.trace(self.path("trace.json")):
                raise KeyError

    def test_a_server_that_nobody_holds(self):
        server = melisma.serve()
        url = server.url
        with urllib.request.urlopen(f"{url}/v1/models", timeout=120) as answer:
            self.assertEqual(answer.status, 200)
        del server
        gc.collect()
        end = time.monotonic() + 120
        with self.assertRaises(OSError):
            while time.monotonic() < end:
                urllib.request.urlopen(f"{url}/v1/models", timeout=120).close()
                time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
