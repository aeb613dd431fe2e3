"""Weights compressed without loss."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy

import melisma
from melisma import pack
from test_combine import safetensors

INDICES = [
    *[(), ..., [0], None, (0, ...)],
    *[0, -1, slice(1, 3), slice(None, None, -2), slice(5, 2)],
    *[(..., 0), (slice(1, 3), slice(2, 9, 3)), (slice(None), slice(30, 5, -4)), (1, -2), (slice(-3, None), 4)],
    *[(0, 1, 2), (slice(None), 1, slice(3, 40)), (..., slice(-5, None)), (1, [2, 3], slice(4)), (2, ..., slice(None, None, 7))],
]
"""Five for arrays of each number of axes, from none."""
TYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8"]


def weights(*shape, seed=0):
    return (numpy.random.default_rng(seed).standard_normal(shape) * 0.02).astype("f4")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "x.safetensors")

    def same(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, array in expected.items():
            self.assertEqual((found[name].dtype, found[name].shape), (array.dtype, array.shape), name)
            numpy.testing.assert_array_equal(found[name], array, name)

    def same_part(self, part, array, index):
        """Both give the same elements, or both raise IndexError."""
        try:
            expected = array[index]
        except IndexError:
            with self.assertRaises(IndexError):
                part[index]
            return
        found = part[index]
        self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
        numpy.testing.assert_array_equal(found, expected)

    def test_every_type_and_shape(self):
        arrays = {f"t.{name}": (weights(33, 65) * 1000).astype(name) for name in TYPES}
        arrays |= {"scalar": numpy.array(3.5, "f4"), "empty": numpy.zeros((0, 4), "f2"), "cube": weights(3, 40, 50)}
        arrays |= {"strided": weights(60, 90)[::-2, ::3], "swapped": weights(5, 6).astype(">f4")}
        arrays["fixed"] = weights(4)
        arrays["fixed"].flags.writeable = False
        sizes = pack.save_file(arrays, self.path, {"format": "np"})
        self.assertEqual(sizes.packed_bytes, os.path.getsize(self.path))
        arrays["swapped"] = arrays["swapped"].astype("f4")
        self.same(pack.load_file(self.path, "np"), arrays)
        with pack.safe_open(self.path, "np") as file:
            self.assertEqual(file.keys(), sorted(arrays))
            self.assertEqual(sorted(file.offset_keys()), sorted(arrays))
            self.assertEqual(file.metadata(), {"format": "np"})
            self.same({name: file.get_tensor(name) for name in file.keys()}, arrays)
            part = file.get_slice("cube")
            self.assertEqual((part.get_shape(), part.get_dtype()), ([3, 40, 50], "F32"))
            numpy.testing.assert_array_equal(part[1, :5], arrays["cube"][1, :5])
            for name, array in arrays.items():
                for index in INDICES[: 5 * (array.ndim + 1)]:
                    with self.subTest(f"{name}[{index}]"):
                        self.assertIsNone(self.same_part(file.get_slice(name), array, index))
        with self.assertRaisesRegex(ValueError, "closed"):
            file.get_tensor("cube")

    def test_plain_files_and_large_tensors(self):
        arrays = {"a": weights(900, 700), "b": weights(3)}
        safetensors(self.path, arrays)
        self.same(pack.load_file(self.path, "np"), arrays)
        for tile_size in [None, 256, 1024]:
            sizes = pack.save_file(arrays, self.path, tile_size=tile_size)
            self.assertLess(sizes.packed_bytes, sizes.source_bytes * 0.95)
            self.same(pack.load_file(self.path, "np"), arrays)

    def test_slices_read_only_their_tiles(self):
        weight = weights(700, 900)
        plain = os.path.join(self.folder.name, "plain.safetensors")
        safetensors(plain, {"w": weight})
        pack.save_file({"w": weight}, self.path, tile_size=256)
        for path in [plain, self.path]:
            with open(path, "r+b") as file:
                # In the last tile, before the trailer; in the last row of the plain file.
                file.seek(-3_000 if path == self.path else -8, os.SEEK_END)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1]))
            with pack.safe_open(path, "np") as file:
                part = file.get_slice("w")
                numpy.testing.assert_array_equal(part[:100], weight[:100])
                numpy.testing.assert_array_equal(part[650:, 7:90:3], weight[650:, 7:90:3])
                numpy.testing.assert_array_equal(part[:100, -3:], weight[:100, -3:])
        with pack.safe_open(self.path, "np") as file:
            with self.assertRaisesRegex(ValueError, "w, tile|hash|trailer"):
                file.get_slice("w")[-1:]
        with self.assertRaisesRegex(ValueError, "closed"):
            part[:1]

    def test_errors_of_safetensors(self):
        bad, weight = os.path.join(self.folder.name, "bad.safetensors"), weights(300, 300)
        with open(bad, "wb") as file:
            file.write(b"x" * 100)
        pack.save_file({"w": weight}, self.path)
        file = pack.safe_open(self.path, "np")
        with pack.safe_open(self.path, "np") as closed:
            pass
        for text, work in {
            "bad.safetensors": lambda: pack.safe_open(bad, "np"),
            "header|bad": lambda: pack.load_file(bad, "np"),
            "unknown tensor `v`": lambda: file.get_tensor("v"),
            "unknown tensor `v`\nhint: .* has 1": lambda: file.get_slice("v"),
            "unknown framework": lambda: pack.safe_open(self.path, "xx"),
            "closed": lambda: closed.get_tensor("w"),
            "index 300": lambda: file.get_slice("w")[300],
            "too many": lambda: file.get_slice("w")[:, :, 1],
        }.items():
            with self.assertRaisesRegex(pack.SafetensorError, text) as raised:
                work()
            self.assertIsInstance(raised.exception, melisma.MelismaSafetensorError)
            self.assertIsInstance(raised.exception, ValueError)
            again = pickle.loads(pickle.dumps(raised.exception))
            self.assertEqual((type(again), str(again)), (type(raised.exception), str(raised.exception)))
        self.assertIsInstance(raised.exception, IndexError)
        with self.assertRaises(FileNotFoundError):
            pack.safe_open(os.path.join(self.folder.name, "none"), "np")
        with self.assertRaises(TypeError):
            pack.safe_open(3, "np")
        with open(self.path, "r+b") as damaged:
            damaged.seek(-3_000, os.SEEK_END)
            byte = damaged.read(1)[0]
            damaged.seek(-1, os.SEEK_CUR)
            damaged.write(bytes([byte ^ 1]))
        with self.assertRaises(pack.SafetensorError):
            pack.safe_open(self.path, "np").get_tensor("w")

    def test_the_class_of_safetensors(self):
        """Its class where it is installed, and one in its place where it is not."""
        program = "import sys; {0}; from melisma import pack; print(pack.SafetensorError.__module__)"
        run = lambda code: subprocess.run(
            [sys.executable, "-c", program.format(code)], check=True, capture_output=True, text=True, timeout=300
        ).stdout.strip()
        self.assertEqual(run("sys.modules['safetensors'] = None"), "melisma._error")
        code = "import types; m = sys.modules['safetensors'] = types.ModuleType('safetensors'); "
        code += "m.SafetensorError = type('SafetensorError', (Exception,), {'__module__': 'safetensors'})"
        self.assertEqual(run(code), "safetensors")
        with self.assertRaises(pack.SafetensorError):
            raise melisma.MelismaSafetensorError("corrupt", "text")

    def test_gpus_that_are_missing(self):
        pack.save_file({"w": weights(4)}, self.path)
        with self.assertRaisesRegex(ValueError, "cpu has no memory of its own"):
            melisma._melisma._load_to_device(self.path, "cpu")
        with self.assertRaisesRegex(RuntimeError, "cuda:99"):
            melisma._melisma._load_to_device(self.path, "cuda:99")

    def test_deltas(self):
        base, tuned = os.path.join(self.folder.name, "base.safetensors"), weights(300, 300)
        safetensors(base, {"w": tuned})
        tuned[5, 5] += 1
        sizes = pack.save_file({"w": tuned}, self.path, base=base)
        self.assertLess(sizes.packed_bytes, 20_000)
        self.same(pack.load_file(self.path, "np", base=base), {"w": tuned})
        with self.assertRaisesRegex(ValueError, "base|delta"):
            pack.load_file(self.path, "np")

    def test_bfloat16_without_ml_dtypes(self):
        bits = numpy.arange(300, dtype="u2")
        bf16 = melisma._melisma._compress("BF16", [300], bits.view("u1"))
        try:
            import ml_dtypes
        except ImportError:
            with self.assertWarnsRegex(UserWarning, "ml_dtypes"):
                found = pack.decompress(bf16)
            self.assertEqual(found.dtype, "u2")
        else:
            found = pack.decompress(bf16)
            self.assertEqual(found.dtype, ml_dtypes.bfloat16)
        numpy.testing.assert_array_equal(found.view("u2"), bits)

    def test_damaged_files(self):
        pack.save_file({"w": weights(200, 200)}, self.path)
        with open(self.path, "rb") as file:
            whole = file.read()
        rng = numpy.random.default_rng(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(60):
                damaged = bytearray(whole[: rng.integers(0, len(whole) + 1)])
                for _ in range(3):
                    if damaged:
                        damaged[rng.integers(0, len(damaged))] ^= 1 << rng.integers(0, 8)
                with open(self.path, "wb") as file:
                    file.write(damaged)
                try:
                    found = pack.load_file(self.path, "np")
                except melisma.MelismaError:
                    continue
                numpy.testing.assert_array_equal(found["w"], weights(200, 200))

    def test_what_is_refused(self):
        none = os.path.join(self.folder.name, "none")
        os.mkfifo(os.path.join(self.folder.name, "pipe"))
        for exception, text, work in [
            (OSError, "none", lambda: pack.load_file(none, "np")),
            (ValueError, "not a file", lambda: pack.load_file(self.folder.name, "np")),
            (ValueError, "unknown framework", lambda: pack.load_file(none, "jax")),
            (ValueError, "object", lambda: pack.save_file({"x": [None]}, self.path)),
            (ValueError, "not a dict", lambda: pack.save_file([1], self.path)),
            (ValueError, "3 is not a str", lambda: pack.save_file({3: weights(2)}, self.path)),
            (ValueError, "__melisma__", lambda: pack.save_file({"__melisma__": weights(2)}, self.path)),
            (ValueError, "tile", lambda: pack.save_file({"x": weights(2)}, self.path, tile_size=7)),
            (OSError, "no/such", lambda: pack.save_file({}, self.path + "/no/such")),
            (ValueError, "short|safetensors", lambda: pack.decompress(b"")),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()
        self.assertEqual(os.listdir(self.folder.name), ["pipe"])


class Tiles(unittest.TestCase):
    def test_one_encoder_for_many_tiles(self):
        encoder, decoder = pack.Encoder(tile_size=64), pack.Decoder()
        for number, name in enumerate(TYPES[:-1]):
            tile = (weights(64, 64, seed=number) * 1000).astype(name)
            blob = encoder.encode(tile, number=number)
            numpy.testing.assert_array_equal(decoder.decode(blob, (64, 64), name, number=number), tile)
            out = numpy.zeros((64, 64), name)
            self.assertIs(decoder.decode(blob, (64, 64), name, number=number, out=out), out)
            numpy.testing.assert_array_equal(out, tile)
        with self.assertRaisesRegex(ValueError, "hash|tile"):
            decoder.decode(blob, (64, 64), name, number=99)

    def test_what_is_refused(self):
        encoder, decoder = pack.Encoder(8), pack.Decoder()
        blob = encoder.encode(weights(8, 8))
        fixed = numpy.zeros((8, 8), "f4")
        fixed.flags.writeable = False
        for text, work in {
            "more than 8 x 8": lambda: encoder.encode(weights(8, 9)),
            "tile_size is 0": lambda: pack.Encoder(0),
            r"out: expected \(8, 8\)": lambda: decoder.decode(blob, (8, 8), "f4", out=numpy.zeros((8, 7), "f4")),
            "read-only": lambda: decoder.decode(blob, (8, 8), "f4", out=fixed),
            "at least 16": lambda: decoder.decode(b"", (8, 8), "f4"),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()
        for cut in range(len(blob)):
            with self.assertRaises(ValueError):
                decoder.decode(blob[:cut], (8, 8), "f4")
        with self.assertRaises(ValueError):
            decoder.decode(blob, (4, 8), "f4")


if __name__ == "__main__":
    unittest.main()
