"""Models: run as they are, optimized, and run again."""

import os
import shutil
import tempfile
import unittest

import numpy

import melisma
import test_tensor  # It clears the environment.

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../golden/optimize")


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = os.path.join(folder.name, "cache")
        self.model = shutil.copy(os.path.join(GOLDEN, "vocoder.onnx"), folder.name)
        self.x, self.y = (numpy.load(os.path.join(GOLDEN, f"vocoder.{name}.npy")) for name in "xy")
        self.optimizer = melisma.TensorOptimizer(config={"cache_dir": self.cache, "threads": 1})

    def test_run_and_optimize(self):
        first = self.optimizer.run(self.model, {"x": self.x})
        numpy.testing.assert_allclose(first["y"], self.y, atol=1e-4)
        first["y"] += 1
        report = self.optimizer.optimize(self.model, {"x": self.x.shape})
        self.assertFalse(report["cache"]["hit"])
        self.assertTrue(os.path.isdir(report["cache"]["path"]))
        self.assertLess(report["accuracy"]["relative"], 1e-3)
        memory = report["memory_bytes"]
        self.assertGreater(memory["peak"], 0)
        self.assertEqual(memory["allocated"], max(memory["peak"] - (memory["program"] or 0), 0))
        self.assertTrue(any(row["outcome"] for row in report["candidates"]))
        again = self.optimizer.optimize(self.model, {"x": self.x.shape})
        self.assertTrue(again["cache"]["hit"])
        measured = self.optimizer.optimize(self.model, {"x": self.x.shape}, remeasure=True)
        self.assertEqual((measured["cache"]["hit"], measured["cache"]["key"]), (False, report["cache"]["key"]))
        second = self.optimizer.run(self.model, {"x": self.x})
        numpy.testing.assert_allclose(second["y"], self.y, atol=1e-3)

    def test_run_finds_what_other_arguments_made_and_says_so(self):
        self.assertIsNone(self.optimizer.last_run)
        with self.assertLogs("melisma", "INFO") as logs:
            self.optimizer.run(self.model, {"x": self.x})
        self.assertIn("engine: rten, fp32, 1 thread, not cached: no engine is cached for this model", logs.output[-1])
        self.assertFalse(self.optimizer.last_run["cached"])
        report = self.optimizer.optimize(self.model, {"x": self.x.shape}, tolerance=0.5, engine="rten")
        self.assertEqual(report["engine"], "rten")
        with self.assertLogs("melisma", "INFO") as logs:
            found = self.optimizer.run(self.model, {"x": self.x}, precision="fp32", tolerance=1e-3)
        numpy.testing.assert_allclose(found["y"], self.y, atol=1e-3)
        self.assertIn("the only cached engine that qualifies", logs.output[-1])
        last = self.optimizer.last_run
        self.assertEqual((last["cached"], last["cache_key"]), (True, report["cache"]["key"]))
        self.assertLessEqual(last["accuracy"]["relative"], 1e-3)
        self.optimizer.run(self.model, {"x": self.x}, engine="melisma")
        self.assertEqual((self.optimizer.last_run["engine"], self.optimizer.last_run["cached"]), ("melisma-chain", False))
        self.assertIn("its engine is rten", self.optimizer.last_run["reason"])

    def test_the_answer_the_inputs_and_the_times(self):
        given = self.optimizer.optimize(self.model, {"x": self.x}, objective="memory")
        self.assertEqual((given["objective"], given["evidence"]), ("memory", "given"))
        self.assertIn(" on this machine (", given["comparison"]["answer"])
        self.assertGreater(given["comparison"]["ratio"], 0)
        generated = self.optimizer.optimize(self.model, {"x": self.x.shape})
        self.assertEqual((generated["objective"], generated["evidence"]), ("p50", "generated"))
        self.assertIn("normal distribution", generated["input_values"][0]["description"])
        self.assertEqual(set(generated["latency_seconds"]), {"p50", "p90", "p99", "min", "runs"})
        self.assertTrue(generated["operators"] or generated["operators_missing"])
        self.optimizer.run(self.model, {"x": self.x}, repeat=5)
        self.assertEqual(self.optimizer.last_run["cache_key"], given["cache"]["key"], "arrays of the user win")
        times = self.optimizer.last_run["times"]
        self.assertEqual(times["latency_seconds"]["runs"], 5)
        self.assertGreater(times["first_seconds"], 0)
        session = melisma.optimize.Session(self.model, config={"cache_dir": self.cache, "threads": 1})
        timed = session.time({"x": self.x}, repeat=4)
        self.assertEqual((timed["times"]["latency_seconds"]["runs"], timed["cached"]), (4, True))
        with self.assertRaisesRegex(ValueError, "repeat: 0 is not from 1 to 1000000"):
            session.time({"x": self.x}, repeat=0)
        with self.assertRaisesRegex(ValueError, "repeat: 1000001 is not from 0"):
            self.optimizer.run(self.model, {"x": self.x}, repeat=1_000_001)
        with self.assertRaisesRegex(ValueError, "unknown objective `p95`"):
            self.optimizer.optimize(self.model, {"x": self.x.shape}, objective="p95")

    def test_wrong_terms_are_refused(self):
        for text, terms in {
            "unknown engine `warp`": {"engine": "warp"},
            "unknown precision `bf16`": {"precision": "bf16"},
            "tolerance: -1 is not": {"tolerance": -1.0},
        }.items():
            for call in (self.optimizer.run, self.optimizer.optimize):
                inputs = {"x": self.x} if call == self.optimizer.run else {"x": self.x.shape}
                with self.assertRaisesRegex(ValueError, text):
                    call(self.model, inputs, **terms)
        low = melisma.TensorOptimizer(config={"cache_dir": self.cache, "precision": "bf16"})
        with self.assertRaisesRegex(RuntimeError, "no engine runs ONNX models in bf16"):
            low.run(self.model, {"x": self.x})

    def test_what_is_wrong_is_said(self):
        for text, inputs in {
            "`x` is missing\nhint: the model takes x": {},
            "no input is called `z`": {"x": self.x, "z": self.x},
            "input `x`: f32\\[1, 3, time\\] is expected, not f32\\[3, 50\\]": {"x": self.x[0]},
            "list is neither": {"x": [1.0]},
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                self.optimizer.run(self.model, inputs)
        with self.assertRaisesRegex(OSError, "absent"):
            self.optimizer.run(os.path.join(GOLDEN, "absent.onnx"), {})
        with self.assertRaisesRegex(ValueError, "vocoder.x.npy"):
            self.optimizer.run(os.path.join(GOLDEN, "vocoder.x.npy"), {})


if __name__ == "__main__":
    unittest.main()
