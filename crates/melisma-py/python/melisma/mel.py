"""Mel spectrograms with the numbers of torchaudio, librosa, Whisper, Kaldi and HiFi-GAN.

`presets()` lists the presets, and `keys()` the values of a preset that can be set.

>>> import numpy
>>> from melisma import mel
>>> second = numpy.zeros(16000, "f4")
>>> mel.spectrogram(second, preset="whisper-80").shape
(80, 100)
>>> mel.spectrogram(second, preset="whisper-80", n_mels=40, hop_length=320).shape
(40, 50)
"""

import functools
import os
from typing import Any

import numpy

from . import _melisma
from ._array import ArrayLike, floats, in_order, like, plain, rate, refuse, target
from .audio import resample

__all__ = ["Transform", "keys", "presets", "spectrogram"]

_TAKEN = (numpy.dtype(numpy.float32), numpy.dtype(numpy.int16))
"""Samples that are used where they are."""


def presets() -> dict[str, str]:
    """The presets, and what each gives."""
    return _melisma._mel_presets()


def keys() -> dict[str, str]:
    """The values of a preset, what they mean and what they allow."""
    return _melisma._mel_keys()


class Transform:
    """A preset with some of its values changed, and its tables on a device: for many spectrograms."""

    def __init__(self, preset: str = "builder", *, device: str | None = None, **values: Any) -> None:
        self._arguments = (preset, device, values)
        self._process = os.getpid()
        self._made = _transform_of(*self._arguments)

    @property
    def _native(self) -> _melisma.Transform:
        if self._process != os.getpid():
            # The threads of the other one are in the process that forked.
            self._made, self._process = _transform_of(*self._arguments), os.getpid()
        return self._made

    @property
    def values(self) -> dict[str, Any]:
        """Every value."""
        return self._native.values

    def shape(self, n_samples: int) -> tuple[int, int]:
        """The shape of the spectrogram of `n_samples` samples."""
        return self._native.shape(n_samples)

    def __call__(self, samples: ArrayLike, *, out: ArrayLike | None = None) -> Any:
        """The spectrogram [mels, frames] of samples at the rate of the settings, or one for each row of [batch, samples].

        float32 and int16 in C order are used where they are; other floats and strides are copied. The result goes into
        `out` if that is given: an array of the result's shape and type in C order.
        """
        array = plain(samples)
        if array.dtype not in _TAKEN or not in_order(array):
            array = floats(array)
        if array.ndim not in (1, 2):
            raise refuse(f"samples of shape {array.shape}", "use [samples] or [batch, samples]")
        if out is None:
            return like(samples, self._native._run(array))
        self._native._run(array, target(out, array))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, self._arguments


def _transform_of(preset: str, device: str | None, values: dict[str, Any]) -> _melisma.Transform:
    return _melisma.Transform(preset, device=device, **values)


def _reopened(preset: str, device: str | None, values: dict[str, Any]) -> Transform:
    return Transform(preset, device=device, **values)


@functools.lru_cache(maxsize=16)
def _cached(preset: str, device: str | None, values: tuple[tuple[str, Any], ...]) -> Transform:
    return Transform(preset, device=device, **dict(values))


def spectrogram(
    x: ArrayLike,
    *,
    sample_rate: int | None = None,
    preset: str = "builder",
    device: str | None = None,
    out: ArrayLike | None = None,
    **values: Any,
) -> Any:
    """The mel spectrogram of samples, [samples] or [batch, samples].

    `sample_rate` is the rate of `x`; samples of another rate than the preset's are resampled. Without it `x` has the
    preset's rate. Every value of a preset can be given by name: `n_mels=128, hop_length=160`. `out` takes the result.
    A torch tensor gives a torch tensor.
    """
    try:
        transform = _cached(preset, device, tuple(sorted(values.items())) if values else ())
    except TypeError as error:
        raise refuse(f"a value of the preset is not a number or a word: {error}") from None
    if sample_rate is not None:
        own_rate = transform.values["sample_rate"]
        if rate(sample_rate) != own_rate:
            x = resample(x, sample_rate, own_rate)
    return transform(x, out=out)
