"""What the rows of a dataset are: spectrograms or codes."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

from . import _melisma
from ._array import value_error
from ._path import StrPath, path_of

Value: TypeAlias = float | str | bool | None
"""A value of a preset."""
Place: TypeAlias = tuple[str | None, int | None, int | str | None]
"""Device, threads and memory limit."""


@dataclasses.dataclass(frozen=True, init=False)
class Mel:
    """Rows that are spectrograms, one for each segment of a file.

    Args:
        preset: A name of `melisma.mel.presets()`.
        segment: Seconds of a row.
        segment_hop: Seconds from the start of a row to that of the next; None is `segment`.
        drop_tail: Whether the rest of a file, if it is shorter than a segment, is left out instead of padded.
        values: Values in place of the preset's, by the names of `melisma.mel.keys()`.
        more: The same by name: `Mel("whisper-80", n_mels=128)`.
    """

    preset: str
    segment: float
    segment_hop: float | None
    drop_tail: bool
    values: dict[str, Value] = dataclasses.field(hash=False)

    def __init__(
        self,
        preset: str = "builder",
        *,
        segment: float = 10.0,
        segment_hop: float | None = None,
        drop_tail: bool = False,
        values: Mapping[str, Value] | None = None,
        **more: Value,
    ) -> None:
        if values is not None and not isinstance(values, Mapping):
            raise value_error(f"values: {type(values).__name__} is not a dict")
        fields = {
            "preset": preset, "segment": segment, "segment_hop": segment_hop, "drop_tail": drop_tail,
            "values": {**(values or {}), **more},
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True)
class Table:
    """A CSV or TSV file with the texts of audio files.

    Args:
        path: The file.
        text_column: The column with the texts: a name in the first line, or a number counted from 1.
        path_column: The column with the names of the audio files; None is `path`, or else the first.
    """

    path: StrPath
    text_column: int | str
    path_column: int | str | None = None


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Rows that are the codes of a file and its text.

    Args:
        model: A codec model, as `melisma.snac.Encoder` takes it.
        texts: Where the texts are; None is `NAME.txt` beside `NAME.wav`.
        verify_audio: Whether the codes are decoded again and measured against the file.
        min_snr: The least signal-to-noise ratio in dB with `verify_audio`; files below it fail.
    """

    model: StrPath = "builtin:mini24"
    texts: Table | None = None
    _: dataclasses.KW_ONLY
    verify_audio: bool = False
    min_snr: float | None = None

    def __post_init__(self) -> None:
        if self.texts is not None and not isinstance(self.texts, Table):
            raise value_error(f"texts is {self.texts!r}", "use Table(path, text_column)")
        if self.min_snr is not None and not self.verify_audio:
            raise value_error(f"min_snr is {self.min_snr} without verify_audio", "use verify_audio=True")


Feature: TypeAlias = Mel | Tokens


def builder(feature: Feature, place: Place) -> _melisma._Builder:
    """Returns a feature with its model loaded, for many shards."""
    if isinstance(feature, Mel):
        segments = (feature.segment, feature.segment_hop, feature.drop_tail)
        return _melisma._Builder.mel(place, feature.preset, feature.values, segments)
    texts, table = feature.texts, None
    if texts is not None:
        path_column = None if texts.path_column is None else str(texts.path_column)
        table = (path_of(texts.path), str(texts.text_column), path_column)
    measure = (feature.min_snr,) if feature.verify_audio else None
    return _melisma._Builder.tokens(place, path_of(feature.model), table, measure)


_MEL = ("preset", "segment", "segment_hop", "drop_tail")
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
    names = list(dict.fromkeys("texts" if name in _TABLE else name for name in old if name in _used(result, old)))
    shown = ", ".join(f"{name}=Table(...)" if name == "texts" else f"{name}=..." for name in names)
    spelled = ", ".join([*([f"feature={feature!r}"] if feature else []), *(f"{name}=..." for name in old)])
    message = f"{caller}(..., {spelled}) is deprecated; use {caller}(inputs, output, {type(result).__name__}({shown}))"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return result


def _used(result: Feature, old: dict[str, Any]) -> set[str]:
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
