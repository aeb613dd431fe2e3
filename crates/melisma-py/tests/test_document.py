"""The tensor guide's snippets, with only the import changed, and numpy arrays where torch is missing."""

import json
import os
import shutil
import tempfile
import unittest
import unittest.mock
import urllib.request

import numpy

import melisma
import test_tensor  # It clears the environment.
from melisma import Config, MemoryTracker, TensorOptimizer, TensorRTOptimizer, apply_tensor_optimizations
from melisma.optimize import Session, optimize
from test_onnx import GOLDEN

CONFIG = {"mixed_precision": True, "memory_efficient": True, "use_tensorrt": True}


class Snippets(unittest.TestCase):
    def test_basic_usage(self):
        config = {
            "mixed_precision": True,
            "memory_efficient": True,
            "use_tensorrt": True
        }
        optimizer = TensorOptimizer(config)
        input_tensor = numpy.random.default_rng(0).standard_normal((100, 100), dtype="f4")
        optimized_tensor = optimizer.optimize_tensor(input_tensor, dtype="float16")
        with optimizer.mixed_precision_context() as scope:
            result = scope.matmul(optimized_tensor, optimized_tensor)
        self.assertEqual((optimized_tensor.dtype, result.dtype), ("f16", "f16"))
        exact = input_tensor.astype("f2").astype("f8") @ input_tensor.astype("f2").astype("f8")
        numpy.testing.assert_allclose(result.numpy(), exact, atol=0.05)

    def test_decorator(self):
        seen = []

        @apply_tensor_optimizations(CONFIG)
        def process_audio(audio_data, gain=1, *, mask=None):
            """Says what it does."""
            seen.append((audio_data.dtype, mask.dtype))
            return audio_data * audio_data.dtype.type(gain), {"mask": mask}, "text"

        audio = numpy.linspace(-1, 1, 100, dtype="f4")
        result, others, text = process_audio(audio, 0.5, mask=numpy.ones(3, "i4"))
        self.assertEqual(seen, [("f2", "i4")])
        self.assertEqual((result.dtype, others["mask"].dtype, text), ("f4", "i4", "text"))
        numpy.testing.assert_allclose(result, audio / 2, atol=1e-3)
        self.assertEqual((process_audio.__name__, process_audio.__doc__), ("process_audio", "Says what it does."))
        self.assertEqual(apply_tensor_optimizations({"enabled": False})(lambda x: x)(audio).dtype, "f4")
        self.assertEqual(apply_tensor_optimizations()(lambda: 3)(), 3)

    def test_memory_tracking(self):
        tracker = MemoryTracker()
        with tracker.track():
            pass
        with tracker.track("decode"):
            pass
        self.assertIn("tracked", tracker.get_memory_summary())
        self.assertEqual(sorted(tracker.scopes()), ["decode", "tracked"])
        self.assertEqual(MemoryTracker("1MiB").limit, 1 << 20)

    def test_profiles(self):
        config = Config.load_with_profile("field")
        self.assertEqual(config["profile"], "field")
        self.assertEqual(config.to_dict()["profile"]["value"], "field")
        self.assertIn("chunk_size", repr(config))
        self.assertNotEqual(Config.load_with_profile("training")["mixed_precision"], None)
        TensorOptimizer(config)
        TensorOptimizer(config=config)
        for text, work in {
            "calm": lambda: Config.load_with_profile("calm"),
            "does not exist": lambda: config["colour"],
            "given twice": lambda: TensorOptimizer(CONFIG, CONFIG),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.config = {"cache_dir": os.path.join(folder.name, "cache"), "threads": 1}
        self.model = shutil.copy(os.path.join(GOLDEN, "vocoder.onnx"), folder.name)
        self.x, self.y = (numpy.load(os.path.join(GOLDEN, f"vocoder.{name}.npy")) for name in "xy")

    def test_tensorrt_optimizer_gives_the_engine_s_path(self):
        optimizer = TensorRTOptimizer(self.config)
        engine_path = optimizer.optimize_onnx(self.model, input_shapes={"x": list(self.x.shape)})
        self.assertTrue(os.path.isdir(engine_path))
        self.assertTrue(optimize(self.model, {"x": self.x.shape}, config=self.config)["cache"]["hit"])

    def test_sessions_as_in_onnxruntime(self):
        session = Session(self.model, config=self.config)
        [port] = session.get_inputs()
        self.assertEqual((port.name, session.get_outputs()[0].name), ("x", "y"))
        for names in [None, ["y"]]:
            [found] = session.run(names, {"x": self.x})
            numpy.testing.assert_allclose(found, self.y, atol=1e-4)
        numpy.testing.assert_array_equal(session.run(None, {"x": self.x[::-1][::-1]})[0], found)
        for text, work in {
            "unknown output `z`": lambda: session.run(["z"], {"x": self.x}),
            "inputs": lambda: session.run(None, {"z": self.x}),
            "x": lambda: session.run(None, {"x": self.x.astype("i4")}),
        }.items():
            with self.assertRaisesRegex(melisma.MelismaError, text):
                work()
        with self.assertRaises(OSError):
            Session("none.onnx")


class Traces(unittest.TestCase):
    def test_tables_and_files(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "trace.json")
        optimizer = TensorOptimizer()
        x = numpy.ones((20, 20), "f4")
        with melisma.trace(path) as first:
            optimizer.matmul(x, x)
        with melisma.trace() as second:
            melisma.mel.spectrogram(numpy.zeros(22_050, "f4"))
        optimizer.matmul(x, x)
        self.assertIn("matmul", str(first))
        self.assertNotIn("matmul", str(second))
        self.assertIn("mel", second.table("total", 5))
        self.assertTrue(first.report())
        with open(path) as file:
            self.assertIn("traceEvents", json.load(file))
        with self.assertRaisesRegex(ValueError, "not started"):
            melisma.trace().table()
        with self.assertRaisesRegex(ValueError, "unknown column"):
            first.table("colour")


class Servers(unittest.TestCase):
    def test_a_server_in_this_process(self):
        tokens = "".join(f"<custom_token_{10 + 4096 * slot + 5}>" for slot in range(7)) * 4
        with melisma.serve(api_key="secret") as server:
            request = urllib.request.Request(
                f"{server.url}/v1/decode?format=pcm&noise=seed:0",
                tokens.encode(),
                {"Authorization": "Bearer secret", "Content-Type": "text/plain"},
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                pcm = numpy.frombuffer(answer.read(), "<i2")
        expected = melisma.snac.Decoder().decode(numpy.full((4, 7), 5))
        numpy.testing.assert_allclose(pcm / 32768, expected, atol=1 / 32768)
        with self.assertRaises(OSError):
            urllib.request.urlopen(request, timeout=120)
        server.close()
        for key, said in [("", "api_key: the key is empty"), (" ", "empty"), ("two words", "without spaces"), ("\0", "visible")]:
            with self.assertRaisesRegex(ValueError, said):
                melisma.serve(api_key=key)
        with unittest.mock.patch.dict(os.environ, MELISMA_UPSTREAM_KEY=""):
            with self.assertRaisesRegex(ValueError, "MELISMA_UPSTREAM_KEY: the key is empty"):
                melisma.serve(model="builtin:mini24", upstream="http://127.0.0.1:1")
        with self.assertRaisesRegex(ValueError, "unknown built-in"):
            melisma.serve(model="builtin:none")
        with self.assertRaisesRegex(ValueError, "upstream without model"):
            melisma.serve(upstream="http://127.0.0.1:1")


if __name__ == "__main__":
    unittest.main()
