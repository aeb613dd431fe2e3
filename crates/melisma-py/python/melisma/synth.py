"""Scores and generated music to audio.

A score is a `Score`, a dict of the same fields (the JSON of `melisma synth`), or `"preset:NAME"`.

>>> from melisma import synth
>>> score = synth.Score(tempo=120, notes=[synth.Note("lead", start=0, duration=0.4, key=69, velocity=0.8)])
>>> synth.render(score, seconds=1).shape
(2, 48000)
>>> sorted(synth.presets())
['bright', 'focus', 'meditation', 'sleep']
>>> piece = synth.compose("focus", seconds=10, seed=7)
>>> len(piece.notes) > 10
True
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeAlias

from . import _melisma
from ._array import ArrayLike, Floats, rate as checked_rate, refuse, target
from ._path import StrPath, path_of

__all__ = ["Bend", "Control", "Note", "Score", "Stream", "compose", "presets", "render"]


@dataclasses.dataclass
class Note:
    """One note: seconds, a MIDI key from 0 to 127, a velocity from 0 to 1, and a pan from -1 to 1."""

    instrument: str
    start: float
    duration: float
    key: int
    velocity: float
    pan: float = 0.0
    channel: int = 0


@dataclasses.dataclass
class Bend:
    """A change of pitch of all notes of a channel, `at` seconds."""

    at: float
    channel: int
    semitones: float


@dataclasses.dataclass
class Control:
    """A move of a control: gain, brightness, motion, reverb or delay."""

    at: float
    parameter: str
    value: float


@dataclasses.dataclass
class Score:
    """A piece of music. Times are in seconds; the tempo is for readers and MIDI files."""

    tempo: float = 120.0
    notes: list[Note] = dataclasses.field(default_factory=list)
    bends: list[Bend] = dataclasses.field(default_factory=list)
    controls: list[Control] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The fields as `melisma synth` reads them from JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, score: Mapping[str, Any]) -> Self:
        """The score with these fields, checked."""
        return cls._of(_native(score))

    @classmethod
    def from_midi(cls, file: bytes | StrPath) -> Self:
        """Reads a MIDI file, by its path or its bytes."""
        if not isinstance(file, bytes):
            with open(path_of(file), "rb") as opened:
                file = opened.read()
        return cls._of(_melisma._Score.from_midi(file))

    def to_midi(self, path: StrPath | None = None) -> bytes:
        """The score as a MIDI file, which is written to `path` if that is given."""
        file = _native(self).to_midi()
        if path is not None:
            with open(path_of(path), "wb") as opened:
                opened.write(file)
        return file

    @classmethod
    def _of(cls, native: _melisma._Score) -> Self:
        fields = json.loads(native.to_json())
        notes = [Note(**note) for note in fields.get("notes", [])]
        bends = [Bend(**bend) for bend in fields.get("bends", [])]
        return cls(fields["tempo"], notes, bends, [Control(**control) for control in fields.get("controls", [])])


ScoreLike: TypeAlias = Score | Mapping[str, Any] | str


def _native(score: ScoreLike) -> _melisma._Score:
    if isinstance(score, Score):
        score = score.to_dict()
    if not isinstance(score, Mapping):
        raise refuse(f"{type(score).__name__} is not a score", "use a Score, a dict, or \"preset:NAME\"")
    try:
        text = json.dumps({"tempo": Score.tempo, **score}, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise refuse(f"score: {error}") from None
    return _melisma._Score.from_json(text)


def _plain(value: Any) -> Any:
    """Dataclasses and numpy's numbers inside of a dict."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be part of a score")


def presets() -> dict[str, str]:
    """The presets of generated music, and what each is."""
    return _melisma._styles()


def compose(preset: str, *, seconds: float = 60, seed: int = 0) -> Score:
    """A generated piece: the same preset, length and seed give the same notes everywhere."""
    return Score._of(_composed(preset, seconds, seed))


def _composed(preset: str, seconds: float, seed: int) -> _melisma._Score:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise refuse(f"seed is {seed!r}", "use a whole number from 0 to 2**64 - 1")
    return _melisma._Score.composed(preset, seed, seconds)


def render(
    score: ScoreLike,
    *,
    seconds: float | None = None,
    seed: int = 0,
    rate: int = 48000,
    loudness: float | None = -18.0,
    device: str = "cpu",
    out: ArrayLike | None = None,
) -> Any:
    """The samples of a score, float32 [2, samples], in `out` if that is given: it then says how many there are.

    A score without `seconds` is played until everything is silent, `"preset:NAME"` for a minute. The gain is the one
    that gives `loudness` in LUFS, as on the command line; None leaves the level as it is. True peaks stay at or below
    -1 dBTP. `device` renders the voices: `cpu`, `cuda`, `cuda:N`, or `auto` for the one that is expected to finish first.
    """
    hertz = checked_rate(rate, "rate")
    given = target(out)
    if given is not None:
        if given.ndim != 2:
            raise refuse(f"out: shape {given.shape}", "use [2, samples]")
        if seconds is not None and round(seconds * hertz) != given.shape[1]:
            raise refuse(f"out: {given.shape[1]} samples are not {seconds} s", "leave seconds out")
        seconds = given.shape[1] / hertz
    if isinstance(score, str):
        if not score.startswith("preset:"):
            raise refuse(f"{score!r} is not a preset", "use \"preset:focus\"; Score.from_midi reads a file")
        seconds = 60.0 if seconds is None else seconds
        native = _composed(score, seconds, seed)
    else:
        native = _native(score)
    order = {"seconds": seconds, "rate": hertz, "loudness": loudness, "device": device}
    made = _melisma._render(native, order, given)
    return made if out is None else out


class Stream(_melisma.Stream):
    """Live music at a rate of `rate`: a preset without end, or silence; notes and controls take effect at once.

    >>> stream = Stream("sleep", seed=3)
    >>> stream.set("reverb", 0.6)
    >>> stream.note("pluck", key=64)
    >>> stream.read(480).shape
    (2, 480)
    """

    def __iter__(self) -> Iterator[Floats]:
        """Blocks of 10 ms without end."""
        while True:
            yield self.read(self.sample_rate // 100)
