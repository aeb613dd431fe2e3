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
>>> synth.voices([60, 64, 67], instrument="pluck", seconds=0.5).shape
(3, 24000)
>>> [sound.shape for sound in synth.render_all([score, "preset:focus"], seconds=0.5)]
[(2, 24000), (2, 24000)]
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeAlias, overload

from . import _melisma
from ._array import ArrayLike, Floats, OutT, rate as checked_rate, target, value_error
from ._async import twin
from ._path import StrPath, path_of
from ._voices import voices

__all__ = [
    "Bend", "Control", "Note", "Score", "Stream", "compose", "presets", "render", "render_all", "render_all_async",
    "render_async", "synthesize_batch", "voices", "voices_async",
]


@dataclasses.dataclass
class Note:
    """One note.

    Args:
        instrument: Its instrument.
        start: When it begins, in seconds.
        duration: How long it is held, in seconds.
        key: Its MIDI key, 0 to 127.
        velocity: 0 to 1.
        pan: -1, left, to 1, right.
        channel: Its MIDI channel.
    """

    instrument: str
    start: float
    duration: float
    key: int
    velocity: float
    pan: float = 0.0
    channel: int = 0


@dataclasses.dataclass
class Bend:
    """A change of pitch of all notes of a channel.

    Args:
        at: When, in seconds.
        channel: The MIDI channel.
        semitones: How far from the notes' own pitch.
    """

    at: float
    channel: int
    semitones: float


@dataclasses.dataclass
class Control:
    """A move of a control.

    Args:
        at: When, in seconds.
        parameter: gain, brightness, motion, reverb or delay.
        value: Its new value.
    """

    at: float
    parameter: str
    value: float


@dataclasses.dataclass
class Score:
    """A piece of music. Times are in seconds.

    Args:
        tempo: Beats per minute, for readers and MIDI files.
        notes: The notes.
        bends: Changes of pitch.
        controls: Moves of controls.
    """

    tempo: float = 120.0
    notes: list[Note] = dataclasses.field(default_factory=list)
    bends: list[Bend] = dataclasses.field(default_factory=list)
    controls: list[Control] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the score as a dict.

        Returns:
            The fields as `melisma synth` reads them from JSON.
        """
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, score: Mapping[str, Any]) -> Self:
        """Returns the score of a dict, checked.

        Args:
            score: The fields, as `to_dict` gives them.

        Returns:
            The score.
        """
        return cls._of(_native(score))

    @classmethod
    def from_midi(cls, file: bytes | StrPath) -> Self:
        """Reads a MIDI file.

        Args:
            file: Its path or its bytes.

        Returns:
            The score.
        """
        if not isinstance(file, bytes):
            with open(path_of(file), "rb") as opened:
                file = opened.read()
        return cls._of(_melisma._Score.from_midi(file))

    def to_midi(self, path: StrPath | None = None) -> bytes:
        """Returns the score as a MIDI file.

        Args:
            path: Where to write it; None writes no file.

        Returns:
            The bytes of the file.
        """
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
        raise value_error(f"{type(score).__name__} is not a score", "use a Score, a dict, or \"preset:NAME\"")
    try:
        text = json.dumps({"tempo": Score.tempo, **score}, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise value_error(f"score: {error}") from None
    return _melisma._Score.from_json(text)


def _plain(value: Any) -> Any:
    """Dataclasses and numpy's numbers inside of a dict."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be part of a score")


def presets() -> dict[str, str]:
    """Returns the presets of generated music.

    Returns:
        What each is, by name.
    """
    return _melisma._styles()


def compose(preset: str, *, seconds: float = 60, seed: int = 0) -> Score:
    """Composes a piece: the same preset, length and seed give the same notes everywhere.

    Args:
        preset: A name of `presets()`.
        seconds: Its length.
        seed: Chooses the piece, 0 to 2**64 - 1.

    Returns:
        The score.
    """
    return Score._of(_compose(preset, seconds, seed))


def _compose(preset: str, seconds: Any, seed: int) -> _melisma._Score:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise value_error(f"seed is {seed!r}", "use a whole number from 0 to 2**64 - 1")
    return _melisma._Score.compose_preset(preset, seed, seconds)


@overload
def render(
    score: ScoreLike, *, seconds: float | None = None, seed: int = 0, rate: int = 48000, loudness: float | None = -18.0,
    device: str = "cpu", out: OutT,
) -> OutT: ...
@overload
def render(
    score: ScoreLike, *, seconds: float | None = None, seed: int = 0, rate: int = 48000, loudness: float | None = -18.0,
    device: str = "cpu", out: None = None,
) -> Floats: ...
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
    """Renders the samples of a score. True peaks stay at or below -1 dBTP.

    Args:
        score: A `Score`, a dict of its fields, or `"preset:NAME"`.
        seconds: The length; None plays a score until everything is silent, and a preset for a minute.
        seed: Chooses the piece of a preset.
        rate: The sample rate in Hz.
        loudness: The loudness in LUFS that the gain is chosen for; None leaves the level as it is.
        device: Renders the voices: `cpu`, `cuda`, `cuda:N`, or `auto` for the one that is expected to finish first.
        out: Takes the samples, and says how many there are: an array or a CPU tensor, float32 [2, samples] in C order.

    Returns:
        float32 [2, samples], or `out`.
    """
    hertz, given = checked_rate(rate, "rate"), target(out)
    if given is not None:
        seconds = _seconds_of(given, "[2, samples]", seconds, hertz)
    order = {"seconds": [_length(score, seconds)], "rate": hertz, "loudness": loudness, "device": device}
    result = _melisma._render([_piece(score, seconds, seed)], order, None if given is None else [given])
    return result[0] if out is None else out


_PRESET_SECONDS = 60.0


def _seconds_of(out: Any, shape: str, seconds: float | None, hertz: int) -> float:
    """The length that `out` has, which must be that of `seconds`."""
    if out.ndim != shape.count(",") + 1:
        raise value_error(f"out: shape {out.shape} is not supported", f"use {shape}")
    n_samples = out.shape[-1]
    if seconds is not None and round(seconds * hertz) != n_samples:
        raise value_error(f"out: {n_samples} samples are not {seconds} s", "leave seconds out")
    return float(n_samples / hertz)


def _length(score: ScoreLike, seconds: float | None) -> float | None:
    return _PRESET_SECONDS if isinstance(score, str) and seconds is None else seconds


def _piece(score: ScoreLike, seconds: float | None, seed: int) -> _melisma._Score:
    if not isinstance(score, str):
        return _native(score)
    if not score.startswith("preset:"):
        raise value_error(f"{score!r} is not a preset", "use \"preset:focus\"; Score.from_midi reads a file")
    return _compose(score, _length(score, seconds), seed)


@overload
def render_all(
    scores: Iterable[ScoreLike], *, seconds: float | None = None, seed: int = 0, rate: int = 48000,
    loudness: float | None = -18.0, device: str = "cpu", out: OutT,
) -> OutT: ...
@overload
def render_all(
    scores: Iterable[ScoreLike], *, seconds: float | None = None, seed: int = 0, rate: int = 48000,
    loudness: float | None = -18.0, device: str = "cpu", out: None = None,
) -> list[Floats]: ...
def render_all(
    scores: Iterable[ScoreLike],
    *,
    seconds: float | None = None,
    seed: int = 0,
    rate: int = 48000,
    loudness: float | None = -18.0,
    device: str = "cpu",
    out: ArrayLike | None = None,
) -> Any:
    """The samples of many scores, each as `render` gives them; on the CPU a thread for each, on a GPU in one batch.

    Args:
        scores: What `render` takes, one after the other.
        seconds: The length of each, as for `render`.
        seed: Chooses the piece of a preset; the score after it has the next seed.
        rate: The sample rate in Hz.
        loudness: As for `render`, of each.
        device: As for `render`.
        out: Takes the samples, and says how many there are: an array or a CPU tensor, float32 [n, 2, samples] in C order.

    Returns:
        float32 [2, samples] for each, or `out`.
    """
    if isinstance(scores, str | Mapping | Score):
        raise value_error(f"{type(scores).__name__} is one score", "use render, or a list of scores")
    hertz, given, listed = checked_rate(rate, "rate"), target(out), list(scores)
    if given is not None:
        seconds = _seconds_of(given, "[n, 2, samples]", seconds, hertz)
        if len(given) != len(listed):
            raise value_error(f"out: shape {given.shape} for {len(listed)} scores")
    lengths = [_length(score, seconds) for score in listed]
    order = {"seconds": lengths, "rate": hertz, "loudness": loudness, "device": device}
    pieces = [_piece(score, seconds, seed + index) for index, score in enumerate(listed)]
    result = _melisma._render(pieces, order, None if given is None else list(given))
    return result if out is None else out


render_async = twin(render)
render_all_async = twin(render_all)
voices_async = twin(voices)
synthesize_batch = voices


class Stream(_melisma.Stream):
    """Live music: a preset without end, or silence; notes and controls take effect at once.

    Args:
        preset: A name of `presets()`; None is silence until notes arrive.
        seed: Chooses the music.
        rate: The sample rate in Hz.

    >>> stream = Stream("sleep", seed=3)
    >>> stream.set("reverb", 0.6)
    >>> stream.note("pluck", key=64)
    >>> stream.read(480).shape
    (2, 480)
    """

    def __iter__(self) -> Iterator[Floats]:
        """Blocks of 10 ms without end.

        Returns:
            Samples, float32 [2, rate / 100] each.
        """
        while True:
            yield self.read(self.sample_rate // 100)
