# 436 lines because every function names a piece, its length and its sound in the same way.
"""Scores and generated music to audio.

A score is a `Score`, a dict of the same fields (the JSON of `melisma synth`), the path of a MIDI or JSON file, or
`"preset:NAME"`.

>>> from melisma import synth
>>> score = synth.Score(tempo=120, notes=[synth.Note("lead", start=0, duration=0.4, key=69, velocity=0.8)])
>>> synth.render(score, seconds=1).shape
(2, 48000)
>>> sorted(synth.presets())
['bright', 'focus', 'meditation', 'sleep']
>>> piece = synth.compose("focus", seconds=10, seed=7)
>>> len(piece.notes) > 10
True
>>> slow = synth.compose("focus", seconds=10, seed=7, key="A", tempo=40, voices="melody")
>>> slow.tempo
40.0
>>> synth.voices([60, 64, 67], instrument="pluck", seconds=0.5).shape
(3, 24000)
>>> [sound.shape for sound in synth.render_all([score, "preset:focus"], seconds=0.5)]
[(2, 24000), (2, 24000)]
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Self, TypeAlias, TypeGuard, overload

from . import _melisma
from ._array import ArrayLike, Floats, OutT, number, rate as checked_rate, target, value_error, word
from ._async import twin
from ._path import StrPath, path_of
from ._preset import Change, changes, preset_yaml, presets, seed_of
from ._voices import RATES, seconds_of, voices

__all__ = [
    "Bend", "Control", "Note", "Score", "Stream", "changes", "compose", "preset_yaml", "presets", "render", "render_all",
    "render_all_async", "render_async", "stems", "stems_async", "synthesize_batch", "voices", "voices_async",
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
Playable: TypeAlias = ScoreLike | bytes | os.PathLike[str]
"""What is rendered; bytes are those of a MIDI file, and a path names a MIDI or JSON file."""


def _native(score: ScoreLike) -> _melisma._Score:
    if isinstance(score, Score):
        score = score.to_dict()
    if not isinstance(score, Mapping):
        raise value_error(f"{type(score).__name__} is not a score", "use a Score, a dict, a file, or \"preset:NAME\"")
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


def compose(preset: str, *, seconds: float = 60, seed: int | str = 0, **changes: Change) -> Score:
    """Composes a piece: the same preset, length, seed and changes give the same notes everywhere.

    Args:
        preset: A name of `presets()`, or a .yaml file.
        seconds: Its length.
        seed: Chooses the piece: a number from 0 to 2**64 - 1, or any text.
        changes: Changes to the preset, by the names of `changes()`: `key="F#", tempo=96`.

    Returns:
        The score.
    """
    return Score._of(_compose(preset, seconds, seed, changes))


def _compose(preset: str, seconds: Any, seed: int | str, changes: Mapping[str, Change]) -> _melisma._Score:
    return _melisma._Score.compose_preset(preset, seed_of(seed), seconds, **changes)


@overload
def render(
    score: Playable, *, seconds: float | None = None, seed: int | str = 0, rate: int = 48000, loudness: float | None = -18.0,
    device: str = "cpu", out: OutT, soundfont: StrPath | None = None, **changes: Change,
) -> OutT: ...
@overload
def render(
    score: Playable, *, seconds: float | None = None, seed: int | str = 0, rate: int = 48000, loudness: float | None = -18.0,
    device: str = "cpu", out: None = None, soundfont: StrPath | None = None, **changes: Change,
) -> Floats: ...
def render(
    score: Playable,
    *,
    seconds: float | None = None,
    seed: int | str = 0,
    rate: int = 48000,
    loudness: float | None = -18.0,
    device: str = "cpu",
    out: ArrayLike | None = None,
    soundfont: StrPath | None = None,
    **changes: Change,
) -> Any:
    """Renders the samples of a score. True peaks stay at or below -1 dBTP.

    Args:
        score: A `Score`, a dict of its fields, `"preset:NAME"`, `"preset:FILE.yaml"`, the path of a MIDI or JSON file, or
            the bytes of a MIDI file.
        seconds: The length; None plays a score until everything is silent, and a preset for a minute.
        seed: Chooses the piece of a preset, as for `compose`.
        rate: The sample rate in Hz.
        loudness: The loudness in LUFS that the gain is chosen for; None leaves the level as it is.
        device: Renders the voices: `cpu`, `cuda`, `cuda:N`, or `auto` for the one that is expected to finish first.
        out: Takes the samples, and says how many there are: an array or a CPU tensor, float32 [2, samples] in C order.
        soundfont: An .sf2 file that plays instead of Melisma's instruments, on the CPU; a MIDI file with its programs and
            controllers.
        changes: Changes to a preset, by the names of `changes()`: `key="F#", tempo=96`.

    Returns:
        float32 [2, samples], or `out`.
    """
    hertz, given = checked_rate(rate, "rate", RATES), target(out)
    if given is not None:
        seconds = seconds_of(given, "[2, samples]", seconds, hertz)
    order = _order([_length(score, seconds)], hertz, (loudness, device, soundfont))
    result = _melisma._render([_piece(score, seconds, seed, changes)], order, None if given is None else [given])
    return result[0] if out is None else out


def stems(
    score: Playable,
    *,
    by: Literal["instrument", "track"] = "instrument",
    seconds: float | None = None,
    seed: int | str = 0,
    rate: int = 48000,
    loudness: float | None = -18.0,
    device: str = "cpu",
    soundfont: StrPath | None = None,
    **changes: Change,
) -> tuple[Floats, dict[str, Floats]]:
    """Renders a score, and each of its instruments or tracks apart, with its effects, before the limiter.

    The stems add up to what enters the limiter of the mix, whose samples are those of `render`.

    Args:
        score: As for `render`.
        by: What has a stem of its own. Tracks are those of a MIDI file, or the channels of one of format 0; anything
            else has a track for each instrument.
        seconds: As for `render`.
        seed: As for `render`.
        rate: As for `render`.
        loudness: As for `render`, of the mix.
        device: As for `render`.
        soundfont: As for `render`. Instruments are then those that Melisma would play the notes with.
        changes: As for `render`.

    Returns:
        The mix, float32 [2, samples], and the same of each stem by its name, which is fit for a file.
    """
    order = _order([_length(score, seconds)], checked_rate(rate, "rate", RATES), (loudness, device, soundfont))
    mix, named = _melisma._stems(_piece(score, seconds, seed, changes), order, word(by, "by"))
    return mix, dict(named)


_PRESET_SECONDS = 60.0


def _is_preset(score: Playable) -> TypeGuard[str]:
    return isinstance(score, str) and score.startswith("preset:")


def _length(score: Playable, seconds: float | None) -> float | None:
    return _PRESET_SECONDS if _is_preset(score) and seconds is None else seconds


def _order(
    lengths: list[float | None], hertz: int, sound: tuple[float | None, str, StrPath | None]
) -> dict[str, Any]:
    loudness, device, soundfont = sound
    return {
        "seconds": [None if length is None else number(length, "seconds") for length in lengths], "rate": hertz,
        "loudness": None if loudness is None else number(loudness, "loudness"), "device": word(device, "device"),
        "soundfont": None if soundfont is None else path_of(soundfont),
    }


def _piece(
    score: Playable, seconds: float | None, seed: int | str, changes: Mapping[str, Change]
) -> _melisma._Score:
    if _is_preset(score):
        return _compose(score, _length(score, seconds), seed, changes)
    for name in changes:
        raise value_error(f"{name} changes a preset, and this is a score", f"leave {name} out, or change the score")
    if isinstance(score, bytes):
        return _melisma._Score.from_midi(score)
    return _open(path_of(score)) if isinstance(score, str | os.PathLike) else _native(score)


_MIDI = (".mid", ".midi", ".smf", ".rmi")


def _open(path: str) -> _melisma._Score:
    """Reads a file by its suffix, as `melisma synth` does."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in (*_MIDI, ".json"):
        raise value_error(f"{path!r} is not a preset, nor a .mid or .json file", "use \"preset:focus\", or name a file")
    with open(path, "rb") as file:
        content = file.read()
    return _melisma._Score.from_midi(content) if suffix in _MIDI else _melisma._Score.from_json(content.decode())


@overload
def render_all(
    scores: Iterable[Playable], *, seconds: float | None = None, seed: int | str = 0, rate: int = 48000,
    loudness: float | None = -18.0, device: str = "cpu", out: OutT, soundfont: StrPath | None = None,
    **changes: Change,
) -> OutT: ...
@overload
def render_all(
    scores: Iterable[Playable], *, seconds: float | None = None, seed: int | str = 0, rate: int = 48000,
    loudness: float | None = -18.0, device: str = "cpu", out: None = None,
    soundfont: StrPath | None = None, **changes: Change,
) -> list[Floats]: ...
def render_all(
    scores: Iterable[Playable],
    *,
    seconds: float | None = None,
    seed: int | str = 0,
    rate: int = 48000,
    loudness: float | None = -18.0,
    device: str = "cpu",
    out: ArrayLike | None = None,
    soundfont: StrPath | None = None,
    **changes: Change,
) -> Any:
    """Renders the samples of many scores, each as `render` gives them; on the CPU a thread for each, on a GPU in one batch.

    Args:
        scores: What `render` takes, one after the other.
        seconds: The length of each, as for `render`.
        seed: Chooses the piece of a preset, as for `compose`; the score after it has the next number.
        rate: The sample rate in Hz.
        loudness: As for `render`, of each.
        device: As for `render`.
        out: Takes the samples, and says how many there are: an array or a CPU tensor, float32 [n, 2, samples] in C order.
        soundfont: As for `render`.
        changes: As for `render`, of each preset.

    Returns:
        float32 [2, samples] for each, or `out`.
    """
    if isinstance(scores, str | bytes | os.PathLike | Mapping | Score):
        raise value_error(f"{type(scores).__name__} is one score", "use render, or a list of scores")
    hertz, given, listed = checked_rate(rate, "rate", RATES), target(out), list(scores)
    if given is not None:
        seconds = seconds_of(given, "[n, 2, samples]", seconds, hertz)
        if len(given) != len(listed):
            raise value_error(f"out: shape {given.shape} for {len(listed)} scores")
    first = seed_of(seed)
    order = _order([_length(score, seconds) for score in listed], hertz, (loudness, device, soundfont))
    pieces = [_piece(score, seconds, first + index, changes) for index, score in enumerate(listed)]
    result = _melisma._render(pieces, order, None if given is None else list(given))
    return result if out is None else out


render_async = twin(render)
render_all_async = twin(render_all)
stems_async = twin(stems)
voices_async = twin(voices)
synthesize_batch = voices


class Stream(_melisma.Stream):
    """Live music: a preset without end, or silence; notes and controls take effect at once.

    Args:
        preset: A name of `presets()` or a .yaml file; None is silence until notes arrive.
        seed: Chooses the music, as for `compose`.
        rate: The sample rate in Hz.
        changes: Changes to the preset, by the names of `changes()`.

    >>> stream = Stream("sleep", seed=3, key="A", brightness=0.3)
    >>> stream.set("reverb", 0.6)
    >>> stream.note("pluck", key=64)
    >>> stream.read(480).shape
    (2, 480)
    """

    def __new__(
        cls, preset: str | None = None, *, seed: int | str = 0, rate: int = 48_000, **changes: Change
    ) -> Self:
        return super().__new__(cls, preset, seed=seed_of(seed), rate=rate, **changes)

    def __iter__(self) -> Iterator[Floats]:
        """Blocks of 10 ms without end.

        Returns:
            Samples, float32 [2, rate / 100] each.
        """
        while True:
            yield self.read(self.sample_rate // 100)
