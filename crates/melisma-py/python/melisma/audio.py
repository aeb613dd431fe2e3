"""Audio files: read, write, resample and change the speed.

Samples are float32 [channels, samples] with a full scale of -1 to 1. Nothing is normalised.

>>> import numpy, tempfile, pathlib
>>> from melisma import audio
>>> tone = numpy.sin(numpy.arange(8000, dtype=numpy.float32) / 10) / 2
>>> path = pathlib.Path(tempfile.mkdtemp()) / "tone.wav"
>>> audio.write(path, tone, 8000)
>>> samples, sample_rate = audio.read(path)
>>> samples.shape, sample_rate
((1, 8000), 8000)
>>> audio.read(path, sample_rate=24000).samples.shape
(1, 24000)
"""

from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy

from . import _melisma
from ._array import ArrayLike, Floats, OutT, TorchT, floats, like, rate, target, value_error
from ._html import clip_html
from ._path import StrPath, path_of

__all__ = ["Clip", "read", "resample", "stretch", "write"]

SampleFormat: TypeAlias = Literal["s16", "s24", "f32"]


class Clip(NamedTuple):
    """Samples and their rate. Notebooks show a player and a spectrogram.

    Args:
        samples: float32 [channels, samples].
        sample_rate: In Hz.
    """

    samples: Floats
    sample_rate: int

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return float(floats(self.samples).shape[-1] / rate(self.sample_rate))

    def _repr_html_(self) -> str:
        return clip_html(_channels(self.samples), rate(self.sample_rate))


def read(path: StrPath, *, sample_rate: int | None = None, mono: bool = False) -> Clip:
    """Reads WAV, FLAC, MP3, Ogg Vorbis, Opus, WebM, M4A, AIFF or CAF, by the file's content.

    Args:
        path: The file.
        sample_rate: The rate in Hz to resample to; None keeps that of the file.
        mono: Whether to take the mean of all channels, as [1, samples].

    Returns:
        The samples [channels, samples] and their rate.
    """
    samples, own_rate = _melisma._audio_read(path_of(path))
    if mono and len(samples) > 1:
        samples = samples.mean(axis=0, keepdims=True, dtype=numpy.float32)
    if sample_rate is None or rate(sample_rate) == own_rate:
        return Clip(samples, own_rate)
    return Clip(resample(samples, own_rate, sample_rate), sample_rate)


def write(
    path: StrPath, samples: ArrayLike, sample_rate: int, *, sample_format: SampleFormat = "s16"
) -> None:
    """Writes an audio file. An existing one is replaced when the new one is complete.

    Args:
        path: The file; its suffix, `.wav`, `.flac`, `.mp3` or `.opus`, names the format.
        samples: [samples] or [channels, samples].
        sample_rate: In Hz.
        sample_format: "s16", "s24" or "f32"; the integer formats clip samples beyond full scale.
    """
    array = _channels(samples)
    if not numpy.isfinite(array).all():
        raise value_error(f"sample {int(numpy.argmin(numpy.isfinite(array).all(axis=0)))} is not finite", "use numpy.nan_to_num")
    _melisma._audio_write(path_of(path), array, rate(sample_rate), sample_format)


def _channels(samples: ArrayLike) -> Floats:
    """Returns the samples as [channels, samples]."""
    array = floats(samples)
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[0] == 0:
        raise value_error(f"samples of shape {array.shape} are not supported", "use [samples] or [channels, samples]")
    return array


@overload
def resample(samples: ArrayLike, from_rate: int, to_rate: int, *, out: OutT) -> OutT: ...
@overload
def resample(samples: TorchT, from_rate: int, to_rate: int, *, out: None = None) -> TorchT: ...
@overload
def resample(samples: ArrayLike, from_rate: int, to_rate: int, *, out: None = None) -> Floats: ...
def resample(samples: ArrayLike, from_rate: int, to_rate: int, *, out: ArrayLike | None = None) -> Any:
    """Resamples along the last axis by band-limited interpolation.

    Args:
        samples: [..., samples].
        from_rate: Their rate in Hz.
        to_rate: The rate of the result in Hz.
        out: Takes the result: an array or a CPU tensor of its shape and type in C order.

    Returns:
        float32 [..., ceil(samples * to_rate / from_rate)], a torch tensor if `samples` is one, or `out`.

    >>> resample(numpy.zeros((2, 44100), "f4"), 44100, 16000).shape
    (2, 16000)
    """
    array = floats(samples)
    if array.ndim == 0:
        raise value_error("samples need an axis", "use [..., samples]")
    from_rate, to_rate = rate(from_rate, "from_rate"), rate(to_rate, "to_rate")
    shape = (*array.shape[:-1], -(-array.shape[-1] * to_rate // from_rate))
    given = _rows(target(out, array), shape)
    n_rows = int(numpy.prod(shape[:-1], dtype=numpy.int64))
    result = _melisma._resample(array.reshape(n_rows, array.shape[-1]), from_rate, to_rate, given)
    return like(samples, result.reshape(shape)) if out is None else out


def _rows(out: Any, shape: tuple[int, ...]) -> Any:
    """Returns `out` with one axis before the last."""
    if out is None:
        return None
    if out.shape != shape or not out.flags.c_contiguous:
        raise value_error(f"out: expected shape {shape} in C order, found {out.shape}")
    return out.reshape(int(numpy.prod(shape[:-1], dtype=numpy.int64)), shape[-1])


@overload
def stretch(samples: TorchT, sample_rate: int, speed: float) -> TorchT: ...
@overload
def stretch(samples: ArrayLike, sample_rate: int, speed: float) -> Floats: ...
def stretch(samples: ArrayLike, sample_rate: int, speed: float) -> Any:
    """Plays samples faster or slower at the same pitch.

    Args:
        samples: [samples] or [channels, samples].
        sample_rate: In Hz.
        speed: How many times as fast, 0.25 to 4.

    Returns:
        float32 with round(samples / speed) samples, a torch tensor if `samples` is one.

    >>> stretch(numpy.zeros((2, 24000), "f4"), 24000, 1.25).shape
    (2, 19200)
    """
    array = floats(samples)
    if array.ndim not in (1, 2):
        raise value_error(f"samples of shape {array.shape} are not supported", "use [samples] or [channels, samples]")
    result = _melisma._stretch(array[None] if array.ndim == 1 else array, rate(sample_rate), speed)
    return like(samples, result[0] if array.ndim == 1 else result)
