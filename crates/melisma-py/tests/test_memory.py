"""What `MemoryTracker` and `span` see."""

import json
import os
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

import numpy

import melisma
import test_tensor  # It clears the environment.
from melisma import MemoryTracker, TensorOptimizer, snac

BYTES = 100_000_000


def near(bytes, expected=BYTES):
    return abs(bytes - expected) < expected / 10


class Tracker(unittest.TestCase):
    def test_arrays_of_numpy_are_seen_once_they_are_touched(self):
        tracker = MemoryTracker()
        for _ in range(2):
            with tracker.track("numpy"):
                ones = numpy.ones(BYTES, "u1")
            del ones
        with tracker.track("held"):
            held = numpy.ones(BYTES, "u1")
            with tracker.track("inside"):
                pass
        with tracker.track("untouched"):
            numpy.empty(BYTES, "u1")
        scopes = tracker.scopes()
        for name in ["numpy", "held"]:
            self.assertTrue(near(scopes[name]["resident_growth"]), scopes)
            self.assertLess(scopes[name]["host_peak"], BYTES / 10)
        self.assertEqual((scopes["numpy"]["calls"], held.size), (2, BYTES))
        for name in ["inside", "untouched"]:
            self.assertLess(scopes[name]["resident_growth"], BYTES / 10, name)

    def test_memory_of_the_package_is_seen_whoever_holds_it(self):
        tracker, values = MemoryTracker(), numpy.zeros(BYTES // 4, "f4")
        before = tracker.host_bytes
        with tracker.track("tensor"):
            tensor = TensorOptimizer({"device": "cpu"}).optimize_tensor(values, "float32")
            self.assertTrue(near(tracker.host_bytes - before), tracker.host_bytes)
        with tracker.track("after"):
            pass
        self.assertEqual(tensor.nbytes, BYTES)
        del tensor
        with tracker.track("decoder"):
            snac.Decoder(device="cpu")
        scopes = tracker.scopes()
        self.assertTrue(near(scopes["tensor"]["host_peak"] - before), scopes)
        self.assertTrue(near(scopes["after"]["host_peak"] - before), scopes)
        self.assertLess(scopes["decoder"]["host_peak"], BYTES / 2 + before)
        self.assertGreater(scopes["decoder"]["host_peak"], 0)
        self.assertEqual((scopes["tensor"]["pinned_peak"], scopes["tensor"]["device_peak"]), (0, 0))

    def test_an_optimizer_s_own_tracker_keeps_what_it_saw(self):
        optimizer = TensorOptimizer({"device": "cpu"})
        with optimizer.memory.track("work"):
            ones = numpy.ones(BYTES, "u1")
        self.assertEqual(ones.size, BYTES)
        self.assertTrue(near(optimizer.memory.scopes()["work"]["resident_growth"]))
        self.assertIn("resident growth", optimizer.memory.get_memory_summary())
        self.assertIn("resident memory of the program itself: ", optimizer.memory.get_memory_summary())

    def test_the_table_has_a_column_for_each(self):
        tracker = MemoryTracker("1MiB")
        with tracker.track("load"):
            pass
        lines = tracker.get_memory_summary().splitlines()
        for column in ["host peak", "pinned peak", "device peak", "torch peak", "resident growth"]:
            self.assertIn(column, lines[0])
        self.assertTrue(lines[1].startswith("all") and lines[2].startswith("load"), lines)
        self.assertTrue(any("limit: host and pinned 1MiB" in line for line in lines), lines)
        self.assertEqual(lines[-1], "torch peak and resident growth also count foreign code")

    def test_names_stay_on_their_line(self):
        tracker = MemoryTracker()
        with tracker.track("a\nb\x1b[2J"):
            pass
        with tracker.track("c\nd"):
            lines = tracker.get_memory_summary().splitlines()
        self.assertTrue(lines[2].startswith("a\\nb\\u{1b}[2J "), lines)
        self.assertIn("scopes that are still open, and are not counted: c\\nd", lines)

    def test_torch_is_asked_where_it_has_used_a_gpu(self):
        held = {"now": 5_000, "peak": 900_000}
        sampled = threading.Event()

        def memory_allocated(device):
            now = held["now"]
            if now == 700_000:
                sampled.set()
            return now

        cuda = types.SimpleNamespace(
            is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 1,
            memory_allocated=memory_allocated, max_memory_allocated=lambda device: held["peak"],
        )
        tracker = MemoryTracker()
        with unittest.mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(cuda=cuda)}):
            with tracker.track("below an earlier peak"):
                held["now"] = 700_000
                self.assertTrue(sampled.wait(60))
                held["now"] = 5_000
            with tracker.track("a new peak"):
                held["peak"] = 2_000_000
            with tracker.track("nothing"):
                pass
        with tracker.track("no torch"):
            pass
        found = {name: scope["torch_peak"] for name, scope in tracker.scopes().items()}
        expected = {"below an earlier peak": 700_000, "a new peak": 2_000_000, "nothing": 5_000, "no torch": 0}
        self.assertEqual(found, expected)

    def test_scopes_that_are_opened_twice_or_never_closed(self):
        tracker = MemoryTracker()
        scope = tracker.track("x")
        with scope, self.assertRaisesRegex(ValueError, "`x` is open already"):
            scope.__enter__()
        for closed in [scope, tracker.track("never opened")]:
            with self.assertRaisesRegex(ValueError, "is not open"):
                closed.__exit__(None, None, None)
        n_threads = len(os.listdir("/proc/self/task"))
        for _ in range(50):
            tracker.track("forgotten").__enter__()
        deadline = time.monotonic() + 30
        while len(os.listdir("/proc/self/task")) > n_threads and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertLessEqual(len(os.listdir("/proc/self/task")), n_threads)
        # It ended when nothing referred to it any more.
        self.assertEqual(tracker.scopes()["forgotten"]["calls"], 50)


class Spans(unittest.TestCase):
    def test_they_stand_in_the_table_and_the_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            with melisma.trace(path) as trace:
                with melisma.span("chord rendering"):
                    snac.Decoder(device="cpu").decode(numpy.zeros((2, 7), "i4"))
                with melisma.span("chord rendering"):
                    pass
            with open(path) as file:
                events = json.load(file)["traceEvents"]
        rows = {row["name"]: row for row in trace.report()["rows"]}
        self.assertEqual(rows["chord rendering"]["calls"], 2)
        self.assertGreaterEqual(rows["chord rendering"]["total_seconds"], rows["tensor_population"]["total_seconds"])
        self.assertEqual(sum(event["name"] == "chord rendering" for event in events), 2)
        self.assertIn("chord rendering", str(trace))
        with melisma.span("outside of a trace"):
            pass
        with melisma.trace() as lines:
            with melisma.span("a\nb"):
                pass
            melisma.span("c\td").__enter__()
        self.assertTrue(any(line.startswith("a\\nb ") for line in str(lines).splitlines()), lines)
        self.assertIn("are not counted: c\\td", str(lines))
        self.assertNotIn("outside", str(trace))

    def test_bad_use_is_said(self):
        span = melisma.span("x")
        with melisma.trace() as trace:
            with span, self.assertRaisesRegex(ValueError, "`x` is open already"):
                span.__enter__()
            with self.assertRaisesRegex(ValueError, "`x` is not open"):
                span.__exit__(None, None, None)
            melisma.span("forgotten").__enter__()
            elsewhere = melisma.span("elsewhere")
            thread = threading.Thread(target=elsewhere.__enter__)
            thread.start()
            thread.join()
            with self.assertRaisesRegex(ValueError, "`elsewhere` was opened on another thread"):
                elsewhere.__exit__(None, None, None)
        self.assertIn("spans that were not closed, and are not counted: elsewhere, forgotten", str(trace))
        self.assertEqual(trace.report()["open_spans"], ["elsewhere", "forgotten"])
        self.assertEqual(next(row["calls"] for row in trace.report()["rows"] if row["name"] == "x"), 1)
        with self.assertRaisesRegex(ValueError, "needs a name"):
            melisma.span("")
        with self.assertRaises(TypeError):
            melisma.span(3)
        # What is closed after the end of its trace is not an error.
        late = melisma.span("late")
        with melisma.trace():
            late.__enter__()
        late.__exit__(None, None, None)


if __name__ == "__main__":
    unittest.main()
