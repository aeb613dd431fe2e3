"""Elementwise operations, precision scopes and files of weights."""

import json
import os
import struct
import tempfile
import unittest

import numpy

import melisma
from test_tensor import SEED, ramp

OPERATIONS = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]


def safetensors(path, arrays):
    """Writes FP32 arrays in the plain format."""
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()))


class Combine(unittest.TestCase):
    def test_arrays_are_changed_where_they_are(self):
        optimizers = [melisma.TensorOptimizer(config={"chunk_size": size}) for size in ["auto", 3]]
        for operation in OPERATIONS:
            for dtype in [numpy.float32, numpy.float16]:
                for shape in [(40, 130), (5000,), (0, 4), ()]:
                    y, x = ramp(*shape).astype(dtype), (ramp(*shape) + numpy.float32(0.75)).astype(dtype)
                    expected = getattr(numpy, operation)(y.astype(numpy.float32), x.astype(numpy.float32)).astype(dtype)
                    expected = getattr(numpy, operation)(expected.astype(numpy.float32), numpy.float32(-0.25)).astype(dtype)
                    for optimizer in optimizers:
                        found = y.copy()
                        place = found.ctypes.data
                        optimizer.combine_in_place(operation, found, x)
                        optimizer.combine_in_place(operation, found, -0.25)
                        self.assertEqual(found.ctypes.data, place)
                        numpy.testing.assert_array_equal(found, expected)
                        tensor = optimizer.optimize_tensor(y)
                        optimizer.combine_in_place(operation, tensor, x)
                        beside = optimizer.combine(operation, tensor, -0.25)
                        numpy.testing.assert_array_equal(beside, expected)

    def test_what_is_not_a_number_is_as_in_numpy(self):
        odd = numpy.float32([0, -0.0, 1, -1, numpy.inf, -numpy.inf, numpy.nan])
        y, x = (side.reshape(-1).copy() for side in numpy.meshgrid(odd, odd))
        optimizer = melisma.TensorOptimizer({"device": "cpu", "threads": 1})
        for operation in ["maximum", "minimum"]:
            for dtype in ["f4", "f2"]:
                expected = getattr(numpy, operation)(y.astype(dtype), x.astype(dtype))
                found = optimizer.combine(operation, y.astype(dtype), x.astype(dtype)).numpy()
                numpy.testing.assert_array_equal(found, expected, f"{operation} {dtype}")
                for number in [numpy.nan, 0.5]:
                    expected = getattr(numpy, operation)(y.astype(dtype), numpy.dtype(dtype).type(number))
                    found = optimizer.combine(operation, y.astype(dtype), number).numpy()
                    numpy.testing.assert_array_equal(found, expected, f"{operation} {dtype} {number}")

    def test_floats_on_the_cpu_need_no_memory(self):
        optimizer = melisma.TensorOptimizer(memory_limit="4KiB", config={"device": "cpu"})
        y = ramp(1 << 20)
        optimizer.combine_in_place("multiply", y, 2)
        numpy.testing.assert_array_equal(y, ramp(1 << 20) * 2)
        with self.assertRaises(MemoryError):
            melisma.TensorOptimizer(memory_limit=16, config={"device": "cpu"}).combine_in_place("add", y.astype("f2"), 1)

    def test_shared_memory_and_other_types(self):
        optimizer = melisma.TensorOptimizer()
        y = ramp(100)
        optimizer.combine_in_place("add", y, y)
        numpy.testing.assert_array_equal(y, ramp(100) * 2)
        y = ramp(100)
        optimizer.combine_in_place("add", y[1:], y[:-1])
        numpy.testing.assert_array_equal(y[1:], ramp(100)[1:] + ramp(100)[:-1])
        tensor = optimizer.optimize_tensor(ramp(100))
        optimizer.combine_in_place("multiply", tensor, tensor)
        numpy.testing.assert_array_equal(tensor, ramp(100) ** 2)
        y = ramp(10, 10)
        optimizer.combine_in_place("add", y, optimizer.optimize_tensor(ramp(10, 10).T, "float16"))
        numpy.testing.assert_array_equal(y, ramp(10, 10) + ramp(10, 10).T.astype("f2").astype("f4"))

    def test_what_cannot_be_combined(self):
        optimizer = melisma.TensorOptimizer()
        y = ramp(4, 6)
        fixed = ramp(4)
        fixed.flags.writeable = False
        for text, work in {
            "power.*\n.*subtract": lambda: optimizer.combine_in_place("power", y, 2),
            r"\[4, 6\] and \[6\] differ": lambda: optimizer.combine_in_place("add", y, ramp(6)),
            r"\[4, 6\] and \[1\] differ": lambda: optimizer.combine_in_place("add", y, ramp(1)),
            "in order": lambda: optimizer.combine_in_place("add", y.T, 1),
            "str is neither": lambda: optimizer.combine_in_place("add", y, "1"),
            "list is neither": lambda: optimizer.combine_in_place("add", [1.0], 1),
            "int32.*\n.*astype": lambda: optimizer.combine_in_place("add", y.astype("i4"), 1),
            "not writeable": lambda: optimizer.combine_in_place("add", fixed, 1),
        }.items():
            with self.assertRaisesRegex(melisma.MelismaError, text):
                work()
        numpy.testing.assert_array_equal(y, ramp(4, 6))


class Scopes(unittest.TestCase):
    def test_products_in_a_scope(self):
        optimizer = melisma.TensorOptimizer(config=SEED)
        a, b = ramp(33, 500), ramp(500, 17)
        with optimizer.mixed_precision() as scope:
            self.assertEqual(scope.dtype, "f16")
            lowered = scope.matmul(a, b)
        halves = [x.astype(numpy.float16).astype(numpy.float64) for x in [a, b]]
        self.assertEqual(lowered.dtype, "f16")
        numpy.testing.assert_allclose(lowered.numpy(), halves[0] @ halves[1], atol=2e-3, rtol=1e-3)
        self.assertEqual(optimizer.matmul(a, b).dtype, "f32")
        with self.assertRaisesRegex(ValueError, "not open"):
            scope.matmul(a, b)

    def test_apply(self):
        optimizer = melisma.TensorOptimizer(config=SEED)

        def work(scope, a, b):
            self.assertEqual((a.dtype, b.dtype), ("f16", "f16"))
            return scope.matmul(a, b)

        self.assertEqual(optimizer.apply("step", [ramp(3, 4), ramp(4, 5)], work).shape, (3, 5))
        with self.assertRaises(ZeroDivisionError):
            optimizer.apply("step", [], lambda scope: 1 / 0)
        self.assertEqual(optimizer.memory.scopes()["step"]["calls"], 2)


class Files(unittest.TestCase):
    def test_weights_come_one_at_a_time(self):
        arrays = {f"layer.{index}": ramp(100, 50) + numpy.float32(index) for index in range(20)}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            safetensors(path, arrays)
            optimizer = melisma.TensorOptimizer(memory_limit="64KiB")
            sums = {}
            melisma.Weights(path).load(optimizer, lambda name, tensor: sums.update({name: tensor.numpy()}))
            self.assertEqual(list(sums), list(arrays))
            for name, array in arrays.items():
                numpy.testing.assert_array_equal(sums[name], array)
            with self.assertRaises(MemoryError):
                kept = {}
                melisma.Weights(path).load(optimizer, kept.__setitem__)
            self.assertEqual(len(kept), 3)
            kept.clear()
            with self.assertRaises(ZeroDivisionError):
                melisma.Weights(path).load(optimizer, lambda name, tensor: 1 / 0)
            with open(path, "r+b") as file:
                file.truncate(1000)
            with self.assertRaisesRegex(ValueError, "model.safetensors"):
                melisma.Weights(path).load(optimizer, kept.__setitem__)
            with self.assertRaisesRegex(OSError, "absent"):
                melisma.Weights(os.path.join(folder, "absent"))


if __name__ == "__main__":
    unittest.main()
