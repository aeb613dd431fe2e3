"""Spectrograms."""

import multiprocessing
import pickle
import unittest

import numpy

from melisma import mel
from test_audio import tone


def reference(x, n_fft=1024, hop=256):
    """The power spectrogram of torchaudio's framing."""
    padded = numpy.pad(x.astype("f8"), n_fft // 2, mode="reflect")
    window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(n_fft) / n_fft)
    frames = [padded[start : start + n_fft] * window for start in range(0, len(x) + 1, hop)]
    return numpy.abs(numpy.fft.rfft(frames, axis=1)).T ** 2


def in_child(samples, queue):
    queue.put(mel.spectrogram(samples).sum(dtype="f8"))


class Spectrograms(unittest.TestCase):
    def test_the_builder_s_numbers(self):
        x = tone(22_050)[0]
        found = mel.spectrogram(x)
        self.assertEqual((found.shape, found.dtype), ((80, 87), "f2"))
        points = 700 * (10 ** (numpy.linspace(0, 2595 * numpy.log10(1 + 11_025 / 700), 82) / 2595) - 1)
        bins = numpy.linspace(0, 11_025, 513)
        up = (bins - points[:-2, None]) / numpy.diff(points)[:-1, None]
        down = (points[2:, None] - bins) / numpy.diff(points)[1:, None]
        filters = numpy.maximum(0, numpy.minimum(up, down))
        expected = 20 * numpy.log10(numpy.maximum(filters @ reference(x), 1e-10))
        loud = expected > -60
        numpy.testing.assert_allclose(found[loud], expected[loud], atol=0.1)

    def test_rows_types_and_strides(self):
        x = tone(16_000, 3)
        rows = mel.spectrogram(x, preset="whisper-80")
        self.assertEqual((rows.shape, rows.dtype), ((3, 80, 100), "f4"))
        for row, samples in zip(rows, x, strict=True):
            numpy.testing.assert_array_equal(row, mel.spectrogram(samples, preset="whisper-80"))
        backwards = numpy.ascontiguousarray(x[:, ::-1])
        numpy.testing.assert_array_equal(mel.spectrogram(x[:, ::-1]), mel.spectrogram(backwards))
        integers = (x * 32768).round().astype("i2")
        numpy.testing.assert_allclose(mel.spectrogram(integers, preset="whisper-80"), rows, atol=0.05)
        fixed = x.copy()
        fixed.flags.writeable = False
        numpy.testing.assert_array_equal(mel.spectrogram(fixed), mel.spectrogram(x))

    def test_values_by_name(self):
        x = tone(16_000)[0]
        self.assertEqual(mel.spectrogram(x, preset="torchaudio", n_mels=32, dtype="f16").dtype, "f2")
        plain = mel.spectrogram(x, preset="torchaudio")
        numpy.testing.assert_allclose(mel.spectrogram(x, preset="torchaudio", remove_dc=False, f_max=None), plain)
        self.assertEqual(set(mel.Transform("hifigan").values), {*mel.keys(), "preset"})
        self.assertIn("whisper-128", mel.presets())

    def test_other_rates(self):
        x = tone(48_000)[0]
        self.assertEqual(mel.spectrogram(x, sample_rate=48_000, preset="whisper-80").shape, (80, 100))
        self.assertEqual(mel.spectrogram(x, sample_rate=16_000, preset="whisper-80").shape, (80, 300))

    def test_out(self):
        x = tone(22_050, 2)
        out = numpy.full((2, 80, 87), 9, "f2")
        self.assertIs(mel.spectrogram(x, out=out), out)
        numpy.testing.assert_array_equal(out, mel.spectrogram(x))
        one = numpy.zeros((80, 87), "f2")
        self.assertIs(mel.spectrogram(x[0], out=one), one)
        numpy.testing.assert_array_equal(one, out[0])
        fixed = one.copy()
        fixed.flags.writeable = False
        for wrong in [numpy.zeros((80, 86), "f2"), numpy.zeros((80, 87), "f4"), numpy.zeros((87, 80), "f2").T, fixed, one[0]]:
            with self.assertRaisesRegex(ValueError, "out: "):
                mel.spectrogram(x[0], out=wrong)

    def test_transforms_are_pickled(self):
        transform = mel.Transform("builder", n_mels=20)
        again = pickle.loads(pickle.dumps(transform))
        numpy.testing.assert_array_equal(again(tone(4_000)[0]), transform(tone(4_000)[0]))

    def test_what_is_refused(self):
        x = tone(4_000)[0]
        for text, work in {
            "unknown preset `whisper`": lambda: mel.spectrogram(x, preset="whisper"),
            "unknown key `n_mel`": lambda: mel.spectrogram(x, n_mel=3),
            "n_mels is 0": lambda: mel.spectrogram(x, n_mels=0),
            "too few to reflect": lambda: mel.spectrogram(x[:3]),
            r"shape \(2, 2, 4000\)": lambda: mel.spectrogram(numpy.zeros((2, 2, 4_000), "f4")),
            "int64": lambda: mel.spectrogram(numpy.zeros(4_000, "i8")),
            "half precision": lambda: mel.spectrogram(x * numpy.nan),
            "not a number or a word": lambda: mel.spectrogram(x, n_mels=[3]),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()

    def test_shapes_of_any_number_of_samples(self):
        for preset in mel.presets():
            transform = mel.Transform(preset, device="cpu")
            for n in [2**31, 2**53, 2**64 - 1]:
                self.assertGreater(max(transform.shape(n)), n // 10_000, preset)

    def test_a_forked_process_makes_its_own_threads(self):
        x = tone(22_050)[0]
        expected = mel.spectrogram(x).sum(dtype="f8")
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=in_child, args=(x, queue))
        child.start()
        self.assertEqual(queue.get(timeout=120), expected)
        child.join(120)
        self.assertEqual(child.exitcode, 0)


if __name__ == "__main__":
    unittest.main()
