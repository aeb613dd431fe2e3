"""The tensor guide's snippets, with only the import changed, and numpy arrays where torch is missing."""

import json
import os
import pathlib
import shutil
import socket
import tempfile
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request
import warnings

import numpy

import melisma
import test_tensor  # It clears the environment.
import voice
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

        @apply_tensor_optimizations
        def double(values):
            """Says what it does."""
            return values + values

        self.assertEqual((double(audio).dtype, double.__doc__), ("f4", "Says what it does."))

    def test_a_file_is_given_as_in_the_guide(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "jetson_optimizer.yaml")
        path.write_text("tensor_optimizations:\n  mixed_precision: true\n  target_precision: fp16\n")
        for given in [path, str(path)]:
            for optimizer in [TensorOptimizer(given), TensorOptimizer(config=given), TensorRTOptimizer(given)._optimizer]:
                self.assertEqual(optimizer.optimize_tensor(numpy.ones(3, "f4")).dtype, "f16")
        with self.assertRaisesRegex(ValueError, "none.yml: no such configuration file"):
            TensorOptimizer("none.yml")
        with self.assertRaisesRegex(ValueError, "given twice"):
            TensorOptimizer(path, CONFIG)

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
        self.assertEqual(list(config), config.keys())
        self.assertEqual((set(config), len(config)), (set(config.to_dict()), len(config.to_dict())))
        self.assertEqual(dict(config)["profile"], "field")
        self.assertTrue("chunk_size" in config and "tensor_optimizations.chunk_size" in config)
        self.assertFalse("colour" in config or 3 in config)
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
        with self.assertRaisesRegex(ValueError, "limit is -1"):
            first.table(limit=-1)
        self.assertIn("0 of ", first.table(limit=0))


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
            with self.assertWarnsRegex(UserWarning, "builtin:mini24 turns into noise") as warned:
                with self.assertRaisesRegex(ValueError, "MELISMA_UPSTREAM_KEY: the key is empty"):
                    melisma.serve(model="builtin:mini24", upstream="http://127.0.0.1:1")
        self.assertEqual(os.path.basename(warned.filename), "test_document.py")
        with self.assertRaisesRegex(ValueError, "unknown built-in"):
            melisma.serve(model="builtin:none")
        with melisma.serve(streams=3, queue=0.5) as server:
            with urllib.request.urlopen(server.url + "/v1/status", timeout=120) as answer:
                status = json.load(answer)
        self.assertEqual((status["capacity_streams"], status["queue"]["limit_seconds"]), (3, 0.5))
        with melisma.serve(streams=3, max_streams=2) as server:
            with urllib.request.urlopen(server.url + "/v1/status", timeout=120) as answer:
                status = json.load(answer)
        self.assertEqual(status["capacity_streams"], 2)
        self.assertLessEqual(status["places"]["synth"]["limit"], 2)
        for wrong, said in [
            ({"queue": 31}, "queue: expected a time of 0s to 30s"),
            ({"streams": 0}, "streams: expected auto or 1"),
            ({"speakers": 0}, "speakers: expected auto or 1 to 4096"),
            ({"voice_model": {"two words": "x"}}, "voice_model: the voice model in x has no name"),
            ({"voice_model": {"upstream": "x"}}, "voice_model: the name upstream is that of an upstream"),
            ({"max_streams": 0}, "max_streams: expected 1 to 65536, got 0"),
            ({"max_streams": 65_537}, "max_streams: expected 1 to 65536"),
        ]:
            with self.assertRaisesRegex(ValueError, said):
                melisma.serve(**wrong)
        with self.assertRaisesRegex(FileNotFoundError, "absent"):
            melisma.serve(voice_model="absent", streams=1)
        with self.assertRaisesRegex(ValueError, "upstream without model"):
            melisma.serve(upstream="http://127.0.0.1:1")

    def test_a_voice_model_speaks_here(self):
        with tempfile.TemporaryDirectory() as folder:
            voice.write(folder, end=8)
            speaker = melisma.speak.Speaker(folder, device="cpu")
            expected = speaker.speak("Good morning.", voice="bob", seed=7).samples
            models = {"ann": folder, "other": pathlib.Path(folder)}
            with melisma.serve(streams=2, voice_model=models, speakers=2, log=lambda line: None) as server:
                with urllib.request.urlopen(server.url + "/v1/models", timeout=120) as answer:
                    names = [model["id"] for model in json.load(answer)["data"]]
                fields = {"input": "Good morning.", "voice": "bob", "seed": 7, "response_format": "pcm"}
                for model in [None, "ann", "other"]:
                    body = json.dumps(fields | {"model": model}).encode()
                    request = urllib.request.Request(
                        server.url + "/v1/audio/speech", body, {"content-type": "application/json"}
                    )
                    with urllib.request.urlopen(request, timeout=120) as answer:
                        pcm = numpy.frombuffer(answer.read(), "<i2")
                    numpy.testing.assert_allclose(pcm / 32768, expected, atol=1 / 32768)
            self.assertEqual(names[:2], ["ann", "other"])
            with melisma.serve(streams=1, voice_model=folder, speakers=1, log=lambda line: None) as server:
                with urllib.request.urlopen(server.url + "/v1/models", timeout=120) as answer:
                    self.assertEqual(json.load(answer)["data"][0]["id"], os.path.basename(folder))
            with self.assertRaisesRegex(ValueError, "the voice model was trained with"):
                melisma.serve(streams=1, voice_model=voice.write(folder, codec="0" * 64))

    def test_a_file_of_keys_is_read_again_and_the_log_has_their_names(self):
        def status(key, path="/v1/status"):
            request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {key}"})
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return answer.status
            except urllib.error.HTTPError as refused:
                return refused.code

        lines = []
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "keys")
            path.write_text("ann: key-of-ann streams=2\n")
            with melisma.serve(api_key_file=path, log=lines.append) as server:
                self.assertEqual([status("key-of-ann"), status("key-of-bo")], [200, 401])
                path.write_text("bo: key-of-bo until=2999-12-31 scope=metrics\n")
                server.reload()
                self.assertEqual([status("key-of-ann"), status("key-of-bo")], [401, 200])
                self.assertEqual(status("key-of-bo", "/v1/models"), 403)
                path.write_text("bo key-of-bo\ncy: key-of-cy\n")
                with self.assertRaisesRegex(ValueError, "keys:1: expected a name and a key"):
                    server.reload()
                self.assertEqual(status("key-of-bo"), 200)
            with self.assertRaisesRegex(ValueError, "expected one of them"):
                melisma.serve(api_key="a", api_key_file=path)
        events = [json.loads(line) for line in lines if line.startswith("{")]
        names = [event.get("key") for event in events if event["event"] == "request"]
        self.assertEqual(names, ["ann", None, None, "bo", "bo", "bo"])
        self.assertNotIn("key-of-", "".join(lines))
        self.assertTrue(any(line.startswith("ready on cpu: ") for line in lines), lines)

    def test_the_log_has_lines_of_its_level(self):
        def routes(level):
            lines = []
            with melisma.serve(streams=1, log=lines.append, log_level=level) as server:
                for route in ["/health", "/v1/status"]:
                    urllib.request.urlopen(server.url + route, timeout=120).close()
            return [json.loads(line)["route"] for line in lines if line.startswith("{") and '"route"' in line]

        self.assertEqual(routes("debug"), ["/health", "/v1/status"])
        self.assertEqual(routes("info"), ["/v1/status"])
        self.assertEqual(routes("error"), [])
        with self.assertRaisesRegex(ValueError, "log_level: expected one of debug, info, warn, error, got \"loud\""):
            melisma.serve(log_level="loud")

    def test_without_a_function_warnings_go_to_logging(self):
        def served(upstream, **arguments):
            with self.assertLogs("melisma", "DEBUG") as seen, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with melisma.serve(model="builtin:mini24", streams=1, upstream=upstream, **arguments):
                    deadline = time.monotonic() + 120
                    while not any("does not answer" in line for line in seen.output) and time.monotonic() < deadline:
                        time.sleep(0.01)
            return [(record.levelname, record.getMessage()) for record in seen.records]

        # Nobody listens at the port of a socket that is closed.
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        [(level, told)] = served(f"http://{address}")
        self.assertEqual(level, "WARNING")
        self.assertTrue(told.startswith(f"warning: the upstream {address} does not answer, so speech fails"), told)
        lines = served(f"http://{address}", log_level="info")
        self.assertTrue(any(level == "INFO" and line.startswith("ready on cpu: ") for level, line in lines), lines)

    def test_the_build_is_told(self):
        build = melisma.build_info()
        self.assertEqual(sorted(build), ["commit", "features", "version"])
        self.assertEqual(build["version"], melisma.__version__)
        with melisma.serve(streams=1) as server, urllib.request.urlopen(server.url + "/health", timeout=120) as answer:
            told = json.load(answer)
        self.assertEqual((build["features"], build["commit"]), (told["features"], told.get("commit")))


if __name__ == "__main__":
    unittest.main()
