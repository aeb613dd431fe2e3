"""The tools against numpy, and what they say when something is wrong."""

import os
import pickle
import signal
import threading
import unittest

for name in [name for name in os.environ if name.startswith("MELISMA_")]:
    del os.environ[name]
os.environ["MELISMA_DEVICE"] = "cpu"

import numpy

import melisma

SEED = {"mixed_precision": True, "memory_efficient": True, "target_precision": "fp16", "chunk_size": 512}


def ramp(*shape):
    return (numpy.arange(numpy.prod(shape, dtype=int), dtype=numpy.float32) * 7919 % 1009 / 1009 - 0.5).reshape(shape)


class Tensors(unittest.TestCase):
    def test_settings_choose_the_type(self):
        x = ramp(8, 8)
        self.assertEqual(melisma.TensorOptimizer().optimize_tensor(x).dtype, "f32")
        lowered = melisma.TensorOptimizer(config=SEED).optimize_tensor(x)
        self.assertEqual((lowered.dtype, lowered.shape, lowered.nbytes), ("f16", (8, 8), 128))
        numpy.testing.assert_array_equal(lowered.numpy(), x.astype(numpy.float16))
        nested = melisma.TensorOptimizer(config={"tensor_optimizations": dict(SEED, target_precision="bf16")})
        self.assertEqual(nested.optimize_tensor(x).dtype, "bf16")
        training = melisma.TensorOptimizer("training", {"mixed_precision": True})
        self.assertEqual(training.optimize_tensor(x, "float16").dtype, "f16")

    def test_arrays_of_every_type_and_order_come_back(self):
        optimizer = melisma.TensorOptimizer()
        for dtype in [numpy.float32, numpy.float16, numpy.int64, numpy.int32, numpy.int16, numpy.uint8]:
            x = (ramp(3, 4, 5) * 100 + 50).astype(dtype)
            for array in [x, x.T, x[::2, ::-1], numpy.asfortranarray(x), x[:0], x[0, 0, :1].reshape(())]:
                found = optimizer.optimize_tensor(array).numpy()
                self.assertEqual(found.dtype, array.dtype)
                numpy.testing.assert_array_equal(found, array)

    def test_types_by_name_and_by_numpy(self):
        optimizer = melisma.TensorOptimizer()
        for dtype in ["float16", "fp16", "f16", numpy.float16, numpy.dtype("float16")]:
            self.assertEqual(optimizer.optimize_tensor(ramp(4), dtype).dtype, "f16")
        wide = optimizer.optimize_tensor(optimizer.optimize_tensor(ramp(4), "bfloat16"), numpy.float32)
        numpy.testing.assert_allclose(numpy.asarray(wide), ramp(4), rtol=2**-8)
        self.assertEqual(numpy.asarray(wide, dtype=numpy.float64).dtype, numpy.float64)

    def test_products(self):
        optimizer = melisma.TensorOptimizer()
        a, b = ramp(33, 500), ramp(500, 17)
        exact = a.astype(numpy.float64) @ b
        numpy.testing.assert_allclose(optimizer.matmul(a, b).numpy(), exact, atol=1e-4)
        a_tensor, b_tensor = optimizer.optimize_tensor(a), optimizer.optimize_tensor(b)
        numpy.testing.assert_array_equal(optimizer.matmul(a_tensor, b_tensor), optimizer.matmul(a, b))
        chunked = melisma.TensorOptimizer(config={"chunk_size": 3})
        numpy.testing.assert_array_equal(chunked.matmul(a, b), optimizer.matmul(a, b))


class Memory(unittest.TestCase):
    def test_tensors_count_while_they_live(self):
        optimizer = melisma.TensorOptimizer(memory_limit="1MiB")
        self.assertEqual(optimizer.memory.limit, 1 << 20)
        with optimizer.memory.track("load"):
            tensor = optimizer.optimize_tensor(ramp(100, 100))
            optimizer.optimize_tensor(ramp(50, 100))
        self.assertEqual(optimizer.memory.host_bytes, 40_000)
        del tensor
        self.assertEqual(optimizer.memory.host_bytes, 0)
        scope = optimizer.memory.scopes()["load"]
        counted = {"calls": 1, "host_peak": 60_000, "pinned_peak": 0, "device_peak": 0, "torch_peak": 0}
        self.assertEqual(scope, {**counted, "resident_growth": scope["resident_growth"]})
        [line] = [line for line in optimizer.memory.summary().splitlines() if line.startswith("load")]
        self.assertEqual(line.split()[:4], ["load", "1", "-", "58.6KiB"], "the bytes of a scope that was left are gone")

    def test_the_limit_refuses(self):
        optimizer = melisma.TensorOptimizer(memory_limit=1000)
        with self.assertRaises(MemoryError) as caught:
            optimizer.optimize_tensor(ramp(1000))
        self.assertEqual(caught.exception.kind, "memory")
        self.assertEqual(caught.exception.hint, "raise memory_limit, or use smaller batches or chunks")

    def test_a_scope_ends_with_an_exception(self):
        optimizer = melisma.TensorOptimizer()
        track = optimizer.memory.track("broken")
        with self.assertRaises(KeyError), track:
            with self.assertRaisesRegex(ValueError, "open already"):
                track.__enter__()
            raise KeyError
        self.assertEqual(optimizer.memory.scopes()["broken"]["calls"], 1)


class Errors(unittest.TestCase):
    def check(self, kind, exception, text, hint, work):
        with self.assertRaisesRegex(exception, text) as caught:
            work()
        error = caught.exception
        self.assertIsInstance(error, melisma.MelismaError)
        self.assertEqual(error.kind, kind)
        self.assertIn(hint, error.hint or "")
        self.assertIn(hint, str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.kind), (type(error), str(error), kind))

    def test_kinds_messages_and_hints(self):
        optimizer = melisma.TensorOptimizer()
        big = numpy.float32([1, 1e6])
        new = melisma.TensorOptimizer
        self.check("check", ValueError, "element 1 is 1000000", "bf16", lambda: optimizer.optimize_tensor(big, "float16"))
        self.check("unsupported", RuntimeError, "float64", "astype", lambda: optimizer.optimize_tensor(numpy.zeros(3)))
        swapped = big.astype(">f4")
        self.check("unsupported", RuntimeError, "byte order", "astype", lambda: optimizer.combine_in_place("add", swapped, 1.0))
        numpy.testing.assert_array_equal(optimizer.optimize_tensor(swapped).numpy(), big)
        self.check("invalid_argument", ValueError, "list is neither", "asarray", lambda: optimizer.optimize_tensor([1.0]))
        self.check("invalid_argument", ValueError, "int8", "float16", lambda: optimizer.optimize_tensor(big, "int8"))
        self.check("invalid_argument", ValueError, "3 columns, B has 4", "", lambda: optimizer.matmul(ramp(2, 3), ramp(4, 2)))
        self.check("invalid_argument", ValueError, "chunksize", "chunk_size", lambda: new(config={"chunksize": 3}))
        self.check("invalid_argument", ValueError, "chunk_size", "", lambda: new(config={"chunk_size": "many"}))
        self.check("invalid_argument", ValueError, "fields", "", lambda: new("fields"))
        self.check("invalid_argument", ValueError, "no such configuration file", "", lambda: new(config="no/such.yaml"))
        bf16 = optimizer.optimize_tensor(big, "bf16")
        self.check("unsupported", RuntimeError, "bf16", "float32", lambda: bf16.numpy())


class Threads(unittest.TestCase):
    def test_other_threads_run_while_the_library_works(self):
        """Where the interpreter was held, none of these products would let this thread count."""
        optimizer = melisma.TensorOptimizer(config={"threads": 1})
        most = 0
        for extent in [1000, 1500, 2000, 3000]:
            a = ramp(extent, extent)
            started, done, steps = threading.Event(), threading.Event(), 0

            def multiply():
                started.set()
                optimizer.matmul(a, a)
                done.set()

            thread = threading.Thread(target=multiply)
            thread.start()
            started.wait()
            while not done.wait(0.001):
                steps += 1
            thread.join()
            most = max(most, steps)
            if most > 5:
                return
        self.fail(f"at most {most} steps of another thread during a product")


class Processes(unittest.TestCase):
    def test_a_fork_is_refused_and_does_not_hang(self):
        optimizer = melisma.TensorOptimizer(config={"threads": 2})
        tensor = optimizer.optimize_tensor(ramp(64, 64))
        child = os.fork()
        if child == 0:
            refused = 0
            for work in [lambda: optimizer.matmul(tensor, tensor), lambda: optimizer.memory, lambda: optimizer.combine("add", tensor, 1)]:
                try:
                    work()
                except RuntimeError as error:
                    refused += "before a fork" in str(error)
            os._exit(refused)
        # A process that hangs ends this wait, and with it the test.
        alarm = threading.Timer(120, os.kill, (child, signal.SIGKILL))
        alarm.start()
        self.addCleanup(alarm.cancel)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)


if __name__ == "__main__":
    unittest.main()
