"""Frames of seven codes to the three levels of a 24 kHz model."""

import functools
from typing import Any, NamedTuple, overload

import numpy

from . import _melisma
from ._array import ArrayLike, Integers, TorchT, in_order, integers, is_torch, like, optional, value_error

_SLOTS = ((0,), (1, 4), (2, 3, 5, 6))
"""The slots of a frame on each level."""


class Valid(NamedTuple):
    """Whether all codes of each level are in the codebook.

    Args:
        valid_0: Those of the coarsest level, [n].
        valid_1: Those of the middle level, [2n].
        valid_2: Those of the finest level, [4n].
    """

    valid_0: bool
    valid_1: bool
    valid_2: bool


@overload
def populate(frames: TorchT, *, codebook_size: int = 4096) -> tuple[TorchT, TorchT, TorchT]: ...
@overload
def populate(frames: ArrayLike, *, codebook_size: int = 4096) -> tuple[Integers, Integers, Integers]: ...
def populate(frames: ArrayLike, *, codebook_size: int = 4096) -> tuple[Any, Any, Any]:
    """Spreads frames of seven codes over the three levels of a 24 kHz model.

    Args:
        frames: [n, 7], or codes in a row; those after the last whole frame are left out. A torch tensor on a GPU stays
            there.
        codebook_size: Codes are below this.

    Returns:
        The levels [1, n], [1, 2n] and [1, 4n], torch tensors on its device if `frames` is one.
    """
    if is_torch(frames) and frames.device.type == "cuda":
        valid, whole = _on_device(frames, codebook_size)
        if all(valid):
            coarse, middle, fine = (_level(whole, level) for level in range(3))
            return coarse, middle, fine
        # The same codes on the host raise the error that names the first wrong one.
    levels = _melisma._populate(_array(frames), codebook_size)
    return levels if not is_torch(frames) else (like(frames, levels[0]), like(frames, levels[1]), like(frames, levels[2]))


def validate(frames: ArrayLike, *, codebook_size: int = 4096) -> Valid:
    """Returns whether `populate` would take these frames, for each level.

    Args:
        frames: As for `populate`: codes after the last whole frame are left out.
        codebook_size: Codes are below this.

    Returns:
        The flags `valid_0`, `valid_1` and `valid_2`.

    >>> validate([0, 1, 4096, 3, 4, 5, 6])
    Valid(valid_0=True, valid_1=True, valid_2=False)
    """
    if is_torch(frames) and frames.device.type == "cuda":
        return _on_device(frames, codebook_size)[0]
    return Valid(*_melisma._validate(_array(frames), codebook_size))


def _array(frames: ArrayLike) -> Integers:
    array = frames if isinstance(frames, numpy.ndarray) and frames.dtype == numpy.int32 else integers(frames)
    _check_shape(array)
    return array if in_order(array) else integers(array)


def _check_shape(codes: Any) -> None:
    if codes.ndim == 0 or codes.ndim > 1 and codes.shape[-1] != 7:
        raise value_error(f"codes of shape {tuple(codes.shape)}", "use [n] codes in a row, or frames [n, 7]")


def _on_device(frames: Any, codebook_size: int) -> tuple[Valid, Any]:
    """Returns the flags, which are all that is copied to the host, and whole frames [n, 7]."""
    _check_shape(frames)
    if frames.is_floating_point() or frames.is_complex() or str(frames.dtype) == "torch.bool":
        raise value_error(f"codes of type {frames.dtype}", "use a tensor of integers")
    _melisma._validate(numpy.zeros(0, numpy.int32), codebook_size)
    codes = frames.detach().reshape(-1)
    # A size that a narrow type cannot hold would be cut to it by the comparison.
    codes = codes.int() if codes.element_size() < 4 else codes
    whole = codes[: codes.numel() // 7 * 7].view(-1, 7)
    slots = ((whole >= 0) & (whole < codebook_size)).all(0).tolist()
    return Valid(*(all(slots[slot] for slot in level) for level in _SLOTS)), whole


def _level(whole: Any, level: int) -> Any:
    codes = whole.index_select(1, _slots(str(whole.device), level))
    return codes.to(optional("torch").int32).view(1, -1)


@functools.lru_cache(maxsize=64)
def _slots(device: str, level: int) -> Any:
    torch = optional("torch")
    return torch.tensor(_SLOTS[level], device=device)
