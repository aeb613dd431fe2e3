"""How everything public is called with success: `World.recipes` has arguments for each.

500 lines because it has an entry for everything public.
"""

import asyncio
import contextlib
import dataclasses
import functools
import importlib
import inspect
import os
import shutil

import numpy

import melisma
import soundfont
import voice
from melisma import audio, dataset, mel, optimize, pack, snac, speak, synth
from public import MODULES, names, parameters

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../golden/optimize")
#: Calls that succeed only where something else is there.
NEEDS = {"dataset.collate": "torch", "pack.load_to_device": "cuda", "snac.SNAC.cuda": "cuda"}
#: Calls that take seconds each: one in so many of the others.
RARE = {
    "melisma.serve": 400,
    "melisma.serve keys of a file": 400,
    "melisma.Server.close": 400,
    "melisma.TensorOptimizer.optimize": 200,
    "melisma.TensorRTOptimizer.optimize_onnx": 200,
    "optimize.optimize": 200,
    "dataset.build tokens": 20,
    "dataset.build tokens in the old spelling": 20,
    "snac.SNAC": 10,
    "snac.SNAC.from_pretrained": 10,
    "snac.SNAC.to": 10,
    "speak.Speaker": 10,
    "speak.Speaker.speak": 5,
    "speak.Speaker.estimate": 5,
    "speak.Speaker.speak_all": 5,
    "speak.Speaker.speak_list": 20,
    "speak.Speaker.stream": 5,
}
#: Values that are allowed and take long or much memory: the most (or least) that is drawn, and what is allowed.
BOUNDS = {
    ("synth.render", "seconds"): (0.2, 86_400),
    ("synth.render_all", "seconds"): (0.2, 86_400),
    ("synth.stems", "seconds"): (0.2, 86_400),
    ("synth.voices", "seconds"): (0.2, 86_400),
    ("synth.synthesize_batch", "seconds"): (0.2, 86_400),
    ("synth.compose", "seconds"): (20, 86_400),
    ("synth.Stream.read", "n"): (48_000, 1 << 28),
    ("audio.resample", "from_rate"): (1_000, 1),
    ("audio.resample", "to_rate"): (50_000, 1 << 32),
    ("audio.read", "sample_rate"): (50_000, 1 << 32),
    ("mel.spectrogram", "sample_rate"): (1_000, 1),
    ("snac.Encoder.encode", "sample_rate"): (8_000, 1),
    ("snac.Encoder.encode_batch", "sample_rate"): (8_000, 1),
    ("melisma.TensorOptimizer.run", "repeat"): (20, 1_000_000),
    ("optimize.Session.time", "repeat"): (20, 1_000_000),
}


class Recipe:
    """A function and arguments that it takes: named ones, or a list."""

    def __init__(self, function, *args, **kwargs):
        self.function, self.args, self.kwargs = function, list(args), kwargs

    def call(self):
        with contextlib.ExitStack() as stack:
            result = self.function(*self.args, **self.kwargs)
            if inspect.isgenerator(result):
                return [value for value, _ in zip(result, range(50))]
            if isinstance(result, contextlib.AbstractContextManager) and hasattr(result, "gen"):
                stack.enter_context(result)
            if isinstance(result, melisma.Server):
                result.close()
            return result


def has(need):
    if need == "cuda":
        with contextlib.suppress(melisma.MelismaError):
            return melisma.TensorOptimizer({"device": "cuda"}) is not None and has("torch")
        return False
    try:
        return importlib.import_module(need) is not None
    except ImportError:
        return False


class World:
    """Files and objects for calls, in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        path = self.path
        self.model = shutil.copy(os.path.join(GOLDEN, "vocoder.onnx"), folder)
        self.x = numpy.load(os.path.join(GOLDEN, "vocoder.x.npy"))
        self.config = {"cache_dir": path("cache"), "threads": 1, "memory_limit": "1GiB"}
        self.samples = numpy.sin(numpy.arange(6_000, dtype="f4") / 9) / 2
        self.codes = numpy.random.default_rng(0).integers(0, 4096, (3, 7), dtype="i4")
        audio.write(path("wave.wav"), numpy.zeros(22_050 * 2), 22_050)
        self.note = synth.Note("lead", 0.0, 0.05, 60, 0.8)
        self.score = synth.Score(120.0, [self.note], [synth.Bend(0.0, 0, 0.5)], [synth.Control(0.0, "gain", 0.5)])
        self.score.to_midi(path("score.mid"))
        with open(path("tiny.sf2"), "wb") as file:
            file.write(soundfont.font())
        with open(path("keys.txt"), "w", encoding="utf-8") as file:
            file.write("ann: key-of-ann streams=1\n")
        self.weights = {"w": numpy.arange(6_000, dtype="f4").reshape(60, 100), "v": numpy.arange(6, dtype="i8")}
        pack.save_file(self.weights, path("w.safetensors"), {"a": "b"})
        for index in range(2):
            dataset.build(path("wave.wav"), path(f"part{index}.h5"), dataset.Mel(segment=0.5), shard=(index + 1, 2), progress=False)
        self.report = dataset.build(path("wave.wav"), path("rows.h5"), dataset.Mel(segment=0.5), progress=False)
        self.rows = dataset.open(path("rows.h5"))
        dataset.build(path("wave.wav"), path("codes.safetensors"), dataset.Tokens(), device="cpu", progress=False)
        self.coded = dataset.open(path("codes.safetensors"))
        self.decoder, self.encoder = snac.Decoder(device="cpu"), snac.Encoder(device="cpu")
        self.snac = snac.SNAC("builtin:mini24", device="cpu")
        self.speaker = speak.Speaker(voice.write(path("voice")), device="cpu")
        self.speech = self.speaker.speak("Hi.")
        with open(path("texts.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "Hi."}\n')
        self.estimate = self.speaker.estimate("Hi.")
        self.listed = self.speaker.speak_list(path("texts.jsonl"), path("clips of texts"))
        self.optimizer = melisma.TensorOptimizer(self.config)
        self.tensor = self.optimizer.optimize_tensor(numpy.ones((3, 4), "f4"))
        self.transform, self.stream = mel.Transform("builder"), synth.Stream(rate=16_000)
        self.opened = pack.safe_open(path("w.safetensors"), "np")
        self.session = optimize.Session(self.model, config=self.config)
        fields = dict.fromkeys(field.name for field in dataclasses.fields(optimize.Report))
        self.searched = optimize.Report(**fields)
        with melisma.trace() as self.trace:
            pass

    def path(self, name):
        return os.path.join(self.folder, name)

    @functools.cached_property
    def server(self):
        return melisma.serve()

    def scope(self):
        scope = self.optimizer.mixed_precision()
        return scope.__enter__()

    def instance(self, kind):
        """An object of a class, for its methods without arguments."""
        makers = {
            "melisma.Config": lambda: melisma.Config(config=self.config),
            "melisma.MemoryTracker": melisma.MemoryTracker,
            "melisma.Track": lambda: melisma.MemoryTracker().track("x"),
            "melisma.PrecisionScope": self.scope,
            "melisma.Server": lambda: self.server,
            "melisma.Tensor": lambda: self.tensor,
            "melisma.TensorOptimizer": lambda: self.optimizer,
            "melisma.TensorRTOptimizer": lambda: melisma.TensorRTOptimizer(self.config),
            "melisma.Weights": lambda: melisma.Weights(self.path("w.safetensors")),
            "melisma.span": lambda: melisma.span("x"),
            "melisma.trace": lambda: self.trace,
            "audio.Clip": lambda: audio.Clip(self.samples[None], 22_050),
            "dataset.Dataset": lambda: self.rows,
            "dataset.Mel": dataset.Mel,
            "dataset.Report": lambda: self.report,
            "dataset.Table": lambda: dataset.Table("table.csv", 1),
            "dataset.Trim": dataset.Trim,
            "dataset.Tokens": dataset.Tokens,
            "dataset.Verified": lambda: dataset.verify(self.path("rows.h5")),
            "mel.Transform": lambda: self.transform,
            "optimize.NodeArg": lambda: optimize.NodeArg("x", "float", [1]),
            "optimize.Report": lambda: self.searched,
            "optimize.Session": lambda: self.session,
            "pack.Sizes": lambda: pack.Sizes(2, 1),
            "pack.Slice": lambda: self.opened.get_slice("w"),
            "pack.safe_open": lambda: self.opened,
            "snac.SNAC": lambda: self.snac,
            "snac.Decoder": lambda: self.decoder,
            "snac.Encoder": lambda: self.encoder,
            "snac.StreamDecoder": self.decoder.stream,
            "snac.Valid": lambda: snac.Valid(True, True, True),
            "snac.StreamEncoder": self.encoder.stream,
            "speak.Estimate": lambda: self.estimate,
            "speak.ListReport": lambda: self.listed,
            "speak.Sampling": speak.Sampling,
            "speak.Speaker": lambda: self.speaker,
            "speak.Speech": lambda: self.speech,
            "speak.SpeechStream": lambda: self.speaker.stream("Hi."),
            "synth.Bend": lambda: synth.Bend(0.0, 0, 0.5),
            "synth.Control": lambda: synth.Control(0.0, "gain", 0.5),
            "synth.Note": lambda: self.note,
            "synth.Score": lambda: self.score,
            "synth.Stream": lambda: synth.Stream("focus", rate=16_000),
        }
        if kind.startswith("melisma.Melisma"):
            return getattr(melisma, kind.partition(".")[2])("check", "text", "hint")
        return makers[kind]()

    def plain(self, name, function):
        """The recipe of a property, or of a method without arguments."""
        kind, _, method = name.rpartition(".")
        if kind in MODULES:
            return Recipe(function)
        if method == "__exit__":
            return Recipe(lambda *raised: self.entered(kind).__exit__(*raised), None, None, None)
        if method == "__enter__":
            return Recipe(lambda: self.entered(kind))
        if not callable(function) or isinstance(function, type):
            return Recipe(lambda: getattr(self.instance(kind), method))
        return Recipe(lambda: getattr(self.instance(kind), method)())

    def entered(self, kind):
        manager = melisma.trace() if kind == "melisma.trace" else self.instance(kind)
        return manager.__enter__()

    def recipes(self):
        """A function that gives a new recipe, for everything that takes arguments. What follows a space is a variant."""
        path, floats = self.path, numpy.float32
        score = lambda: {"tempo": 120.0, "notes": [vars(self.note).copy()], "bends": [], "controls": []}
        terms = {"precision": "fp32", "tolerance": 0.01, "engine": "rten", "objective": "p99"}
        optimizer, stream, tracker = self.optimizer, self.stream, melisma.MemoryTracker()
        matrix = lambda *shape: numpy.ones(shape, floats)
        blob, tile = pack.compress(self.samples), numpy.arange(12, dtype="f4").reshape(3, 4)
        encoded, values = pack.Encoder(64).encode(tile), self.transform.values
        sizes = {"n_mels": 20, "n_fft": 256, "hop_length": 64, "win_length": 256, "sample_rate": 8_000}
        keyed = {key: value for key, value in values.items() if key not in ("name", "preset")}
        old = {
            "preset": "builder", "segment": 0.5, "segment_hop": 0.25, "drop_tail": True, "model": "builtin:mini24",
            "metadata": None, "text_column": None, "path_column": None, "verify_audio": False, "min_snr": None,
        }
        build = {
            "store": "hdf5", "shard": (1, 1), "overwrite": True, "on_error": "skip", "max_failures": 9, "list": None, "root": self.folder,
            "device": "cpu", "threads": 1, "memory_limit": "1GiB", "progress": False,
        }
        notes = lambda: {
            "pitches": numpy.array([60.0, 64.5]), "instrument": "pluck", "seconds": 0.05, "duration": 0.02,
            "velocity": numpy.array([0.5, 0.8]), "rate": 16_000, "device": "cpu",
        }
        said = {"voice": "bob", "seed": 1, "speed": 1.5, "noise": 3}
        sampling = {
            "repetition_penalty": 1.1, "penalty_window": 64, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.01,
            "free": False,
        }
        table = path("table.csv")
        with open(table, "w") as file:
            file.write("path|text\nwave|words\n")
        recipes = {
            "melisma.Config": lambda: Recipe(melisma.Config, profile="field", config=dict(self.config), memory_limit="1GiB"),
            "melisma.Config.__getitem__": lambda: Recipe(melisma.Config().__getitem__, "threads"),
            "melisma.Config.load_with_profile": lambda: Recipe(melisma.Config.load_with_profile, name="training"),
            "melisma.MemoryTracker": lambda: Recipe(melisma.MemoryTracker, memory_limit="1MiB"),
            "melisma.MemoryTracker.track": lambda: Recipe(tracker.track, name="x"),
            "melisma.PrecisionScope.matmul": lambda: Recipe(self.scope().matmul, a=matrix(3, 4), b=matrix(4, 2)),
            "melisma.Tensor.__array__": lambda: Recipe(self.tensor.__array__, dtype="f8", copy=True),
            "melisma.TensorOptimizer": lambda: Recipe(
                melisma.TensorOptimizer, profile="field", config=dict(self.config), memory_limit="1GiB"
            ),
            "melisma.TensorOptimizer every setting": lambda: Recipe(melisma.TensorOptimizer, config=self.every_setting()),
            "melisma.TensorOptimizer.apply": lambda: Recipe(
                optimizer.apply, name="x", inputs=[matrix(3, 4)], work=lambda scope, *inputs: inputs
            ),
            "melisma.TensorOptimizer.combine": lambda: Recipe(
                optimizer.combine, operation="maximum", y=matrix(3, 4), x=matrix(3, 4)
            ),
            "melisma.TensorOptimizer.combine_in_place": lambda: Recipe(
                optimizer.combine_in_place, operation="add", y=matrix(3, 4), x=2.0
            ),
            "melisma.TensorOptimizer.matmul": lambda: Recipe(optimizer.matmul, a=matrix(3, 4), b=matrix(4, 2)),
            "melisma.TensorOptimizer.optimize": lambda: Recipe(
                optimizer.optimize, path=self.model, inputs={"x": list(self.x.shape)}, **terms, calibrate=None,
                remeasure=False,
            ),
            "melisma.TensorOptimizer.optimize_tensor": lambda: Recipe(
                optimizer.optimize_tensor, array=matrix(3, 4), dtype="float16"
            ),
            "melisma.TensorOptimizer.run": lambda: Recipe(
                optimizer.run, path=self.model, inputs={"x": self.x}, **terms, repeat=2
            ),
            "melisma.TensorRTOptimizer": lambda: Recipe(melisma.TensorRTOptimizer, config=dict(self.config)),
            "melisma.TensorRTOptimizer.optimize_onnx": lambda: Recipe(
                melisma.TensorRTOptimizer(self.config).optimize_onnx, path=self.model, input_shapes={"x": list(self.x.shape)}
            ),
            "melisma.Weights": lambda: Recipe(melisma.Weights, path=path("w.safetensors")),
            "melisma.Weights.load": lambda: Recipe(
                melisma.Weights(path("w.safetensors")).load, optimizer=optimizer, take=lambda name, tensor: None
            ),
            "melisma.apply_tensor_optimizations": lambda: Recipe(
                melisma.apply_tensor_optimizations, config={"mixed_precision": True, "threads": 1}
            ),
            "melisma.apply_tensor_optimizations a call": lambda: Recipe(
                melisma.apply_tensor_optimizations({"threads": 1})(lambda x, y: (x, y)), x=matrix(3, 4), y=2
            ),
            "melisma.serve": lambda: Recipe(
                melisma.serve, port=0, model="builtin:mini24", upstream=None, voice_model=path("voice"), speakers=2,
                normalise=True, api_key="key", streams=2, max_streams=1, queue=1.0
            ),
            "melisma.serve keys of a file": lambda: Recipe(
                melisma.serve, api_key_file=path("keys.txt"), log=lambda line: None, log_level="warn", streams=1
            ),
            "melisma.span": lambda: Recipe(melisma.span, name="x"),
            "melisma.trace": lambda: Recipe(melisma.trace, path=path("trace.json")),
            "melisma.trace.table": lambda: Recipe(self.trace.table, sort="self", limit=30),
            "audio.Clip": lambda: Recipe(
                lambda samples, sample_rate: audio.Clip(samples, sample_rate)._repr_html_(),
                samples=self.samples[None].copy(), sample_rate=22_050,
            ),
            "audio.read": lambda: Recipe(audio.read, path=path("wave.wav"), sample_rate=16_000, mono=True),
            "audio.resample": lambda: Recipe(
                audio.resample, samples=self.samples.copy(), from_rate=8_000, to_rate=4_000, out=matrix(3_000)
            ),
            "audio.resample up": lambda: Recipe(
                audio.resample, samples=self.samples[:100].copy(), from_rate=8_000, to_rate=22_050, out=None
            ),
            "audio.stretch": lambda: Recipe(audio.stretch, samples=self.samples.copy(), sample_rate=8_000, speed=1.25),
            "audio.write": lambda: Recipe(
                audio.write, path=path("out.flac"), samples=self.samples.copy(), sample_rate=8_000, sample_format="s24"
            ),
            "dataset.Dataset": lambda: Recipe(dataset.Dataset, path=path("rows.h5")),
            "dataset.Dataset.__getitem__": lambda: Recipe(self.rows.__getitem__, 1),
            "dataset.Dataset.__getitems__": lambda: Recipe(self.rows.__getitems__, [1, 0]),
            "dataset.Dataset.column": lambda: Recipe(self.rows.column, name="mel"),
            "dataset.Dataset.text": lambda: Recipe(self.coded.text, index=0, name="path"),
            "dataset.Rows": lambda: Recipe(dataset.Rows, dataset=self.rows, indices=[0]),
            "dataset.build": lambda: Recipe(
                dataset.build, inputs=[path("wave.wav")], output=path("built.h5"),
                feature=dataset.Mel(segment=0.5, **sizes), **build,
            ),
            "dataset.build spectrograms in the old spelling": lambda: Recipe(
                dataset.build, inputs=[path("wave.wav")], output=path("built.h5"), feature="mel", **build, **old, **sizes
            ),
            "dataset.build tokens": lambda: Recipe(
                lambda feature, **rest: dataset.build(
                    path("wave.wav"), path("tokens.safetensors"), dataset.Tokens(**feature), **rest
                ),
                feature={"model": "builtin:mini24", "texts": dataset.Table(table, "text", "path"), "verify_audio": True},
                **{**build, "store": "safetensors"},
            ),
            "dataset.build tokens in the old spelling": lambda: Recipe(
                dataset.build, inputs=path("wave.wav"), output=path("old-tokens.safetensors"),
                **{**build, **old, "feature": "tokens", "metadata": table, "text_column": "text", "path_column": "path",
                   "verify_audio": True, "min_snr": -100.0, "store": "safetensors"},
            ),
            "dataset.Mel": lambda: Recipe(
                dataset.Mel, preset="builder", segment=0.5, segment_hop=0.25, drop_tail=True, min_seconds=0.1,
                max_seconds=9.5, trim=True, loudness=-23.0, values={}, n_mels=20,
                buffers_in_flight=2, segments_per_buffer=4, autosize_gpu_batch=False,
            ),
            "dataset.Report": lambda: Recipe(dataset.Report, **self.report),
            "dataset.Report.__getitem__": lambda: Recipe(self.report.__getitem__, "rows"),
            "dataset.Table": lambda: Recipe(
                dataset.Table, path=table, text_column="text", path_column=1, keep=("lang",), speaker_column=2
            ),
            "dataset.Trim": lambda: Recipe(dataset.Trim, threshold_db=-40.0, margin=0.25),
            "dataset.Tokens": lambda: Recipe(
                dataset.Tokens, model="builtin:mini24", texts=None, verify_audio=True, min_snr=-100.0, format="codes",
                drop_repeats=False, min_seconds=0.1, max_seconds=9.5, trim=dataset.Trim(), loudness=-23.0,
                require_text=False,
            ),
            "dataset.collate": lambda: Recipe(dataset.collate, rows=dataset.Rows(self.rows, [0, 1])),
            "dataset.merge": lambda: Recipe(
                dataset.merge, shards=[path("part0.h5"), path("part1.h5")], output=path("merged.h5"), store="hdf5",
                overwrite=True, allow_missing=False, format=None, drop_repeats=False, threads=1, memory_limit="1GiB",
            ),
            "dataset.open": lambda: Recipe(dataset.open, path=path("rows.h5")),
            "dataset.verify without a repair": lambda: Recipe(
                dataset.verify, path=path("rows.h5"), threads=1, memory_limit="1GiB"
            ),
            "dataset.verify": lambda: Recipe(
                dataset.verify, path=path("codes.safetensors"), repair=True, inputs=[path("wave.wav")],
                feature=dataset.Tokens(), list=None, root=None, device="cpu", threads=1, memory_limit="1GiB",
            ),
            "dataset.Verified": lambda: Recipe(dataset.Verified, **dataset.verify(path("rows.h5"))),
            "dataset.Verified.__getitem__": lambda: Recipe(dataset.verify(path("rows.h5")).__getitem__, "rows"),
            "mel.Transform": lambda: Recipe(mel.Transform, preset="whisper-80", device="cpu", **sizes),
            "mel.Transform every value": lambda: Recipe(mel.Transform, preset="builder", device="cpu", **keyed),
            "mel.Transform.__call__": lambda: Recipe(
                self.transform.__call__, self.samples.copy(), out=numpy.zeros(self.transform.shape(6_000), "f2")
            ),
            "mel.Transform.shape": lambda: Recipe(self.transform.shape, n_samples=6_000),
            "mel.spectrogram": lambda: Recipe(
                mel.spectrogram, x=self.samples.copy(), sample_rate=16_000, preset="builder", device="cpu", out=None, n_mels=40
            ),
            "optimize.NodeArg": lambda: Recipe(optimize.NodeArg, name="x", type="float", shape=[1, None]),
            "optimize.Report": lambda: Recipe(optimize.Report, **self.searched),
            "optimize.Report.__getitem__": lambda: Recipe(self.searched.__getitem__, "engine"),
            "optimize.Session": lambda: Recipe(optimize.Session, path=self.model, **terms, config=dict(self.config)),
            "optimize.Session.run": lambda: Recipe(self.session.run, output_names=["y"], input_feed={"x": self.x}),
            "optimize.Session.time": lambda: Recipe(self.session.time, input_feed={"x": self.x}, repeat=2),
            "optimize.optimize": lambda: Recipe(
                optimize.optimize, path=self.model, inputs={"x": list(self.x.shape)}, **terms, calibrate=None,
                remeasure=False, config=dict(self.config),
            ),
            "pack.Decoder": lambda: Recipe(pack.Decoder),
            "pack.Decoder.decode": lambda: Recipe(
                pack.Decoder().decode, blob=encoded, shape=(3, 4), dtype="f4", number=0, out=matrix(3, 4)
            ),
            "pack.Encoder": lambda: Recipe(pack.Encoder, tile_size=64),
            "pack.Encoder.encode": lambda: Recipe(pack.Encoder(64).encode, tile=tile.copy(), number=0),
            "pack.SafetensorError": lambda: Recipe(pack.SafetensorError, "text"),
            "pack.Sizes": lambda: Recipe(pack.Sizes, source_bytes=2, packed_bytes=1),
            "pack.Slice": lambda: Recipe(pack.Slice, file=self.opened, name="w", dtype="F32", shape=[60, 100]),
            "pack.Slice.__getitem__": lambda: Recipe(
                lambda *index: self.opened.get_slice("w")[index], slice(3, 50, 2), slice(1, None)
            ),
            "pack.compress": lambda: Recipe(pack.compress, array=self.samples.copy()),
            "pack.decompress": lambda: Recipe(pack.decompress, blob=blob, framework="np", out=numpy.empty_like(self.samples)),
            "pack.load_file": lambda: Recipe(
                pack.load_file, filename=path("w.safetensors"), framework="np", device="cpu", base=None
            ),
            "pack.load_to_device": lambda: Recipe(pack.load_to_device, filename=path("w.safetensors"), device="cuda"),
            "pack.safe_open": lambda: Recipe(pack.safe_open, filename=path("w.safetensors"), framework="np", device="cpu"),
            "pack.safe_open.get_slice": lambda: Recipe(self.opened.get_slice, name="w"),
            "pack.safe_open.get_tensor": lambda: Recipe(self.opened.get_tensor, name="w"),
            "pack.save_file": lambda: Recipe(
                pack.save_file, tensors=dict(self.weights), filename=path("saved.safetensors"), metadata={"a": "b"},
                tile_size=256, base=None,
            ),
            "snac.SNAC": lambda: Recipe(snac.SNAC, path="builtin:mini24", device="cpu", noise=0),
            "snac.SNAC.__call__": lambda: Recipe(self.snac.__call__, self.samples[None, None, :50].copy()),
            "snac.SNAC.cuda": lambda: Recipe(snac.SNAC("builtin:mini24").cuda, device=0),
            "snac.SNAC.decode": lambda: Recipe(self.snac.decode, codes=[level.copy() for level in snac.populate(self.codes)]),
            "snac.SNAC.encode": lambda: Recipe(self.snac.encode, audio_data=self.samples[None, None, :50].copy()),
            "snac.SNAC.forward": lambda: Recipe(self.snac.forward, audio_data=self.samples[None, None, :50].copy()),
            "snac.SNAC.from_pretrained": lambda: Recipe(
                snac.SNAC.from_pretrained, path="builtin:mini24", revision=None, device="cpu", noise=None
            ),
            "snac.SNAC.to": lambda: Recipe(snac.SNAC("builtin:mini24").to, device="cpu"),
            "snac.SNAC.train": lambda: Recipe(self.snac.train, mode=True),
            "snac.Decoder": lambda: Recipe(
                snac.Decoder, model="builtin:mini24", device="cpu", threads=1, memory_limit="1GiB"
            ),
            "snac.Decoder.decode": lambda: Recipe(
                self.decoder.decode, codes=self.codes.copy(), noise=3, out=matrix(3 * 2_048)
            ),
            "snac.Decoder.decode_batch": lambda: Recipe(
                self.decoder.decode_batch, clips=[self.codes.copy(), self.codes[:1].copy()], noise=3
            ),
            "snac.Decoder.decode_row": lambda: Recipe(self.decoder.decode_row, rows=self.coded, index=0, noise=3),
            "snac.Decoder.stream": lambda: Recipe(self.decoder.stream, noise=3, format="ids"),
            "snac.Encoder": lambda: Recipe(
                snac.Encoder, model="builtin:mini24", device="cpu", threads=1, memory_limit="1GiB"
            ),
            "snac.Encoder.encode": lambda: Recipe(self.encoder.encode, samples=self.samples.copy(), sample_rate=22_050),
            "snac.Encoder.encode_batch": lambda: Recipe(
                self.encoder.encode_batch, clips=[self.samples[:50].copy()], sample_rate=22_050
            ),
            "snac.Encoder.to_text": lambda: Recipe(self.encoder.to_text, codes=self.codes.copy(), format="orpheus"),
            "snac.StreamDecoder": lambda: Recipe(snac.StreamDecoder, decoder=self.decoder, noise=3, format="auto"),
            "snac.StreamDecoder.push": lambda: Recipe(self.decoder.stream().push, piece=self.codes.copy()),
            "snac.StreamDecoder.samples": lambda: Recipe(
                self.decoder.stream().samples, pieces=[self.codes.copy(), "<custom_token_10>", 128_266]
            ),
            "snac.StreamEncoder": lambda: Recipe(snac.StreamEncoder, encoder=self.encoder),
            "snac.StreamEncoder.push": lambda: Recipe(self.encoder.stream().push, samples=self.samples.copy()),
            "snac.populate": lambda: Recipe(snac.populate, frames=self.codes.copy(), codebook_size=4096),
            "snac.Valid": lambda: Recipe(snac.Valid, valid_0=True, valid_1=True, valid_2=False),
            "snac.validate": lambda: Recipe(snac.validate, frames=self.codes.copy(), codebook_size=4096),
            "speak.Estimate": lambda: Recipe(speak.Estimate, **self.estimate),
            "speak.Estimate.__getitem__": lambda: Recipe(self.estimate.__getitem__, "step_seconds"),
            "speak.ListReport": lambda: Recipe(speak.ListReport, **self.listed),
            "speak.ListReport.__getitem__": lambda: Recipe(self.listed.__getitem__, "texts"),
            "speak.Sampling": lambda: Recipe(speak.Sampling, **sampling),
            "speak.Speaker": lambda: Recipe(
                speak.Speaker, voice_model=path("voice"), model="builtin:mini24", precision="fp32", normalise=True, device="cpu",
                threads=1, memory_limit="1GiB",
            ),
            "speak.Speaker.speak": lambda: Recipe(self.speaker.speak, text="Hi.", **said, **sampling),
            "speak.Speaker.estimate": lambda: Recipe(
                self.speaker.estimate, text="Hi.", voice="bob", seed=3, **sampling
            ),
            "speak.Speaker.speak_list": lambda: Recipe(
                self.speaker.speak_list, texts=path("texts.jsonl"), output=path("texts of clips"), sample_format="s16",
                format="codes", drop_repeats=False, shard=(1, 1), overwrite=True, **said, **sampling,
            ),
            "speak.Speaker.speak_all": lambda: Recipe(
                self.speaker.speak_all, texts=["Hi.", {"text": "Bye.", "voice": "bob", "seed": 3}], **said, **sampling
            ),
            "speak.Speaker.stream": lambda: Recipe(
                lambda text, **rest: list(self.speaker.stream(text, **rest)), text="Hi.", **said, **sampling
            ),
            "speak.Speech": lambda: Recipe(speak.Speech, **{**vars(self.speech), "notes": ["text"]}),
            "speak.Speech.__array__": lambda: Recipe(self.speech.__array__, "f8", True),
            "synth.Bend": lambda: Recipe(synth.Bend, at=0.0, channel=0, semitones=0.5),
            "synth.Control": lambda: Recipe(synth.Control, at=0.0, parameter="gain", value=0.5),
            "synth.Note": lambda: Recipe(synth.Note, **vars(self.note)),
            "synth.Score": lambda: Recipe(
                lambda **fields: synth.Score(**fields).to_midi(), tempo=120.0, notes=[self.note],
                bends=[synth.Bend(0.0, 0, 0.5)], controls=[synth.Control(0.0, "gain", 0.5)],
            ),
            "synth.Score.from_dict": lambda: Recipe(synth.Score.from_dict, score=score()),
            "synth.Score.from_midi": lambda: Recipe(synth.Score.from_midi, file=path("score.mid")),
            "synth.Score.from_midi bytes": lambda: Recipe(synth.Score.from_midi, file=self.score.to_midi()),
            "synth.Score.to_midi": lambda: Recipe(self.score.to_midi, path=path("out.mid")),
            "synth.Stream": lambda: Recipe(synth.Stream, preset="focus", seed=1, rate=16_000, key="A", reverb=0.1),
            "synth.Stream.note": lambda: Recipe(
                stream.note, instrument="lead", key=60, velocity=0.8, duration=0.01, pan=0.0, channel=0
            ),
            "synth.Stream.note_off": lambda: Recipe(stream.note_off, note=1),
            "synth.Stream.note_on": lambda: Recipe(
                synth.Stream(rate=16_000).note_on, instrument="lead", key=60, velocity=0.8, pan=0.0, channel=0
            ),
            "synth.Stream.read": lambda: Recipe(stream.read, n=480),
            "synth.Stream.set": lambda: Recipe(stream.set, parameter="reverb", value=0.5),
            "synth.changes": lambda: Recipe(synth.changes),
            "synth.compose": lambda: Recipe(
                synth.compose, preset="focus", seconds=5, seed=1, key="F#", mode="lydian", tempo=96.0, intensity=0.7,
                voices="melody,drums", brightness=2.0,
            ),
            "synth.presets": lambda: Recipe(synth.presets, folder=self.folder),
            "synth.preset_yaml": lambda: Recipe(synth.preset_yaml, preset="focus", tempo=96.0),
            "synth.render with a SoundFont": lambda: Recipe(
                synth.render, score=soundfont.midi(), seconds=0.05, rate=16_000, soundfont=path("tiny.sf2")
            ),
            "synth.render_all with a SoundFont": lambda: Recipe(
                synth.render_all, scores=[soundfont.midi(), score()], seconds=0.05, rate=16_000, soundfont=path("tiny.sf2")
            ),
            "synth.render": lambda: Recipe(
                synth.render, score=score(), seconds=0.05, seed=1, rate=16_000, loudness=-18.0, device="auto", out=matrix(2, 800),
                soundfont=path("tiny.sf2"),
            ),
            "synth.render_all": lambda: Recipe(
                synth.render_all, scores=[score(), "preset:focus"], seconds=0.05, seed=1, rate=16_000, loudness=-18.0,
                device="auto", out=matrix(2, 2, 800), soundfont=path("tiny.sf2"),
            ),
            "synth.stems": lambda: Recipe(
                synth.stems, score=score(), by="track", seconds=0.05, seed=1, rate=16_000, loudness=-18.0, device="auto",
                soundfont=path("tiny.sf2"),
            ),
            "synth.synthesize_batch": lambda: Recipe(synth.synthesize_batch, **notes(), out=None),
            "synth.voices": lambda: Recipe(synth.voices, **notes(), out=matrix(2, 800)),
            "synth.render a file": lambda: Recipe(
                synth.render, score=path("score.mid"), seconds=0.05, seed="monday", rate=16_000
            ),
            "synth.render a preset": lambda: Recipe(
                synth.render, score="preset:focus", seconds=0.05, seed=1, rate=16_000, loudness=None, device="auto", out=None
            ),
        }
        for name in melisma.__all__:
            if not name.startswith("Melisma"):
                continue
            kind = getattr(melisma, name)
            recipes[f"melisma.{name}"] = lambda kind=kind: Recipe(kind, kind="check", message="text", hint="hint")
        for name, function in names().items():
            if name.endswith("_async"):
                base = recipes[name.removesuffix("_async")]
                recipes[name] = lambda base=base, name=name, function=function: self.awaited(base(), name, function)
        for name, function in names().items():
            if not any(known.partition(" ")[0] == name for known in recipes) and not self.takes(name, function):
                recipes[name] = lambda name=name, function=function: self.plain(name, function)
        return recipes

    @staticmethod
    def awaited(recipe, name, function):
        """The recipe of a call's twin."""
        owner = getattr(recipe.function, "__self__", None)
        call = function if owner is None else getattr(owner, name.rpartition(".")[2])
        return Recipe(lambda **kwargs: asyncio.run(call(**kwargs)), **recipe.kwargs)

    def every_setting(self):
        """All settings with the values that they have."""
        found = {key: entry["value"] for key, entry in melisma.Config(config=self.config).to_dict().items()}
        return {key: value for key, value in found.items() if value is not None}

    @staticmethod
    def takes(name, function):
        """Whether it takes arguments, so that it needs a recipe of its own."""
        if isinstance(function, type):
            return True
        if not callable(function) or name.rpartition(".")[2] in ("__enter__", "__exit__"):
            return False
        return bool(parameters(function))
