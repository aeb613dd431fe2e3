"""Files of weights whose tensors are read one at a time, as safetensors opens them."""

import contextlib
import math
from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar, overload

import numpy
import numpy.typing as npt

from . import _melisma
from ._array import value_error
from ._dtype import framework_of, from_bytes
from ._error import MelismaSafetensorError, MelismaValueError
from ._path import StrPath, path_of

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found, unused-ignore]

Numpy: TypeAlias = Literal["np", "numpy"]
Torch: TypeAlias = Literal["pt", "torch", "pytorch"]
Framework: TypeAlias = Numpy | Torch
_Loaded = TypeVar("_Loaded", covariant=True)


class _SliceError(MelismaSafetensorError, IndexError):
    """An index beyond a tensor's axes."""


@contextlib.contextmanager
def as_safetensors_raises() -> Iterator[None]:
    """Errors as `SafetensorError`, but those of the operating system as they are."""
    try:
        yield
    except MelismaSafetensorError:
        raise
    except MelismaValueError as error:
        raise MelismaSafetensorError(error.kind, error.message, error.hint) from None
    except IndexError as error:
        raise _SliceError("invalid_argument", str(error)) from None


def on_device(tensor: Any, device: str) -> Any:
    if device == "cpu":
        return tensor
    if isinstance(tensor, numpy.ndarray):
        raise value_error(f"arrays on {device}", "use framework=\"pt\" for tensors of torch")
    return tensor.to(device)


class safe_open(Generic[_Loaded]):  # noqa: N801 (the name that safetensors has)
    """A file, packed or plain, whose tensors are read one at a time, for `with`.

    Bad files, unknown names and wrong indices raise a `SafetensorError`, as in safetensors.

    Args:
        filename: The file.
        framework: As for `load_file`.
        device: Where torch tensors go.
    """

    @overload
    def __init__(self: "safe_open[npt.NDArray[Any]]", filename: StrPath, framework: Numpy, device: str = "cpu") -> None: ...
    @overload
    def __init__(self: "safe_open[torch.Tensor]", filename: StrPath, framework: Torch, device: str = "cpu") -> None: ...
    @overload
    def __init__(self: "safe_open[Any]", filename: StrPath, framework: None = None, device: str = "cpu") -> None: ...
    def __init__(self, filename: StrPath, framework: Framework | None = None, device: str = "cpu") -> None:
        with as_safetensors_raises():
            self._path = path_of(filename)
            self._framework = framework_of(framework)
            self._device = device
            self._file: _melisma.PackFile | None = _melisma.PackFile(self._path)
            self._metadata = self._file.metadata
            self._tensors = {name: (dtype, shape) for name, dtype, shape in self._file.tensors}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._file = None

    def keys(self) -> list[str]:
        """Returns the names of all tensors.

        Returns:
            The names, sorted.
        """
        return sorted(self._tensors)

    def offset_keys(self) -> list[str]:
        """Returns the names of all tensors.

        Returns:
            The names in the order of the file.
        """
        return list(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """Returns the strings that are stored with the tensors.

        Returns:
            The strings by name, or None if there are none.
        """
        return self._metadata or None

    def get_tensor(self, name: str) -> _Loaded:
        """Reads one tensor.

        Args:
            name: One of `keys()`.

        Returns:
            The tensor.
        """
        return self._load(name, None, self._entry(name)[1])

    def _load(self, name: str, region: tuple[int, int, int, int] | None, shape: list[int]) -> _Loaded:
        with as_safetensors_raises():
            if self._file is None:
                raise value_error("the file is closed", "use it inside of `with safe_open(...) as file:`")
            [(_, dtype, _, data)] = self._file.load([(name, region)])
            loaded: _Loaded = on_device(from_bytes(dtype, shape, data, self._framework), self._device)
            return loaded

    def get_slice(self, name: str) -> "Slice[_Loaded]":
        """Returns a tensor that is read when it is indexed.

        Args:
            name: One of `keys()`.

        Returns:
            The tensor; nothing of it is read yet.
        """
        return Slice(self, name, *self._entry(name))

    def _entry(self, name: str) -> tuple[str, list[int]]:
        if name not in self._tensors:
            hint = f"{self._path} has {len(self._tensors)}: see keys()"
            raise MelismaSafetensorError("invalid_argument", f"unknown tensor `{name}`", hint)
        return self._tensors[name]


class Slice(Generic[_Loaded]):
    """A tensor that is read when it is indexed. Only the tiles that slices of the first and last axis touch are read.

    Args:
        file: The open file.
        name: The tensor's name.
        dtype: Its type as safetensors calls it.
        shape: Its shape.
    """

    def __init__(self, file: safe_open[_Loaded], name: str, dtype: str, shape: list[int]) -> None:
        self._file, self._name, self._dtype, self._shape = file, name, dtype, shape

    def get_shape(self) -> list[int]:
        """Returns the tensor's shape.

        Returns:
            The lengths of its axes.
        """
        return list(self._shape)

    def get_dtype(self) -> str:
        """Returns the tensor's type.

        Returns:
            Its name in safetensors, as in "BF16".
        """
        return self._dtype

    def __getitem__(self, index: Any) -> _Loaded:
        """Reads a part of the tensor.

        Args:
            index: Whatever an array takes.

        Returns:
            The part.
        """
        with as_safetensors_raises():
            read: _Loaded = self._read(index)
            return read

    def _read(self, index: Any) -> Any:
        parts = _parts(index, len(self._shape))
        if not parts:
            whole: Any = self._file.get_tensor(self._name)
            return whole[index]
        windows = [_window(part, extent) for part, extent in zip(parts, self._shape, strict=True)]
        (top, bottom, parts[0]), (first, last, parts[-1]) = windows[0], windows[-1]
        loaded: Any
        if len(parts) == 1:
            loaded = self._file._load(self._name, (0, 1, first, last), [last - first])
            return loaded[parts[0]]
        inner = self._shape[1:-1]
        n_rows = math.prod(inner)
        region = (top * n_rows, bottom * n_rows, first, last)
        loaded = self._file._load(self._name, region, [bottom - top, *inner, last - first])
        return loaded[tuple(parts)]


def _parts(index: Any, n_axes: int) -> list[Any] | None:
    """Returns an integer or a slice for each axis, or None for an index of another kind."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(part, bool) or not isinstance(part, int | slice | numpy.integer | EllipsisType) for part in parts):
        return None
    dots = [at for at, part in enumerate(parts) if part is ...]
    if len(dots) > 1 or len(parts) - len(dots) > n_axes:
        return None
    at = dots[0] if dots else len(parts)
    missing = n_axes - len(parts) + len(dots)
    return parts[:at] + [slice(None)] * missing + parts[at + 1 :]


def _window(part: Any, extent: int) -> tuple[int, int, Any]:
    """Returns the first and last place that an index touches, and the index from the first on."""
    if not isinstance(part, slice):
        at = int(part) + extent if part < 0 else int(part)
        if not 0 <= at < extent:
            raise IndexError(f"index {part} of an axis of {extent}")
        return at, at + 1, 0
    places = range(*part.indices(extent))
    if not places:
        return 0, 0, slice(0, 0)
    low = min(places[0], places[-1])
    return low, max(places[0], places[-1]) + 1, slice(places[0] - low, None, places.step)
