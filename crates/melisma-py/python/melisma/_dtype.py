"""Element types by their names in safetensors, numpy and torch."""

import sys
import warnings
from typing import Any

import numpy
import numpy.typing as npt

from ._array import as_numpy, is_torch, optional, target, value_error

NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
KINDS = {name: kind for kind, name in NAMES.items()}
WIDTHS = {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
STAND_INS = {"BF16": "uint16", "F8_E4M3": "uint8", "F8_E5M2": "uint8", "F8_E8M0": "uint8"}


def to_bytes(value: Any) -> tuple[str, list[int], npt.NDArray[numpy.uint8]]:
    """Returns the safetensors type, the shape and the bytes of an array or a tensor, without a copy where it lies in order."""
    if is_torch(value):
        tensor = value.detach().cpu().contiguous()
        known, shape = _safetensors_name(str(tensor.dtype).removeprefix("torch.")), list(tensor.shape)
        if tensor.numel() == 0:
            return known, shape, numpy.empty(0, numpy.uint8)
        return known, shape, tensor.reshape(-1).view(optional("torch").uint8).numpy()
    array = as_numpy(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    known = _safetensors_name(array.dtype.name)
    return known, list(array.shape), numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)


def _safetensors_name(kind: str) -> str:
    if kind not in NAMES:
        raise value_error(f"safetensors has no element type {kind}", "use array.astype(numpy.float32)")
    return NAMES[kind]


def numpy_type(name: str) -> npt.DTypeLike:
    """Returns numpy's type; those that only `ml_dtypes` has are unsigned integers, with a warning, where it is missing."""
    if name not in STAND_INS:
        return torch_name(name)
    try:
        ml_dtypes = optional("ml_dtypes")
    except ImportError:
        warnings.warn(f"{name} as {STAND_INS[name]} bits: install ml_dtypes for its numbers", stacklevel=4)
        return STAND_INS[name]
    found: npt.DTypeLike = getattr(ml_dtypes, KINDS[name])
    return found


def torch_name(name: str) -> str:
    """Returns the name that numpy and torch have for a safetensors type."""
    if name not in KINDS:
        raise value_error(f"numpy and torch have no element type {name}", "`melisma unpack` restores the file")
    return KINDS[name]


def width(name: str) -> int:
    """Returns the bytes of an element of a safetensors type."""
    return WIDTHS.get(name) or numpy.dtype(torch_name(name)).itemsize


def out_bytes(out: Any, name: str, shape: list[int]) -> npt.NDArray[numpy.uint8]:
    """Returns the bytes of `out`, an array or tensor of this safetensors type and shape in C order."""
    if is_torch(out):
        fits = out.device.type == "cpu" and out.is_contiguous()
        kind, found = str(out.dtype).removeprefix("torch."), list(out.shape)
    else:
        out = target(out)
        fits = out.flags.c_contiguous and out.flags.writeable and out.dtype.isnative
        kind, found = out.dtype.name, list(out.shape)
    if not fits or NAMES.get(kind) != name or found != list(shape):
        raise value_error(f"out: expected {list(shape)} of {name} on the CPU, writable and in C order, found {found} of {kind}")
    if is_torch(out):
        data: npt.NDArray[numpy.uint8] = out.detach().reshape(-1).view(optional("torch").uint8).numpy()
        return data
    return out.reshape(-1).view(numpy.uint8)  # type: ignore[no-any-return]


def from_bytes(name: str, shape: list[int], data: npt.NDArray[numpy.uint8], framework: str) -> Any:
    """Returns the array or tensor of these bytes, without a copy."""
    if framework == "np":
        return data.view(numpy_type(name)).reshape(shape)
    torch = optional("torch")
    kind = getattr(torch, torch_name(name))
    # torch gives bytes without elements no other type.
    return torch.from_numpy(data).view(kind).reshape(shape) if data.size else torch.empty(shape, dtype=kind)


def framework_of(name: str | None) -> str:
    """Returns `np` or `pt`; None is torch if it is imported."""
    if name is None:
        return "pt" if "torch" in sys.modules else "np"
    if name in ("np", "numpy"):
        return "np"
    if name in ("pt", "torch", "pytorch"):
        optional("torch")
        return "pt"
    raise value_error(f"unknown framework `{name}`", "use \"np\" or \"pt\"")
