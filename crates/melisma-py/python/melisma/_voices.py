"""Many notes at once, each in a row of its own."""

import math
from typing import Any, overload

import numpy

from . import _melisma
from ._array import ArrayLike, Floats, OutT, TorchT, as_numpy, is_torch, like, number, target, value_error, word
from ._array import rate as checked_rate

RATES = (8_000, 192_000)
"""The sample rates of synthesis, in Hz."""



@overload
def voices(
    pitches: ArrayLike, *, instrument: str = "lead", seconds: float | None = None, duration: float | None = None,
    velocity: ArrayLike = 0.8, rate: int = 48000, device: str | None = None, out: OutT,
) -> OutT: ...
@overload
def voices(
    pitches: TorchT, *, instrument: str = "lead", seconds: float | None = None, duration: float | None = None,
    velocity: ArrayLike = 0.8, rate: int = 48000, device: str | None = None, out: None = None,
) -> TorchT: ...
@overload
def voices(
    pitches: ArrayLike, *, instrument: str = "lead", seconds: float | None = None, duration: float | None = None,
    velocity: ArrayLike = 0.8, rate: int = 48000, device: str | None = None, out: None = None,
) -> Floats: ...
def voices(
    pitches: ArrayLike,
    *,
    instrument: str = "lead",
    seconds: float | None = None,
    duration: float | None = None,
    velocity: ArrayLike = 0.8,
    rate: int = 48000,
    device: str | None = None,
    out: ArrayLike | None = None,
) -> Any:
    """Renders many notes of an instrument in one call, each alone in a row, without effects.

    A row has the samples that its note has alone, whatever the other rows are. Rows may be summed; a note in the middle
    of a stereo mix has them on both sides.

    Args:
        pitches: MIDI keys [n], 0 to 127, 60 = middle C; fractions lie between keys.
        instrument: pad, lead, pluck, bass, kick, hat or swell.
        seconds: The length of the rows; None is that of `out`, or a second.
        duration: How long the notes are held, in seconds; None is `seconds`.
        velocity: 0 to 1, one for all or [n].
        rate: The sample rate in Hz.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the torch tensor `pitches`, else the CPU.
        out: Takes the rows: an array or a CPU tensor, float32 [n, samples] in C order.

    Returns:
        float32 [n, samples], a torch tensor on its device if `pitches` is one, or `out`.

    >>> chord = voices([60, 64, 67.5], instrument="pluck", seconds=0.5)
    >>> chord.shape
    (3, 24000)
    >>> bool((voices([64], instrument="pluck", seconds=0.5)[0] == chord[1]).all())
    True
    """
    hertz = checked_rate(rate, "rate", RATES)
    keys = _numbers(pitches, "pitches", numpy.float64)
    if keys.ndim != 1:
        raise value_error(f"pitches of shape {keys.shape}", "use one axis: [n]")
    loudness = _numbers(velocity, "velocity", numpy.float32)
    if loudness.ndim != 0 and loudness.shape != keys.shape:
        raise value_error(f"velocity of shape {loudness.shape} for {keys.size} pitches", "give one number, or one for each")
    given = target(out)
    if given is not None:
        seconds = seconds_of(given, "[n, samples]", seconds, hertz)
    seconds = 1.0 if seconds is None else number(seconds, "seconds")
    order = {
        "instrument": word(instrument, "instrument"), "seconds": seconds,
        "duration": seconds if duration is None else number(duration, "duration"), "rate": hertz,
        "device": _device_of(pitches) if device is None else word(device, "device"),
    }
    rows = _melisma._voices(keys, numpy.ascontiguousarray(numpy.broadcast_to(loudness, keys.shape)), order, given)
    return like(pitches, rows) if out is None else out


def seconds_of(out: Any, shape: str, seconds: float | None, hertz: int) -> float:
    """Returns the length that `out` has, which must be that of `seconds`."""
    if out.ndim != shape.count(",") + 1:
        raise value_error(f"out: shape {out.shape} is not supported", f"use {shape}")
    n_samples = out.shape[-1]
    if seconds is not None:
        length = number(seconds, "seconds") * hertz
        if not math.isfinite(length) or round(length) != n_samples:
            raise value_error(f"out: {n_samples} samples are not {seconds} s", "leave seconds out")
    return float(n_samples / hertz)


def _numbers(value: ArrayLike, what: str, dtype: Any) -> Any:
    array = as_numpy(value)
    if array.size == 0 and array.ndim == 1:
        return numpy.zeros(0, dtype)
    if array.dtype.kind not in "iuf":
        raise value_error(f"{what} of type {array.dtype}", "use numbers")
    return numpy.require(array, dtype, ["C", "A"])


def _device_of(value: object) -> str:
    return str(getattr(value, "device")) if is_torch(value) else "cpu"
