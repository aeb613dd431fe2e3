"""Twins for `await`: the same results, and a cancelled task ends the work."""

import asyncio
import concurrent.futures
import gc
import os
import threading
import time
import unittest

import numpy

import melisma
import test_tensor  # It clears the environment.
from folder import FolderCase
from melisma import audio, dataset, mel, pack, snac, synth

PROMISED_S = 5.0
"""Ten times what it takes on a busy machine."""
N_CALLS = min(int(os.environ.get("TEST_CALLS", 3_000)), 10_000)
"""The extended check makes all of them."""


def frames(n):
    return numpy.random.default_rng(0).integers(0, 4096, (n, 7), dtype="i4")


class Tasks(FolderCase):
    def test_twins_give_what_their_calls_give(self):
        decoder, encoder = snac.Decoder(device="cpu"), snac.Encoder(device="cpu")
        samples, weights = numpy.sin(numpy.arange(24_000, dtype="f4") / 9), {"w": numpy.arange(600, dtype="f4")}
        audio.write(self.path("a.wav"), samples, 22_050)

        async def work():
            sounds = await asyncio.gather(
                synth.render_async("preset:focus", seconds=0.1), synth.voices_async([60, 64], seconds=0.1),
                decoder.decode_async(frames(3)), mel.spectrogram_async(samples), synth.render_all_async(["preset:focus"], seconds=0.1),
                encoder.encode_async(samples), decoder.decode_batch_async([frames(1)]), encoder.encode_batch_async([samples]),
            )
            sizes = await pack.save_file_async(weights, self.path("w.safetensors"))
            report = await dataset.build_async(self.path("a.wav"), self.path("a.h5"), dataset.Mel(segment=0.5), progress=False)
            merged = await dataset.merge_async([self.path("a.h5")], self.path("b.h5"), threads=1)
            checked = merged, (await dataset.verify_async(self.path("b.h5"))).rows
            return sounds, sizes, (report, *checked), await pack.load_file_async(self.path("w.safetensors"), "np")

        (piece, rows, decoded, spectrogram, pieces, codes, clips, encoded), sizes, built, loaded = asyncio.run(work())
        report, merged, verified = built
        for found, expected in [
            (piece, synth.render("preset:focus", seconds=0.1)), (rows, synth.voices([60, 64], seconds=0.1)),
            (decoded, decoder.decode(frames(3))), (spectrogram, mel.spectrogram(samples)), (pieces[0], piece),
            (clips[0], decoder.decode(frames(1))), (codes[2], encoder.encode(samples)[2]), (encoded[0][1], codes[1]),
            (loaded["w"], weights["w"]),
        ]:
            numpy.testing.assert_array_equal(found, expected)
        self.assertEqual((sizes.source_bytes > 2_400, report.rows, merged, verified), (True, 3, 3, 3))
        self.assertEqual(synth.render_async.__name__, "render_async")
        self.assertIn("`render`, on a thread", synth.render_async.__doc__)

    def cancelled(self, start, after=0.2, once=lambda: True):
        """Cancels what `start` begins, once it runs and `once()` holds. What it may still take is the CPU's time, which
        a busy machine does not stretch."""

        async def work():
            task = asyncio.ensure_future(start())
            await asyncio.sleep(after)
            while not (task.done() or once()):
                await asyncio.sleep(0.01)
            if task.done():
                return None
            task.cancel()
            begun = time.process_time()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(task.cancelled())
            return time.process_time() - begun

        busy_s = asyncio.run(work())
        if busy_s is None:
            self.assertGreater(after, 1e-3, "it ends before it can be cancelled")
            return self.cancelled(start, after / 4, once)
        self.assertLess(busy_s, PROMISED_S)

    def test_a_cancelled_task_ends_the_work(self):
        decoder, encoder = snac.Decoder(device="cpu"), snac.Encoder(device="cpu")
        hour = numpy.zeros(24_000 * 3_600, "f4")
        self.cancelled(lambda: decoder.decode_async(frames(100_000)))
        self.cancelled(lambda: encoder.encode_async(hour))
        self.cancelled(lambda: mel.spectrogram_async(hour[: 24_000 * 60], n_fft=4_096, hop_length=1, n_mels=10))
        self.cancelled(lambda: synth.render_async("preset:focus", seconds=7_200))
        self.cancelled(lambda: synth.render_all_async(["preset:focus"] * 4, seconds=7_200))
        self.cancelled(lambda: synth.voices_async(numpy.full(20_000, 60), instrument="pad", seconds=1))
        self.assertEqual(decoder.decode(frames(1)).size, 2_048)

    def test_a_task_that_waits_for_a_thread_ends_at_once(self):
        free = threading.Event()
        room = numpy.zeros((1, 800), "f4")

        async def work():
            loop = asyncio.get_running_loop()
            with concurrent.futures.ThreadPoolExecutor(1) as executor:
                loop.set_default_executor(executor)
                busy = loop.run_in_executor(None, free.wait)
                try:
                    task = asyncio.ensure_future(synth.voices_async([60], rate=16_000, out=room))
                    # The loop runs the task until it waits for a thread.
                    await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task], timeout=60)
                    self.assertTrue(task.cancelled())
                    self.assertFalse(busy.done())
                finally:
                    free.set()
                await busy
                self.assertTrue((await synth.voices_async([60], rate=16_000, seconds=0.05)).any())

        asyncio.run(work())
        self.assertFalse(room.any())

    def test_no_file_is_left_under_its_name(self):
        numbers = numpy.random.default_rng(0).standard_normal(64 << 20, dtype="f4")
        path = self.path("w.safetensors")
        self.cancelled(lambda: pack.save_file_async({"w": numbers}, path))
        self.assertEqual(os.listdir(self.folder), [])
        pack.save_file({"w": numbers}, path)
        self.cancelled(lambda: pack.load_file_async(path, "np"))
        audio.write(self.path("long.wav"), numpy.zeros(22_050 * 300, "i2"), 22_050)
        feature = dataset.Mel(segment=1.0, segment_hop=0.002)
        built = self.path("x.h5")
        begun = lambda: os.path.exists(built + ".partial")
        self.cancelled(lambda: dataset.build_async(self.path("long.wav"), built, feature, progress=False), once=begun)
        self.assertFalse(os.path.exists(built))
        self.assertTrue(begun())

    def test_a_cancelled_merge_leaves_no_part_of_its_output(self):
        audio.write(self.path("long.wav"), numpy.zeros(22_050 * 60, "i2"), 22_050)
        dataset.build(self.path("long.wav"), self.path("x.h5"), dataset.Mel(segment=1.0, segment_hop=0.01), progress=False)
        self.cancelled(lambda: dataset.verify_async(self.path("x.h5"), threads=1))
        merge = lambda: dataset.merge_async([self.path("x.h5")], self.path("y.h5"), overwrite=True, threads=1)
        self.cancelled(merge)
        self.assertNotIn("y.h5.partial", os.listdir(self.folder))

    def test_a_deadline_and_errors_pass_through(self):
        async def late():
            async with asyncio.timeout(0.1):
                await synth.render_async("preset:focus", seconds=7_200)

        with self.assertRaises(TimeoutError):
            asyncio.run(late())
        with self.assertRaisesRegex(ValueError, "unknown preset `loud`"):
            asyncio.run(synth.render_async("preset:loud"))
        with self.assertRaisesRegex(OSError, "none.safetensors"):
            asyncio.run(pack.load_file_async(self.path("none.safetensors")))
        with self.assertRaises(TypeError):
            asyncio.run(synth.render_async())
        # A call on the same thread afterwards is not cancelled.
        self.assertEqual(asyncio.run(synth.voices_async([60], seconds=0.1)).shape, (1, 4_800))


class Growth(unittest.TestCase):
    def test_thousands_of_calls_leave_nothing_behind(self):
        if not os.path.exists("/proc/self/statm"):
            self.skipTest("the system does not tell the memory of a process")
        decoder, stream = snac.Decoder(device="cpu"), synth.Stream(rate=16_000)
        codes, samples, score = frames(1), numpy.zeros(800, "f4"), {"notes": []}
        rows, tracker = numpy.empty((2, 80), "f4"), melisma.MemoryTracker()

        def traced():
            with melisma.trace(), melisma.span("work"):
                pass

        def tracked():
            with tracker.track("work"):
                pass

        calls = [
            lambda: snac.populate(codes), lambda: snac.validate(codes), lambda: decoder.decode(codes),
            lambda: mel.spectrogram(samples), lambda: synth.voices([60, 64], rate=16_000, out=rows),
            lambda: synth.render(score, seconds=0.01, rate=16_000), lambda: stream.read(16),
            lambda: pack.decompress(pack.compress(samples)), traced, tracked,
        ]
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)
        self.addCleanup(lambda: loop.run_until_complete(loop.shutdown_default_executor()))
        calls.append(lambda: loop.run_until_complete(mel.spectrogram_async(samples)))

        def run(n):
            for index in range(n):
                calls[index % len(calls)]()
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        before = run(N_CALLS // 10)
        self.assertLess(run(N_CALLS) - before, 16 << 20)


if __name__ == "__main__":
    unittest.main()
