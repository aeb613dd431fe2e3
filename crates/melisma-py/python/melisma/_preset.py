"""Presets of generated music, and what can be changed of them."""

import warnings
from typing import TypeAlias

import numpy

from . import _melisma
from ._array import value_error
from ._path import StrPath, path_of

Change: TypeAlias = str | float | None
"""A change to a preset; None leaves the preset as it is."""


def presets(folder: StrPath | None = None) -> dict[str, str]:
    """Returns the presets of generated music. Warns of files in `folder` that hold no preset.

    Args:
        folder: A folder of presets in .yaml files, or one such file; None lists those that are built in.

    Returns:
        What each is, by name; those of `folder` by their paths, which `compose` takes too.
    """
    found, faults = _melisma._styles(None if folder is None else path_of(folder))
    for fault in faults:
        warnings.warn(f"not a preset: {fault}", stacklevel=2)
    return found


def changes() -> dict[str, str]:
    """Returns what can be changed of a preset.

    Returns:
        The values of each change, by name.
    """
    return dict(_CHANGES)


_SHARE = "0 to 1"
_CHANGES = {
    "key": "C, C# to B",
    "mode": "aeolian, dorian, lydian or phrygian",
    "tempo": "30 to 180 beats per minute",
    "intensity": "0 to 1: density and loudness of the notes; 0.5 is the preset",
    "voices": "some of melody,arpeggio,drums,swells beside chords and bass",
    "gain": _SHARE,
    "brightness": "0.1 to 10",
    "motion": _SHARE,
    "reverb": _SHARE,
    "delay": _SHARE,
}


def seed_of(seed: object) -> int:
    """Returns the number of a seed, which is a number or any text, as on the command line."""
    if isinstance(seed, str):
        return _melisma._seed(seed)
    if isinstance(seed, bool) or not isinstance(seed, int | numpy.integer) or not 0 <= int(seed) < 2**64:
        raise value_error(f"seed is {seed!r}", "use a whole number from 0 to 2**64 - 1, or a text")
    return int(seed)


def preset_yaml(preset: str, **changes: Change) -> str:
    """Returns a preset as the text of a .yaml file, to be edited and played.

    Args:
        preset: A name of `presets()`, or a .yaml file.
        changes: Changes to the preset, by the names of `changes()`.

    Returns:
        The text, which says what each field means.
    """
    return _melisma._preset_yaml(preset, **changes)
