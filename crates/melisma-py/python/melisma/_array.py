"""Arrays in and out: numpy arrays, torch tensors, and whatever else shares its memory by DLPack."""

import importlib
import sys
from typing import Any, TypeAlias

import numpy
import numpy.typing as npt

from ._error import MelismaValueError

Floats: TypeAlias = npt.NDArray[numpy.float32]
Integers: TypeAlias = npt.NDArray[numpy.int32]
ArrayLike: TypeAlias = Any
"""A numpy array, a torch tensor, an object with `__dlpack__`, or nested lists of numbers."""


def refuse(message: str, hint: str | None = None) -> MelismaValueError:
    return MelismaValueError("InvalidArgument", message, hint)


def optional(name: str) -> Any:
    """A module that need not be installed."""
    return importlib.import_module(name)


def is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def plain(value: ArrayLike) -> npt.NDArray[Any]:
    """The array of `value`, without a copy where its memory is the host's."""
    if isinstance(value, numpy.ndarray):
        return value
    if is_torch(value):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        array: npt.NDArray[Any] = value.cpu().numpy()
        return array
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return numpy.from_dlpack(value)
    return numpy.asarray(value)


def like(value: object, array: npt.NDArray[Any]) -> Any:
    """`array` as what the caller gave: a torch tensor on its device, without a copy on the CPU, or the array itself."""
    if not is_torch(value):
        return array
    return optional("torch").from_numpy(array).to(getattr(value, "device"))


def floats(value: ArrayLike, what: str = "samples") -> Floats:
    """Samples as float32 in C order. Floats are cast, int16 is scaled by 1 / 32768, and other types are refused."""
    array = plain(value)
    if array.dtype == numpy.float32 and array.flags.c_contiguous and array.dtype.isnative:
        return array
    if array.dtype.kind == "f":
        return numpy.ascontiguousarray(array, dtype=numpy.float32)
    if array.dtype.kind == "i" and array.dtype.itemsize == 2:
        scaled: Floats = numpy.multiply(array, numpy.float32(1 / 32768), dtype=numpy.float32, order="C")
        return scaled
    raise refuse(f"{what} of type {array.dtype}", "use floats with a full scale of 1, or int16")


def integers(value: ArrayLike, what: str = "codes") -> Integers:
    """Whole numbers as int32 in C order; those that int32 cannot hold are refused."""
    array = plain(value)
    if array.dtype == numpy.int32 and array.flags.c_contiguous and array.dtype.isnative:
        return array
    if array.size == 0:
        return numpy.zeros(array.shape, numpy.int32)
    if array.dtype.kind not in "iu":
        raise refuse(f"{what} of type {array.dtype}", "use an array of integers")
    bounds = numpy.iinfo(numpy.int32)
    if array.min() < bounds.min or array.max() > bounds.max:
        raise refuse(f"{what} from {array.min()} to {array.max()}: they do not fit 32 bits")
    return numpy.ascontiguousarray(array, dtype=numpy.int32)


def rate(value: object, what: str = "sample_rate") -> int:
    """A rate in Hz."""
    if isinstance(value, bool) or not isinstance(value, int | numpy.integer) or not 0 < value < 2**32:
        raise refuse(f"{what} is {value!r}", "give a rate in Hz, as in 24000")
    return int(value)
