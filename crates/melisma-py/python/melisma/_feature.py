"""What the rows of a dataset are: spectrograms or codes."""

import dataclasses
import os
import warnings
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy

from . import _melisma
from ._array import value_error
from ._path import StrPath, path_of

Value: TypeAlias = float | str | bool | None
"""A value of a preset."""
ExecOptions: TypeAlias = tuple[str | None, int | None, int | str | None]
"""Device, threads and memory limit."""
LineFormat: TypeAlias = Literal["codes", "orpheus"]
"""What a line of tokens holds."""
TECHNIQUES = ("buffers_in_flight", "segments_per_buffer", "autosize_gpu_batch")
"""The fields of `Mel` that change how the work is done, never its rows."""
_ALIASES = {"num_mega_buffers": "buffers_in_flight", "seg_microbatch_segments": "segments_per_buffer"}
_MOST = {"buffers_in_flight": 1024, "segments_per_buffer": 1 << 20}


@dataclasses.dataclass(frozen=True)
class Trim:
    """Which silence at the ends of files is left out.

    Args:
        threshold_db: Power below which 10 ms count as silence, in dB of full scale.
        margin: Seconds of silence that stay at each end.
    """

    threshold_db: float = -50.0
    margin: float = 0.1


def _check_trim(trim: object) -> None:
    if not isinstance(trim, bool | Trim):
        raise value_error(f"trim is {trim!r}", "use True, False or Trim(threshold_db, margin)")


@dataclasses.dataclass(frozen=True, init=False)
class Mel:
    """Rows that are spectrograms, one for each segment of a file.

    Args:
        preset: A name of `melisma.mel.presets()`.
        segment: Seconds of a row.
        segment_hop: Seconds from the start of a row to that of the next; None is `segment`.
        drop_tail: Whether the rest of a file, if it is shorter than a segment, is left out instead of padded.
        min_seconds: The length of the shortest file that is used; None is any.
        max_seconds: The length of the longest file that is used; None is any.
        trim: Whether silence at both ends of files is left out: True, or a `Trim` with its threshold and margin.
        loudness: The loudness in LUFS that each file gets, as far as its true peak stays at -1 dBTP; None is its own.
        values: Values in place of the preset's, by the names of `melisma.mel.keys()`.
        buffers_in_flight: Buffers of each thread on a GPU, also `num_mega_buffers`; None is 1.
        segments_per_buffer: Rows of a buffer, also `seg_microbatch_segments`; None derives them from the bytes.
        autosize_gpu_batch: Whether buffers are sized to fit the free memory of a GPU.
        more: Values by name: `Mel("whisper-80", n_mels=128)`.
    """

    preset: str
    segment: float
    segment_hop: float | None
    drop_tail: bool
    min_seconds: float | None
    max_seconds: float | None
    trim: "bool | Trim"
    loudness: float | None
    values: dict[str, Value] = dataclasses.field(hash=False)
    buffers_in_flight: int | None
    segments_per_buffer: int | None
    autosize_gpu_batch: bool

    def __init__(
        self,
        preset: str = "builder",
        *,
        segment: float = 10.0,
        segment_hop: float | None = None,
        drop_tail: bool = False,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        trim: "bool | Trim" = False,
        loudness: float | None = None,
        values: Mapping[str, Value] | None = None,
        buffers_in_flight: int | None = None,
        segments_per_buffer: int | None = None,
        autosize_gpu_batch: bool = True,
        **more: Value,
    ) -> None:
        if values is not None and not isinstance(values, Mapping):
            raise value_error(f"values: {type(values).__name__} is not a dict")
        techniques = {
            "buffers_in_flight": buffers_in_flight, "segments_per_buffer": segments_per_buffer,
            "autosize_gpu_batch": autosize_gpu_batch,
        }
        given = {_ALIASES[alias]: alias for alias in more.keys() & _ALIASES}
        for name, alias in given.items():
            if techniques[name] is not None:
                raise value_error(f"`{alias}` and `{name}` are the same", "give one of them")
            techniques[name] = more.pop(alias)  # type: ignore[assignment]
        _check_techniques(techniques, given)
        _check_trim(trim)
        fields = {
            "preset": preset, "segment": segment, "segment_hop": segment_hop, "drop_tail": drop_tail,
            "min_seconds": min_seconds, "max_seconds": max_seconds, "trim": trim, "loudness": loudness,
            "values": {**(values or {}), **more}, **techniques,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _check_techniques(techniques: Mapping[str, Any], given: Mapping[str, str]) -> None:
    for name, most in _MOST.items():
        value = techniques[name]
        is_whole = isinstance(value, int | numpy.integer) and not isinstance(value, bool)
        if value is not None and not (is_whole and 1 <= value <= most):
            raise value_error(f"{given.get(name, name)} is {value!r}", f"use a whole number from 1 to {most}")
    if not isinstance(techniques["autosize_gpu_batch"], bool):
        raise value_error(f"autosize_gpu_batch is {techniques['autosize_gpu_batch']!r}", "use True or False")


@dataclasses.dataclass(frozen=True)
class Table:
    """A CSV or TSV file with the texts of audio files, or a .jsonl file of objects, whose keys are the columns.

    Args:
        path: The file.
        text_column: The column with the texts: a name in the first line, or a number counted from 1.
        path_column: The column with the names of the audio files; None is `path`, or else the first.
        keep: Names of columns that become columns of the corpus, or keys of its lines: ("lang", "age").
        speaker_column: The column with the speakers: texts begin with "SPEAKER: ", and the corpus has a column `source`.
    """

    path: StrPath
    text_column: int | str
    path_column: int | str | None = None
    _: dataclasses.KW_ONLY
    keep: tuple[str, ...] = ()
    speaker_column: int | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keep, str) or not all(isinstance(name, str) for name in self.keep):
            raise value_error(f"keep is {self.keep!r}", "use a tuple of names, as in (\"speaker\", \"lang\")")
        object.__setattr__(self, "keep", tuple(self.keep))


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Rows that are the codes of a file and its text.

    Args:
        model: A codec model, as `melisma.snac.Encoder` takes it.
        texts: Where the texts are; None is `NAME.txt` beside `NAME.wav`.
        verify_audio: Whether the codes are decoded again and measured against the file.
        min_snr: The least signal-to-noise ratio in dB with `verify_audio`; files below it fail.
        format: What the lines of a .jsonl output hold: lists of codes, or the ids of Orpheus.
        drop_repeats: Whether lines of a .jsonl output lack frames whose first code repeats that of the frame before.
        min_seconds: The length of the shortest file that is used; None is any.
        max_seconds: The length of the longest file that is used; None is any.
        trim: Whether silence at both ends of files is left out: True, or a `Trim` with its threshold and margin.
        loudness: The loudness in LUFS that each file gets, as far as its true peak stays at -1 dBTP; None is its own.
        require_text: Whether files without a text are left out.
    """

    model: StrPath = "builtin:mini24"
    texts: Table | None = None
    _: dataclasses.KW_ONLY
    verify_audio: bool = False
    min_snr: float | None = None
    format: LineFormat = "codes"
    drop_repeats: bool = False
    min_seconds: float | None = None
    max_seconds: float | None = None
    trim: "bool | Trim" = False
    loudness: float | None = None
    require_text: bool = False

    def __post_init__(self) -> None:
        lines_of(self.format, self.drop_repeats)
        _check_trim(self.trim)
        if not isinstance(self.require_text, bool):
            raise value_error(f"require_text is {self.require_text!r}", "use True or False")
        if self.texts is not None and not isinstance(self.texts, Table):
            raise value_error(f"texts is {self.texts!r}", "use Table(path, text_column)")
        if self.min_snr is not None and not self.verify_audio:
            raise value_error(f"min_snr is {self.min_snr} without verify_audio", "use verify_audio=True")


Feature: TypeAlias = Mel | Tokens


def lines_of(format: str, drop_repeats: bool) -> dict[str, bool]:
    """Returns the form of lines as the native module takes it."""
    if format not in ("codes", "orpheus"):
        raise value_error(f"format is {format!r}", "use \"codes\" or \"orpheus\"")
    if not isinstance(drop_repeats, bool):
        raise value_error(f"drop_repeats is {drop_repeats!r}", "use True or False")
    return {"orpheus": format == "orpheus", "drop_repeats": drop_repeats}


def _files(feature: Feature) -> dict[str, Any]:
    """Returns which files are used and what is done with their audio, as the native module takes it."""
    trim = Trim() if feature.trim is True else feature.trim
    return {
        "min_seconds": feature.min_seconds, "max_seconds": feature.max_seconds, "loudness": feature.loudness,
        "trim": (trim.threshold_db, trim.margin) if isinstance(trim, Trim) else None,
    }


def builder(feature: Feature, options: ExecOptions) -> _melisma._Builder:
    """Returns a feature with its model loaded, for many shards."""
    if isinstance(feature, Mel):
        segments = (feature.segment, feature.segment_hop, feature.drop_tail)
        techniques = {name: getattr(feature, name) for name in TECHNIQUES}
        return _melisma._Builder.mel(options, feature.preset, feature.values, segments, _files(feature), techniques)
    if not isinstance(feature, Tokens):
        raise value_error(f"unknown feature `{feature}`", "use Mel(...) or Tokens(...)")
    texts, table = feature.texts, None
    if texts is not None:
        columns = {"name": texts.path_column, "speaker": texts.speaker_column}
        optional = {name: None if column is None else str(column) for name, column in columns.items()}
        table = {"path": path_of(texts.path), "text": str(texts.text_column), "kept": list(texts.keep), **optional}
    measure = (feature.min_snr,) if feature.verify_audio else None
    lines = lines_of(feature.format, feature.drop_repeats)
    filters = (_files(feature), feature.require_text)
    return _melisma._Builder.tokens(options, path_of(feature.model), table, measure, filters, lines)


def warn_of_builtin(feature: Feature) -> None:
    """Warns the caller of a build that language models cannot use what the built-in codec makes."""
    if isinstance(feature, Tokens) and path_of(feature.model) == "builtin:mini24":
        _warn_of_codes("builtin:mini24", "Tokens(model=...)")


def warn_of_spoken(codec: str | None, output: str) -> None:
    """Warns the caller of a list that language models cannot use a corpus in codes of a built-in codec."""
    if codec is not None and codec.startswith("builtin:") and os.path.splitext(output)[1]:
        _warn_of_codes(codec, "speak to a folder, and build Tokens(model=...) of it")


def _warn_of_codes(codec: str, remedy: str) -> None:
    message = f"this corpus has codes of {codec}; a language model such as Orpheus needs those of its own codec: {remedy}"
    warnings.warn(message, stacklevel=4)


_MEL = ("preset", "segment", "segment_hop", "drop_tail", *TECHNIQUES, *_ALIASES)
_TABLE = {"metadata": "path", "text_column": "text_column", "path_column": "path_column"}
_TOKENS = ("model", *_TABLE, "verify_audio", "min_snr")


def as_feature(feature: Feature | str | None, old: dict[str, Any], caller: str) -> Feature:
    """Returns the feature of a call, which may have the arguments of one as its own: `feature="tokens", model=...`."""
    if feature is None and not old:
        return Mel()
    if isinstance(feature, Mel | Tokens):
        if old:
            name = next(iter(old))
            raise TypeError(f"{caller} takes no `{name}` beside a feature; use {type(feature).__name__}({name}=...)")
        return feature
    if feature not in ("mel", "tokens", None):
        raise value_error(f"unknown feature `{feature}`", "use Mel(...) or Tokens(...)")
    result = _tokens(old) if feature == "tokens" else _mel(old)
    names = list(dict.fromkeys("texts" if name in _TABLE else name for name in old if name in _names_in_use(result, old)))
    shown = ", ".join(f"{name}=Table(...)" if name == "texts" else f"{name}=..." for name in names)
    spelled = ", ".join([*([f"feature={feature!r}"] if feature else []), *(f"{name}=..." for name in old)])
    message = f"{caller}(..., {spelled}) is deprecated; use {caller}(inputs, output, {type(result).__name__}({shown}))"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return result


def _names_in_use(result: Feature, old: dict[str, Any]) -> set[str]:
    """Returns the arguments that belong to the feature: those of the other one were ignored."""
    return old.keys() - set(_TOKENS if isinstance(result, Mel) else _MEL)


def _mel(old: dict[str, Any]) -> Mel:
    return Mel(**{name: value for name, value in old.items() if name not in _TOKENS})


def _tokens(old: dict[str, Any]) -> Tokens:
    unknown = [name for name in old if name not in _MEL and name not in _TOKENS]
    if unknown:
        raise value_error(f"unknown argument `{unknown[0]}` for tokens")
    given: dict[str, Any] = {name: old[name] for name in ("model", "verify_audio", "min_snr") if name in old}
    if not given.get("verify_audio"):
        given.pop("min_snr", None)
    if old.get("metadata") is not None:
        if old.get("text_column") is None:
            raise value_error("metadata without text_column", "use texts=Table(path, text_column)")
        given["texts"] = Table(*(old.get(name) for name in _TABLE))  # type: ignore[arg-type]
    return Tokens(**given)
