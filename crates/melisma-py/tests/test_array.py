"""Arrays in and out without copies: DLPack, and `out`."""

import unittest

import numpy

import melisma
import test_tensor  # It clears the environment.
from melisma import audio, mel, pack, snac, synth
from test_audio import tone

CPU, CUDA = 1, 2


class Producer:
    """An array that offers nothing but DLPack, as if it lay on `device`."""

    def __init__(self, array, device=CPU):
        self.array, self.device, self.copies = array, device, 0

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, *, dl_device=None, copy=None, **others):
        if self.device != CPU:
            if dl_device != (CPU, 0):
                raise BufferError("it is on a GPU")
            self.copies += 1
            return self.array.copy().__dlpack__(**others)
        return self.array.__dlpack__(**others)


class Inputs(unittest.TestCase):
    def test_memory_of_the_host_is_shared(self):
        samples = tone(22_050)[0]
        shared = melisma._array.as_numpy(Producer(samples))
        self.assertEqual(shared.ctypes.data, samples.ctypes.data)
        numpy.testing.assert_array_equal(mel.spectrogram(Producer(samples)), mel.spectrogram(samples))
        codes = numpy.arange(28, dtype="i4")
        numpy.testing.assert_array_equal(snac.populate(Producer(codes))[2], snac.populate(codes)[2])

    def test_memory_of_a_gpu_is_copied_once(self):
        samples = tone(22_050)[0]
        there = Producer(samples, CUDA)
        numpy.testing.assert_array_equal(mel.spectrogram(there), mel.spectrogram(samples))
        self.assertEqual(there.copies, 1)

    def test_what_cannot_be_shared(self):
        refusing = Producer(tone(100)[0], 99)
        refusing.__dlpack__ = None
        broken = Producer(None)
        for value in [refusing, broken]:
            with self.assertRaises(ValueError):
                mel.spectrogram(value)


class Results(unittest.TestCase):
    def results(self):
        samples = tone(22_050)[0]
        blob = pack.compress(samples)
        score = {"tempo": 120, "notes": [synth.Note("lead", 0, 0.1, 60, 0.7)]}
        decoder = snac.Decoder(device="cpu")
        return {
            "mel": lambda **out: mel.spectrogram(samples, **out),
            "resample": lambda **out: audio.resample(samples[None, None], 22_050, 16_000, **out),
            "decode": lambda **out: decoder.decode(numpy.zeros((3, 7), "i4"), **out),
            "render": lambda **out: synth.render(score, rate=16_000, **(out or {"seconds": 0.25})),
            "decompress": lambda **out: pack.decompress(blob, **out),
        }

    def test_results_are_shared_by_dlpack(self):
        for name, work in self.results().items():
            found = work()
            self.assertEqual(numpy.from_dlpack(found).ctypes.data, found.ctypes.data, name)
            self.assertTrue(found.flags.c_contiguous and found.flags.writeable, name)

    def test_out(self):
        for name, work in self.results().items():
            expected = work()
            out = numpy.full_like(expected, 9)
            self.assertIs(work(out=out), out, name)
            numpy.testing.assert_array_equal(out, expected, name)
            fixed = numpy.zeros_like(expected)
            fixed.flags.writeable = False
            wide = numpy.zeros((*expected.shape[:-1], expected.shape[-1] * 2), expected.dtype)
            for wrong in [fixed, expected.astype("c8"), wide[..., ::2], expected[..., None], expected.tolist(), "x"]:
                with self.assertRaisesRegex(ValueError, "^out: ", msg=name):
                    work(out=wrong)
        with self.assertRaisesRegex(ValueError, "out: 16000 samples are not 2 s"):
            synth.render("preset:focus", seconds=2, rate=16_000, out=numpy.zeros((2, 16_000), "f4"))

    def test_an_output_over_the_input(self):
        samples = tone(22_050)[0]
        with self.assertRaisesRegex(ValueError, "overlaps"):
            audio.resample(samples, 22_050, 22_050, out=samples)
        with self.assertRaisesRegex(ValueError, "overlaps"):
            mel.spectrogram(samples, dtype="f32", out=samples[: 80 * 87].reshape(80, 87))


class Speed(unittest.TestCase):
    def test_stretch(self):
        samples = tone(24_000, 2)
        for speed, n in [(1, 24_000), (1.25, 19_200), (0.5, 48_000)]:
            found = audio.stretch(samples, 24_000, speed)
            self.assertEqual((found.shape, found.dtype, found.flags.c_contiguous), ((2, n), "f4", True))
        numpy.testing.assert_array_equal(audio.stretch(samples, 24_000, 1), samples)
        mono = audio.stretch(samples[0], 24_000, 2)
        crossings = lambda x: int((numpy.diff(numpy.sign(x)) != 0).sum())
        self.assertAlmostEqual(crossings(mono) / crossings(samples[0, :12_000]), 1, delta=0.05)
        for text, work in {
            "0.25 to 4": lambda: audio.stretch(samples, 24_000, 5),
            "1 to 192 kHz": lambda: audio.stretch(samples, 10, 2),
            "shape": lambda: audio.stretch(samples[None], 24_000, 2),
            "channels": lambda: audio.stretch(samples[:0], 24_000, 2),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()

    def test_devices_of_a_render(self):
        score = {"tempo": 120, "notes": [synth.Note("lead", 0, 0.1, 60, 0.7)]}
        expected = synth.render(score, seconds=0.5, rate=16_000)
        numpy.testing.assert_array_equal(synth.render(score, seconds=0.5, rate=16_000, device="auto"), expected)
        with self.assertRaisesRegex(RuntimeError, "cuda:99"):
            synth.render(score, seconds=0.5, rate=16_000, device="cuda:99")
        with self.assertRaisesRegex(ValueError, "tpu"):
            synth.render(score, seconds=0.5, rate=16_000, device="tpu")


if __name__ == "__main__":
    unittest.main()
