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
from typing import Any, overload

import numpy
import numpy.typing as npt

from . import _melisma
from ._array import ArrayLike, OutT, TorchT, as_numpy, floats, in_order, like, rate, target, value_error
from ._async import twin
from ._feature import Value
from .audio import resample

__all__ = ["Transform", "keys", "presets", "spectrogram", "spectrogram_async"]

_TAKEN = (numpy.dtype(numpy.float32), numpy.dtype(numpy.int16))
"""Samples that are used where they are."""


def presets() -> dict[str, str]:
    """Returns the presets of spectrograms.

    Returns:
        What each gives, by name.
    """
    return _melisma._mel_presets()


def keys() -> dict[str, str]:
    """Returns the values of a preset that can be set.

    Returns:
        What each means and allows, by name.
    """
    return _melisma._mel_keys()


class Transform:
    """One setting for many spectrograms, with its tables on a device. It can be pickled.

    Args:
        preset: A name of `presets()`.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the settings.
        values: Values in place of the preset's, by the names of `keys()`.
    """

    def __init__(self, preset: str = "builder", *, device: str | None = None, **values: Value) -> None:
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
        """Returns the shape of a spectrogram.

        Args:
            n_samples: Samples of the clip.

        Returns:
            Mels and frames.
        """
        return self._native.shape(n_samples)

    @overload
    def __call__(self, samples: ArrayLike, *, out: OutT) -> OutT: ...
    @overload
    def __call__(self, samples: TorchT, *, out: None = None) -> TorchT: ...
    @overload
    def __call__(self, samples: ArrayLike, *, out: None = None) -> npt.NDArray[Any]: ...
    def __call__(self, samples: ArrayLike, *, out: ArrayLike | None = None) -> Any:
        """Computes the spectrogram of samples at the rate of the settings.

        Args:
            samples: [samples] or [batch, samples]. float32 and int16 in C order are used where they are; others are copied.
            out: Takes the result: an array or a CPU tensor of its shape and type in C order.

        Returns:
            [mels, frames] or [batch, mels, frames], a torch tensor if `samples` is one, or `out`.
        """
        array = as_numpy(samples)
        if array.dtype not in _TAKEN or not in_order(array):
            array = floats(array)
        if array.ndim not in (1, 2):
            raise value_error(f"samples of shape {array.shape} are not supported", "use [samples] or [batch, samples]")
        if out is None:
            return like(samples, self._native._run(array))
        self._native._run(array, target(out, array))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, self._arguments


def _transform_of(preset: str, device: str | None, values: dict[str, Any]) -> _melisma.Transform:
    return _melisma.Transform(preset, device=device, **values)


def _reopen(preset: str, device: str | None, values: dict[str, Any]) -> Transform:
    return Transform(preset, device=device, **values)


@functools.lru_cache(maxsize=16)
def _get_transform(preset: str, device: str | None, values: tuple[tuple[str, Any], ...]) -> Transform:
    return Transform(preset, device=device, **dict(values))


@overload
def spectrogram(
    x: ArrayLike, *, sample_rate: int | None = None, preset: str = "builder", device: str | None = None, out: OutT,
    **values: Value,
) -> OutT: ...
@overload
def spectrogram(
    x: TorchT, *, sample_rate: int | None = None, preset: str = "builder", device: str | None = None, out: None = None,
    **values: Value,
) -> TorchT: ...
@overload
def spectrogram(
    x: ArrayLike, *, sample_rate: int | None = None, preset: str = "builder", device: str | None = None, out: None = None,
    **values: Value,
) -> npt.NDArray[Any]: ...
def spectrogram(
    x: ArrayLike,
    *,
    sample_rate: int | None = None,
    preset: str = "builder",
    device: str | None = None,
    out: ArrayLike | None = None,
    **values: Value,
) -> Any:
    """Computes the mel spectrogram of samples.

    Args:
        x: The samples, [samples] or [batch, samples].
        sample_rate: Their rate in Hz; another one than the preset's is resampled. None is the preset's.
        preset: A name of `presets()`.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the settings.
        out: Takes the result: an array or a CPU tensor of its shape and type in C order.
        values: Values in place of the preset's, by the names of `keys()`: `n_mels=128, hop_length=160`.

    Returns:
        [mels, frames] or [batch, mels, frames], a torch tensor if `x` is one, or `out`.
    """
    try:
        transform = _get_transform(preset, device, tuple(sorted(values.items())) if values else ())
    except TypeError as error:
        raise value_error(f"a value of the preset is not a number or a word: {error}") from None
    if sample_rate is not None:
        own_rate = transform.values["sample_rate"]
        if rate(sample_rate) != own_rate:
            x = resample(x, sample_rate, own_rate)
    return transform(x, out=out)


spectrogram_async = twin(spectrogram)
