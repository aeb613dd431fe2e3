"""Arrays in and out: numpy arrays, torch tensors, and whatever else shares its memory by DLPack."""

import contextlib
import importlib
import sys
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy
import numpy.typing as npt

from ._error import MelismaImportError, MelismaValueError

Floats: TypeAlias = npt.NDArray[numpy.float32]
Integers: TypeAlias = npt.NDArray[numpy.int32]
ArrayLike: TypeAlias = Any
"""A numpy array, a torch tensor, an object with `__dlpack__`, or nested lists of numbers."""



class TorchLike(Protocol):
    """A torch tensor, known by a method that arrays lack."""

    def detach(self) -> Any:
        """Returns the values, apart from any graph."""


TorchT = TypeVar("TorchT", bound=TorchLike)
"""A torch tensor: what is given is what comes back."""
OutT = TypeVar("OutT")
"""The type of `out`, which is returned."""

_HOST = (1, 3)
"""DLPack's names for devices whose memory the host can read: the CPU, and pinned memory of CUDA."""


def value_error(message: str, hint: str | None = None) -> MelismaValueError:
    return MelismaValueError("invalid_argument", message, hint)


def optional(name: str, package: str | None = None) -> Any:
    """Returns a module that need not be installed; `package` is what pip calls it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MelismaImportError("import", f"{name} is not installed", f"pip install {package or name}") from None


def is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_numpy(value: ArrayLike) -> npt.NDArray[Any]:
    """Returns the array of `value`, without a copy where its memory is the host's."""
    if isinstance(value, numpy.ndarray):
        return value
    if is_torch(value):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        array: npt.NDArray[Any] = value.cpu().numpy()
        return array
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value)
    return numpy.asarray(value)


def _from_dlpack(value: Any) -> npt.NDArray[Any]:
    """Shares the memory of the host. What another device holds, its owner copies to the host, once."""
    try:
        if value.__dlpack_device__()[0] in _HOST:
            return numpy.from_dlpack(value)
        return numpy.from_dlpack(value, device="cpu", copy=True)
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        raise value_error(f"{type(value).__name__} cannot be shared by DLPack: {error}", "copy it to the host first") from None


def target(out: ArrayLike | None, *inputs: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Returns the memory of `out` as an array, never a copy of it. It must not overlap the inputs."""
    if out is None:
        return None
    if is_torch(out):
        if out.requires_grad and optional("torch").is_grad_enabled():
            raise value_error("out: the tensor requires a gradient", "use out.detach()")
        if out.device.type != "cpu" or str(out.dtype) == "torch.bfloat16":
            raise value_error(f"out: numpy cannot share a tensor of {out.dtype} on {out.device}", "use one on the CPU, not bfloat16")
        array: npt.NDArray[Any] = out.detach().numpy()
    elif isinstance(out, numpy.ndarray) or hasattr(out, "__dlpack__"):
        array = as_numpy(out)
    else:
        raise value_error(f"out: {type(out).__name__} is not an array")
    if not in_order(array):
        raise value_error("out: its elements do not lie in C order at aligned addresses", "use numpy.empty(shape, dtype)")
    if any(numpy.may_share_memory(array, one) for one in inputs):
        raise value_error("out: it overlaps the input", "use an array of its own")
    return array


def like(value: object, array: npt.NDArray[Any]) -> Any:
    """Returns `array` as what the caller gave: a torch tensor on its device, without a copy on the CPU, or the array itself."""
    if not is_torch(value):
        return array
    return optional("torch").from_numpy(array).to(getattr(value, "device"))


def in_order(array: npt.NDArray[Any]) -> bool:
    """Returns whether its elements lie in C order, each at an address that fits its size."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def floats(value: ArrayLike, what: str = "samples") -> Floats:
    """Samples as float32 in C order. Floats are cast, int16 is scaled by 1 / 32768, and other types are refused."""
    array = as_numpy(value)
    if array.dtype == numpy.float32 and in_order(array) and array.dtype.isnative:
        return array
    if array.dtype.kind == "f":
        return numpy.require(array, numpy.float32, ["C", "A"])
    if array.dtype.kind == "i" and array.dtype.itemsize == 2:
        scaled: Floats = numpy.multiply(array, numpy.float32(1 / 32768), dtype=numpy.float32, order="C")
        return scaled
    raise value_error(f"{what} of type {array.dtype} are not supported", "use floats with a full scale of 1, or int16")


def integers(value: ArrayLike, what: str = "codes") -> Integers:
    """Returns whole numbers as int32 in C order; those that int32 cannot hold are refused."""
    array = as_numpy(value)
    if array.dtype == numpy.int32 and in_order(array) and array.dtype.isnative:
        return array
    if array.size == 0:
        return numpy.zeros(array.shape, numpy.int32)
    if array.dtype.kind not in "iu":
        raise value_error(f"{what} of type {array.dtype} are not supported", "use an array of integers")
    bounds = numpy.iinfo(numpy.int32)
    if array.min() < bounds.min or array.max() > bounds.max:
        raise value_error(f"{what} from {array.min()} to {array.max()} do not fit 32 bits")
    return numpy.require(array, numpy.int32, ["C", "A"])


def mapping(value: Any, what: str) -> Mapping[Any, Any]:
    """Returns a dict, or what behaves as one."""
    if not isinstance(value, Mapping):
        raise value_error(f"{what}: {type(value).__name__} is not a dict")
    return value


def rate(value: object, what: str = "sample_rate", bounds: tuple[int, int] = (1, 2**32 - 1)) -> int:
    """Returns a rate in Hz."""
    low, high = bounds
    if isinstance(value, bool) or not isinstance(value, int | numpy.integer) or not low <= value <= high:
        raise value_error(f"{what} is {value!r:.40}", f"give an int from {low} to {high}, in Hz, as in 24000")
    return int(value)


def number(value: Any, what: str) -> float:
    """Returns a number; text is refused."""
    if not isinstance(value, str | bytes | bytearray):
        with contextlib.suppress(TypeError, ValueError):
            return float(value)
    raise TypeError(f"{what}: {type(value).__name__} is not a number")


def word(value: object, what: str) -> str:
    """Returns a str."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: {type(value).__name__} is not a str")
    return value
