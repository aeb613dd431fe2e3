"""The native part of the package."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar, final

import numpy
import numpy.typing as npt
from typing_extensions import disjoint_base

from ._error import MelismaError
from ._path import StrPath

__all__ = [
    "Codec",
    "Config",
    "DeviceTensor",
    "MemoryTracker",
    "PackFile",
    "PrecisionScope",
    "Server",
    "Session",
    "Span",
    "Speaker",
    "SpeechStream",
    "Stream",
    "StreamDecoder",
    "StreamEncoder",
    "Tensor",
    "TensorOptimizer",
    "TileDecoder",
    "TileEncoder",
    "Trace",
    "Track",
    "Transform",
    "Weights",
    "_Builder",
    "_Cancel",
    "_Inputs",
    "_Score",
    "_audio_read",
    "_audio_write",
    "_clips",
    "_compress",
    "_compressed_info",
    "_dataset_columns",
    "_decompress",
    "_load_to_device",
    "_mel_keys",
    "_mel_presets",
    "_merge",
    "_pack_file",
    "_pack_index",
    "_pack_save",
    "_pack_write_index",
    "_populate",
    "_preset_yaml",
    "_render",
    "_resample",
    "_seed",
    "_stems",
    "_stretch",
    "_styles",
    "_validate",
    "_verify",
    "_version",
    "_voices",
    "_work",
    "build_info",
    "serve",
]

_Floats: TypeAlias = npt.NDArray[numpy.float32]
_Integers: TypeAlias = npt.NDArray[numpy.int32]
_Codes: TypeAlias = _Integers | list[_Integers]
_Array: TypeAlias = npt.NDArray[Any]
_Operand: TypeAlias = Tensor | _Array
_Operation: TypeAlias = Literal["add", "subtract", "multiply", "divide", "maximum", "minimum"]
_Precision: TypeAlias = Literal["fp32", "fp16", "int8", "auto"]
_Objective: TypeAlias = Literal["p50", "p99", "memory", "first"]
_Spoken: TypeAlias = tuple[_Floats, list[_Integers], dict[str, int], list[str]]
_Manner: TypeAlias = dict[str, Any]
_ExecArgs: TypeAlias = tuple[str | None, int | None, int | str | None]
_HostArgs: TypeAlias = tuple[int | None, int | str | None]
_R = TypeVar("_R")

@final
class Tensor:
    """A dense array under the memory limit of the optimizer that made it, on its device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
    @property
    def dtype(self) -> str:
        """The type of its elements: f32, f16, bf16, i64, i32, i16 or u8."""
    @property
    def nbytes(self) -> int:
        """Its bytes."""
    def numpy(self) -> _Array:
        """Copies its elements to the host.

        Returns:
            A new array.
        """
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> _Array:
        """Serves `numpy.asarray`, always with a copy."""

@disjoint_base
class TensorOptimizer:
    """The tensor tools under one set of settings: device, profile, memory limit and the section `tensor_optimizations`.

    Args:
        profile: The name of a profile.
        config: The path of a YAML file, or settings as a dict or a `Config`.
        memory_limit: Bytes, or text such as "2GiB".
    """

    def __new__(
        cls,
        profile: str | None = None,
        config: StrPath | dict[str, Any] | Config | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        """Reads `config`, the path of a YAML file or a dict of settings; the environment's `MELISMA_*` count as everywhere."""
    @property
    def memory(self) -> MemoryTracker:
        """What is held, and the limit."""
    def optimize_tensor(self, array: _Operand, dtype: npt.DTypeLike | None = None) -> Tensor:
        """Returns a tensor on the device with the values of `array`, as `dtype` or else as the settings ask."""
    def matmul(self, a: _Operand, b: _Operand) -> Tensor:
        """Multiplies two matrices.

        Args:
            a: [M, K], an array or a tensor.
            b: [K, N], an array or a tensor.

        Returns:
            [M, N], in the type of `a`.
        """
    def combine(self, operation: _Operation, y: _Operand, x: _Operand | float) -> Tensor:
        """Combines two operands, element by element.

        Args:
            operation: add, subtract, multiply, divide, maximum or minimum.
            y: The first operand, an array or a tensor.
            x: The second operand: a number, or as many elements as `y`.

        Returns:
            A new tensor.
        """
    def combine_in_place(self, operation: _Operation, y: _Operand, x: _Operand | float) -> None:
        """Changes `y` where it is.

        Args:
            operation: As for `combine`.
            y: The array or tensor to change.
            x: As for `combine`.
        """
    def mixed_precision(self) -> PrecisionScope:
        """Opens a scope in which products keep their operands in the precision of the settings.

        Returns:
            The scope, for `with`.
        """
    def apply(self, name: str, inputs: Iterable[_Operand], work: Callable[..., _R]) -> _R:
        """Calls a function on optimized inputs, in a precision scope that is tracked.

        Args:
            name: The name of the scope in the memory table.
            inputs: Arrays and tensors, which are optimized first.
            work: Called as `work(scope, *inputs)`.

        Returns:
            What `work` returns.
        """
    def optimize(
        self,
        path: StrPath,
        inputs: Mapping[str, Sequence[int] | _Array],
        *,
        precision: _Precision | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
        objective: _Objective | None = None,
        calibrate: StrPath | None = None,
        remeasure: bool = False,
    ) -> Mapping[str, Any]:
        """Finds the best engine for an ONNX model with inputs of these shapes or values, and caches it for `run`.

        Args:
            path: The model.
            inputs: The shape of each input by name, or an array with its values; those whose shape the model fixes may be
                left out.
            precision: "fp32", "fp16", "int8" or "auto"; None is that of the settings.
            tolerance: The largest relative error that is allowed; None is that of the settings.
            engine: The only engine to consider; None considers all.
            objective: What the best engine is best at: "p50", "p99", "memory" or "first"; None is what the profile prefers.
            calibrate: A folder with NAME.npy for each input, or with folders of them, to measure accuracy with.
            remeasure: Whether a cached engine is measured again and replaced.

        Returns:
            The report of `melisma optimize --json`.
        """
    def run(
        self,
        path: StrPath,
        inputs: dict[str, _Array],
        *,
        precision: _Precision | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
        objective: _Objective | None = None,
        repeat: int = 0,
    ) -> dict[str, _Array]:
        """Runs an ONNX model on the fastest cached engine for these shapes that satisfies the arguments, else on the embedded
        one in FP32. The logger `melisma` is told which and why, and `last_run` holds it.

        Args:
            path: The model.
            inputs: The inputs by name.
            precision: As for `optimize`.
            tolerance: As for `optimize`.
            engine: As for `optimize`.
            objective: As for `optimize`.
            repeat: How many times more the model runs after its first run, to fill `times` of `last_run`.

        Returns:
            The outputs by name.
        """
    @property
    def last_run(self) -> dict[str, Any] | None:
        """What `melisma run --json` says of the engine of the last `run`; None before the first."""

@final
class PrecisionScope:
    """Products in the precision that the settings ask for, with sums in FP32."""

    @property
    def dtype(self) -> str:
        """The format that operands are kept in."""
    def matmul(self, a: _Operand, b: _Operand) -> Tensor:
        """Multiplies two matrices.

        Args:
            a: [M, K], an array or a tensor.
            b: [K, N], an array or a tensor.

        Returns:
            [M, N], in the format of this scope.
        """
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Weights:
    """A file of weights; only its header is read.

    Args:
        path: A `.safetensors` file, packed or not, or a checkpoint of PyTorch.
    """

    def __new__(cls, path: StrPath) -> Self: ...
    def load(self, optimizer: TensorOptimizer, take: Callable[[str, Tensor], object]) -> None:
        """Reads one tensor after another. The memory limit holds for those that are alive at one time.

        Args:
            optimizer: Optimizes each tensor.
            take: Called as `take(name, tensor)`.
        """

@disjoint_base
class MemoryTracker:
    """What tensors and buffers hold, by named scope."""

    def __new__(cls, memory_limit: int | str | None = None) -> Self:
        """Tracks all that the package holds in this process; `TensorOptimizer.memory` is that of an optimizer."""
    def track(self, name: str = "") -> Track:
        """Opens a scope over memory.

        Args:
            name: Its name in the table.

        Returns:
            The scope, for `with`.
        """
    def summary(self) -> str:
        """Returns the table of everything, as it is now.

        Returns:
            The table as text.
        """
    def get_memory_summary(self) -> str:
        """Returns the table of everything, as it is now.

        Returns:
            The table as text.
        """
    def scopes(self) -> dict[str, dict[str, int]]:
        """Returns the scopes that were left.

        Returns:
            The calls of each by name; the most bytes that the package held inside of it in host, pinned and device
            memory, and torch's CUDA allocator; and the most by which the process grew.
        """
    @property
    def host_bytes(self) -> int:
        """Bytes held in host memory now."""
    @property
    def limit(self) -> int | None:
        """The most bytes that host memory may hold, or None."""

@final
class Track:
    """A scope over memory, as a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

def _work(spec: StrPath) -> int: ...

def _audio_read(path: StrPath) -> tuple[_Floats, int]:
    """Reads all channels of a file: samples [channels, samples] and their rate."""

def _audio_write(path: StrPath, samples: _Floats, sample_rate: int, sample_format: str) -> None:
    """Writes samples [channels, samples] in the format that the suffix of `path` names."""

def _resample(samples: _Floats, from_hz: int, to_hz: int, out: _Array | None) -> _Floats:
    """Resamples rows, [rows, samples]."""

def _stretch(samples: _Floats, sample_rate: int, speed: float) -> _Floats:
    """Plays samples [channels, samples] `speed` times as fast at the same pitch."""

@final
class Transform:
    """A spectrogram's settings with its tables on a device."""

    def __new__(cls, preset: str = "builder", *, device: str | None = None, **values: Any) -> Self: ...
    @property
    def values(self) -> dict[str, Any]:
        """Its settings by name."""
    def shape(self, n_samples: int) -> tuple[int, int]:
        """Returns the spectrogram's shape of `n_samples` samples."""
    def _run(self, samples: _Array, out: _Array | None = None) -> _Array: ...

def _mel_presets() -> dict[str, str]: ...
def _mel_keys() -> dict[str, str]: ...
def _populate(frames: _Integers, codebook_size: int) -> tuple[_Integers, _Integers, _Integers]: ...
def _validate(frames: _Integers, codebook_size: int) -> tuple[bool, bool, bool]: ...

@disjoint_base
class Codec:
    """A codec model on a device.

    Subclasses name the directions whose engines are made at once; others are made when they are first used.
    """

    _directions: ClassVar[tuple[str, ...]]
    def __new__(
        cls,
        model: StrPath = "builtin:mini24",
        *,
        device: str | None = None,
        threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        """Opens `builtin:mini24`, a folder with `config.json` and weights, or a file of weights beside `config.json`."""
    @property
    def sample_rate(self) -> int:
        """Samples per second."""
    @property
    def frame_len(self) -> int:
        """Samples of a frame."""
    @property
    def frame_codes(self) -> list[int]:
        """Codes per frame on each level, coarsest first."""
    @property
    def codebook_size(self) -> int:
        """Codes in each codebook."""
    @property
    def model_hash(self) -> str:
        """Identifies the model: 32 hexadecimal digits of a hash over all weights."""
    def _decode(self, clips: list[_Codes], noise: int | None, out: _Array | None) -> list[_Floats]: ...
    def _check_stamp(self, stamp: str) -> None: ...
    def _encode(self, clips: list[_Floats]) -> list[list[_Integers]]: ...
    def _text(self, codes: _Codes, format: str) -> str: ...

@disjoint_base
class StreamDecoder:
    """One stream of a decoder."""

    def __new__(cls, decoder: Codec, *, noise: int | None = ..., format: str = "auto") -> Self:
        """Starts a stream. `noise` is the seed of its noise, or None for none."""
    @property
    def decoder(self) -> Codec:
        """The decoder that this is a stream of."""
    @property
    def is_finished(self) -> bool:
        """Whether `finish` was called."""
    @property
    def ledger(self) -> dict[str, int]:
        """The account of the tokens in text: accepted, rejected, resyncs, frames, concealed_frames, dropped_frames."""
    def peek(self) -> _Floats:
        """Returns the newest samples, as they would be if the stream ended here; only before any others.

        Returns:
            float32 [samples].
        """
    def finish(self) -> _Floats:
        """Ends the stream.

        Returns:
            The last samples, float32 [samples].
        """
    def _push_text(self, text: bytes) -> _Floats: ...
    def _push_codes(self, codes: _Codes) -> _Floats: ...

@disjoint_base
class StreamEncoder:
    """One stream of an encoder."""

    def __new__(cls, encoder: Codec) -> Self:
        """Starts a stream."""
    @property
    def encoder(self) -> Codec:
        """The encoder that this is a stream of."""
    def finish(self) -> list[_Integers]:
        """Ends the stream.

        Returns:
            The last codes, [n] for each level.
        """
    def _push(self, samples: _Floats) -> list[_Integers]: ...

@disjoint_base
class Speaker:
    """A language model that speaks, and its codec."""

    def __new__(
        cls,
        voice_model: StrPath | None = None,
        *,
        model: StrPath | None = None,
        precision: Literal["fp32", "bf16"] | None = None,
        normalise: bool | None = None,
        device: str | None = None,
        threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        """Opens a language model and its codec."""
    @property
    def sample_rate(self) -> int:
        """Samples per second."""
    @property
    def voices(self) -> list[str]:
        """The names of the voices, the default one first; none for a model with a single voice."""
    @property
    def model_hash(self) -> str:
        """Identifies the codec: 32 hexadecimal digits of a hash over all weights."""
    @property
    def defaults(self) -> dict[str, Any]:
        """The model's own settings of the sampler: a dict with the keywords of `speak`."""
    @property
    def _builtin_codec(self) -> str | None: ...
    def _speak(self, text: str, which: tuple[str | None, int], manner: _Manner) -> _Spoken: ...
    def _stream(self, text: str, which: tuple[str | None, int], manner: _Manner) -> SpeechStream: ...
    def _estimate(self, text: str, which: tuple[str | None, int], manner: _Manner) -> dict[str, Any]: ...
    def _speak_all(
        self, texts: list[tuple[str, str | None, int]], manner: _Manner
    ) -> list[_Spoken | MelismaError]: ...
    def _list(self, asked: dict[str, Any], manner: _Manner) -> dict[str, Any]: ...

@final
class SpeechStream:
    """The samples of one text, as they become final."""

    def __iter__(self) -> Self:
        """Returns the stream."""
    def __next__(self) -> _Floats:
        """Draws tokens until samples are final. After an exception the stream has ended."""
    @property
    def sample_rate(self) -> int:
        """Samples per second."""
    @property
    def codes(self) -> list[_Integers]:
        """The codes so far, int32 [n] for each level."""
    @property
    def ledger(self) -> dict[str, int]:
        """The account of the tokens so far: accepted, rejected, resyncs, frames, concealed_frames, dropped_frames."""
    @property
    def notes(self) -> list[str]:
        """What a listener should know so far, such as a piece that the model did not end."""

@final
class _Score:
    """A score as the library holds it."""

    @staticmethod
    def from_json(text: str) -> _Score: ...
    @staticmethod
    def from_midi(file: bytes) -> _Score: ...
    @staticmethod
    def compose_preset(preset: str, seed: int, seconds: float, **changes: str | float | None) -> _Score: ...
    def to_json(self) -> str: ...
    def to_midi(self) -> bytes: ...

def _seed(text: str) -> int: ...
def _styles(folder: StrPath | None) -> tuple[dict[str, str], list[str]]: ...
def _preset_yaml(preset: str, **changes: str | float | None) -> str: ...
def _render(scores: list[_Score], args: dict[str, Any], out: list[_Array] | None) -> list[_Floats]: ...
def _stems(score: _Score, args: dict[str, Any], by: str) -> tuple[_Floats, list[tuple[str, _Floats]]]: ...
def _voices(
    pitches: npt.NDArray[numpy.float64], velocities: _Floats, args: dict[str, Any], out: _Array | None
) -> _Floats: ...

@disjoint_base
class Stream:
    """Music that plays while notes and controls arrive."""

    def __new__(
        cls, preset: str | None = None, *, seed: int = 0, rate: int = 48_000, **changes: str | float | None
    ) -> Self:
        """Plays music in the style of `preset` without end, changed by keywords, or silence until notes arrive."""
    @property
    def sample_rate(self) -> int:
        """Samples per second."""
    def read(self, n: int) -> _Floats:
        """Plays on.

        Args:
            n: How many samples.

        Returns:
            The next samples, float32 [2, n].
        """
    def set(self, parameter: str, value: float) -> None:
        """Moves a control.

        Args:
            parameter: gain, brightness, motion, reverb or delay.
            value: Its new value.
        """
    def note_on(
        self, instrument: str, key: int, velocity: float = 0.8, *, pan: float = 0.0, channel: int = 0
    ) -> int:
        """Starts a note.

        Args:
            instrument: Its instrument.
            key: Its MIDI key, 0 to 127.
            velocity: 0 to 1.
            pan: -1, left, to 1, right.
            channel: Its MIDI channel.

        Returns:
            The note's number, for `note_off`.
        """
    def note_off(self, note: int) -> None:
        """Releases a note.

        Args:
            note: What `note_on` returned; unknown numbers do nothing.
        """
    def note(
        self,
        instrument: str,
        key: int,
        velocity: float = 0.8,
        duration: float = 0.5,
        *,
        pan: float = 0.0,
        channel: int = 0,
    ) -> None:
        """Plays a note.

        Args:
            instrument: Its instrument.
            key: Its MIDI key, 0 to 127.
            velocity: 0 to 1.
            duration: How long it is held, in seconds.
            pan: -1, left, to 1, right.
            channel: Its MIDI channel.
        """

_Bytes: TypeAlias = npt.NDArray[numpy.uint8]
_Tensor: TypeAlias = tuple[str, str, list[int], _Bytes]

def _pack_save(
    path: StrPath,
    tensors: list[_Tensor],
    metadata: dict[str, str],
    tile_size: int | None,
    base: StrPath | None,
) -> tuple[int, int]: ...
def _compress(dtype: str, shape: Sequence[int], bytes: _Bytes) -> bytes: ...
def _compressed_info(blob: bytes) -> tuple[str, list[int]]: ...
def _decompress(blob: bytes, out: _Bytes) -> None: ...
def _load_to_device(path: StrPath, device: str) -> list[tuple[str, DeviceTensor]]: ...

@final
class PackFile:
    """A file of weights that is open for reading. Its header and indices have been read."""

    def __new__(cls, path: StrPath) -> Self: ...
    @property
    def tensors(self) -> list[tuple[str, str, list[int]]]:
        """The tensors as the plain file has them: name, type and shape."""
    @property
    def metadata(self) -> dict[str, str]:
        """The free-form strings of the plain file."""
    def load(
        self,
        parts: list[tuple[str, tuple[int, int, int, int] | None]] | None = None,
        base: StrPath | None = None,
    ) -> list[_Tensor]:
        """Reads the bytes of tensors: of all, or of those named, each whole or cut to a region."""

@final
class TileEncoder:
    """Tiles to records, on one thread."""

    def __new__(cls) -> Self: ...
    def encode(self, dtype: str, elements: _Bytes, number: int) -> bytes: ...

@final
class TileDecoder:
    """Records to tiles, on one thread."""

    def __new__(cls) -> Self: ...
    def decode(self, dtype: str, blob: bytes, out: _Bytes, number: int) -> None: ...

@final
class DeviceTensor:
    """A tensor in device memory, for consumers of `__cuda_array_interface__`."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

def _pack_index(path: StrPath) -> tuple[str, list[tuple[str, str]]]: ...
def _pack_write_index(path: StrPath) -> str: ...
def _pack_file(
    source: StrPath, target: StrPath, tile_size: int | None, threads: int
) -> tuple[int, int]: ...
def _clips(
    folder: StrPath,
    settings: dict[str, Any],
    shard: tuple[int, int],
    exec: tuple[str | None, int],
    overwrite: bool,
) -> dict[str, Any]: ...

@final
class _Inputs:
    """All input files of a dataset, in order."""

    @staticmethod
    def find(places: Sequence[StrPath], list: StrPath | None, root: StrPath | None) -> _Inputs:
        """Searches folders, audio files and lists, whose relative paths begin at `root`; `list` may have any name."""
    @staticmethod
    def within(folder: StrPath, names: Sequence[StrPath]) -> _Inputs:
        """Finds the audio files among `names`, which will lie below `folder`."""
    @staticmethod
    def load(path: StrPath) -> _Inputs:
        """Reads a list that `save` wrote."""
    def save(self, path: StrPath) -> None:
        """Writes the list to `path`, and replaces an earlier one."""
    def skipped(self) -> list[str]:
        """Says in words what was left out."""
    def paths(self, index: int, count: int) -> list[Path]:
        """Returns the paths of shard `index` of `count`."""
    def __len__(self) -> int: ...

@final
class _Builder:
    """A feature and a place, with its model loaded, for many builds."""

    @staticmethod
    def mel(
        exec: _ExecArgs,
        preset: str,
        values: dict[str, Any],
        segments: tuple[float, float | None, bool],
        files: dict[str, Any],
        techniques: dict[str, Any],
    ) -> _Builder:
        """Builds datasets of spectrograms."""
    @staticmethod
    def tokens(
        exec: _ExecArgs,
        model: str,
        table: dict[str, Any] | None,
        measure: tuple[float | None] | None,
        filters: tuple[dict[str, Any], bool],
        lines: dict[str, bool],
    ) -> _Builder:
        """Builds datasets of tokens."""
    @staticmethod
    def like(exec: _ExecArgs, path: StrPath) -> _Builder:
        """Repairs a dataset of spectrograms, with its own settings."""
    def repair(self, inputs: _Inputs, path: StrPath) -> dict[str, Any]:
        """Rebuilds the damaged rows of a dataset, and returns what a verification finds then."""
    def build(self, args: dict[str, Any]) -> dict[str, Any]:
        """Builds one dataset or shard, and returns a report."""

def _merge(
    exec: _HostArgs,
    shards: Sequence[StrPath],
    output: StrPath,
    store: str | None,
    policy: tuple[bool, bool],
    lines: dict[str, bool] | None,
) -> tuple[int, list[int]]: ...
def _verify(exec: _HostArgs, path: StrPath) -> dict[str, Any]: ...
def _dataset_columns(
    path: StrPath,
) -> tuple[list[tuple[str, str, list[int], str, int]], dict[str, Any]]: ...

@final
class Config:
    """Settings, from defaults to arguments; later layers win.

    Args:
        profile: The name of a profile: emergency, field or training.
        config: The path of a YAML file, or a dict of settings.
        memory_limit: Bytes, or text such as "2GiB".
    """

    def __new__(
        cls,
        profile: str | None = None,
        config: StrPath | dict[str, Any] | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        """Reads the settings of this process's file and environment, under arguments as `TensorOptimizer` takes them."""
    @staticmethod
    def load_with_profile(name: str) -> Config:
        """Reads the settings under a profile.

        Args:
            name: emergency, field or training.

        Returns:
            The settings.
        """
    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns all settings.

        Returns:
            The value of each key, and where it came from.
        """
    def keys(self) -> list[str]:
        """Returns the names of all settings.

        Returns:
            The keys of `to_dict`.
        """
    def __getitem__(self, key: str, /) -> Any:
        """Returns the value of a key."""
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

@disjoint_base
class Session:
    """A model with the best cached engine for each set of input shapes."""

    def __new__(
        cls,
        path: StrPath,
        optimizer: TensorOptimizer,
        *,
        precision: str | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
        objective: str | None = None,
    ) -> Self: ...
    def _inputs(self) -> list[tuple[str, str, list[int | str | None] | None]]: ...
    def _outputs(self) -> list[tuple[str, str, list[int | str | None] | None]]: ...
    def _run(self, feeds: dict[str, _Array]) -> dict[str, _Array]: ...
    def _time(self, feeds: dict[str, _Array], repeat: int) -> dict[str, Any]: ...

@final
class Trace:
    """Spans of all threads, from `with` to its end.

    Args:
        path: A file for Perfetto, written at the end, in place of one that is there; None writes none.
    """

    def __new__(cls, path: StrPath | None = None) -> Self:
        """Starts a trace for `with`; `path` gets a file for Perfetto at the end."""
    def table(self, sort: str = "self", limit: int = 30) -> str:
        """Returns the table of `melisma --profile-table`.

        Args:
            sort: self, total, calls, name, p99, device, bytes or allocated.
            limit: The most rows.

        Returns:
            The table as text.
        """
    def report(self) -> dict[str, Any]:
        """Returns the figures of the table.

        Returns:
            A dict of them.
        """
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Span:
    """A span of the caller, for `with`, in the table and the timeline of `melisma.trace`. Outside of a trace it costs
    next to nothing.

    Args:
        name: Its name in the table.
    """

    def __new__(cls, name: str) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class _Cancel:
    """Cancels a call that another thread makes."""

    def __new__(cls) -> Self: ...
    def cancel(self) -> None:
        """Asks the call to end."""
    def run(self, call: Callable[[], _R]) -> _R:
        """Makes a call on this thread; cancelled, it ends with `asyncio.CancelledError`."""

@final
class Server:
    """A server that runs until it is closed."""

    @property
    def url(self) -> str:
        """Where it listens, as in http://127.0.0.1:8431."""
    def close(self) -> None:
        """Stops the server: it refuses new requests and finishes open streams, for at most five seconds."""
    def reload(self) -> None:
        """Reads the file of keys and the voices in `melisma.yaml` again. What cannot be read raises and stays."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

def _version() -> str: ...
def build_info() -> dict[str, Any]:
    """What the package was built from.

    Returns:
        `version`, the `commit` or `None` where the build did not know it, and the list of `features`.
    """
def serve(
    *,
    port: int = 0,
    model: StrPath | None = None,
    upstream: str | None = None,
    voice_model: StrPath | dict[str, StrPath] | None = None,
    speakers: int | None = None,
    normalise: bool | None = None,
    api_key: str | None = None,
    api_key_file: StrPath | None = None,
    log: Callable[[str], object] | None = None,
    log_level: Literal["debug", "info", "warn", "error"] | None = None,
    streams: int | None = None,
    max_streams: int | None = None,
    queue: float | None = None,
) -> Server:
    """Starts a server on 127.0.0.1, and waits until it is ready.

    Args:
        port: Its port; 0 takes any free one.
        model: A codec model, as `melisma.snac.Decoder` takes it.
        upstream: The URL of a language model's server, for speech.
        voice_model: A language model that speaks here, as `melisma.speak.Speaker` takes it: "builtin:voice" or a folder;
            or a dictionary of such models by the name that clients give them, the first one being the default; or "none".
            `None` is the built-in voice, and with an upstream none.
        speakers: Texts that each voice model speaks at a time; `None` measures how many are heard without a gap.
        normalise: Whether texts are read out in words before any language model sees them. `None` is what each voice
            model's speak.yaml or the settings say, and no for an upstream.
        api_key: The key that clients must send.
        api_key_file: A file with one key, or with a line `NAME: KEY [streams=N] [until=DATE] [scope=metrics]` for each client.
        log: Called with each line of the log, on a thread of the server; an event is a JSON object. `None` gives them to
            `logging.getLogger("melisma")`.
        log_level: The least level of these lines: "debug" adds probes and scrapes, "error" leaves only errors. `None` is
            "info" with `log` and "warn" without.
        streams: Streams at a time; `None` measures how many the device keeps up with.
        max_streams: Most streams at a time, and most listeners of live music; 64 streams on a CPU and 2048 on a GPU
            unless given.
        queue: Seconds that a request may wait for a free stream, 5 unless the settings say otherwise; 0 refuses it.

    Returns:
        The server, for `with`.
    """
