"""Weights compressed without loss.

`save_file`, `load_file` and `safe_open` are those of safetensors; `load_file` and `safe_open` read plain files too.

>>> import numpy, tempfile, pathlib
>>> from melisma import pack
>>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
>>> weights = {"w": numpy.sin(numpy.arange(65536, dtype="f4")).reshape(256, 256)}
>>> sizes = pack.save_file(weights, path)
>>> sizes.packed_bytes < sizes.source_bytes
True
>>> bool((pack.load_file(path, "np")["w"] == weights["w"]).all())
True
>>> bool((pack.decompress(pack.compress(weights["w"])) == weights["w"]).all())
True
"""

import math
from collections.abc import Mapping
from types import EllipsisType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy

from . import _melisma
from ._array import ArrayLike, mapping, optional, plain, refuse
from ._dtype import framework_of, made, room, taken, torch_name, width
from ._path import StrPath, path_of

__all__ = ["Decoder", "Encoder", "Sizes", "compress", "decompress", "load_file", "load_to_device", "safe_open", "save_file"]

Framework: TypeAlias = Literal["np", "numpy", "pt", "torch", "pytorch"]


class Sizes(NamedTuple):
    """Bytes of the plain and of the packed file."""

    source_bytes: int
    packed_bytes: int


def save_file(
    tensors: Mapping[str, ArrayLike],
    filename: StrPath,
    metadata: Mapping[str, str] | None = None,
    *,
    tile_size: int | None = None,
    base: StrPath | None = None,
) -> Sizes:
    """Packs arrays or torch tensors into a file, and checks that it decodes to them.

    An existing file is replaced. `base` names a plain file of the same shapes, of which only the difference is stored.
    """
    given = [(_name(name), *taken(value)) for name, value in mapping(tensors, "tensors").items()]
    # The order of the reference library: widest elements first, then by name.
    given.sort(key=lambda tensor: (-_width(tensor[2], tensor[3].size), tensor[0]))
    words = {_name(key): _name(value) for key, value in mapping(metadata or {}, "metadata").items()}
    return Sizes(*_melisma._pack_save(path_of(filename), given, words, tile_size, _path(base)))


def _width(shape: list[int], size: int) -> int:
    elements = int(numpy.prod(shape, dtype=numpy.int64))
    return size // elements if elements else 0


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise refuse(f"{value!r} is not a str")
    return value


def _path(path: StrPath | None) -> str | None:
    return None if path is None else path_of(path)


def load_file(
    filename: StrPath, framework: Framework | None = None, *, device: str = "cpu", base: StrPath | None = None
) -> dict[str, Any]:
    """All tensors of a file, packed or plain.

    They are torch tensors if torch is imported or `framework` is "pt", else arrays. bfloat16 needs `ml_dtypes` for
    arrays; without it they are uint16, with a warning. Every decoded byte is checked. `base` is that of a delta.
    """
    kind = framework_of(framework)
    loaded = _melisma.PackFile(path_of(filename)).load(None, _path(base))
    return {name: _on(made(dtype, shape, data, kind), device) for name, dtype, shape, data in loaded}


def _on(tensor: Any, device: str) -> Any:
    if device == "cpu":
        return tensor
    if isinstance(tensor, numpy.ndarray):
        raise refuse(f"arrays on {device}", "use framework=\"pt\" for tensors of torch")
    return tensor.to(device)


class safe_open:  # noqa: N801 (the name that safetensors has)
    """A file whose tensors are read one at a time, for `with`."""

    def __init__(self, filename: StrPath, framework: Framework | None = None, device: str = "cpu") -> None:
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
        """The names of all tensors, sorted."""
        return sorted(self._tensors)

    def offset_keys(self) -> list[str]:
        """The names of all tensors in the order of the file."""
        return list(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """The file's free-form strings, or None."""
        return self._metadata or None

    def get_tensor(self, name: str) -> Any:
        """Reads one tensor."""
        return self._loaded(name, None, self._entry(name)[1])

    def _loaded(self, name: str, region: tuple[int, int, int, int] | None, shape: list[int]) -> Any:
        if self._file is None:
            raise refuse("the file is closed", "use it inside of `with safe_open(...) as file:`")
        [(_, dtype, _, data)] = self._file.load([(name, region)])
        return _on(made(dtype, shape, data, self._framework), self._device)

    def get_slice(self, name: str) -> "Slice":
        """A tensor that is read when it is indexed."""
        return Slice(self, name, *self._entry(name))

    def _entry(self, name: str) -> tuple[str, list[int]]:
        if name not in self._tensors:
            raise refuse(f"unknown tensor `{name}`", f"{self._path} has {len(self._tensors)}: see keys()")
        return self._tensors[name]


class Slice:
    """A tensor that is read when it is indexed. Only the tiles that slices of the first and last axis touch are read."""

    def __init__(self, file: safe_open, name: str, dtype: str, shape: list[int]) -> None:
        self._file, self._name, self._dtype, self._shape = file, name, dtype, shape

    def get_shape(self) -> list[int]:
        """Its shape."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """Its type as safetensors calls it."""
        return self._dtype

    def __getitem__(self, index: Any) -> Any:
        parts = _parts(index, len(self._shape))
        if not parts:
            return self._file.get_tensor(self._name)[index]
        windows = [_window(part, extent) for part, extent in zip(parts, self._shape, strict=True)]
        (top, bottom, parts[0]), (first, last, parts[-1]) = windows[0], windows[-1]
        if len(parts) == 1:
            return self._file._loaded(self._name, (0, 1, first, last), [last - first])[parts[0]]
        inner = self._shape[1:-1]
        n_rows = math.prod(inner)
        region = (top * n_rows, bottom * n_rows, first, last)
        return self._file._loaded(self._name, region, [bottom - top, *inner, last - first])[tuple(parts)]


def _parts(index: Any, n_axes: int) -> list[Any] | None:
    """An integer or a slice for each axis, or None for an index of another kind."""
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
    """The first and last place that an index touches, and the index from the first on."""
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


def compress(array: ArrayLike) -> bytes:
    """One array as bytes, with its type and shape: a packed file with one tensor."""
    dtype, shape, data = taken(array)
    return _melisma._compress(dtype, shape, data)


def decompress(
    blob: bytes | bytearray | memoryview, framework: Framework | None = "np", *, out: ArrayLike | None = None
) -> Any:
    """The array that `compress` was given, bit for bit, in `out` if that is given."""
    blob = bytes(blob)
    dtype, shape = _melisma._compressed(blob)
    if out is None:
        data = numpy.empty(math.prod(shape) * width(dtype), numpy.uint8)
        _melisma._decompress(blob, data)
        return made(dtype, shape, data, framework_of(framework))
    _melisma._decompress(blob, room(out, dtype, shape))
    return out


class Encoder:
    """Encodes one tile after another with the same tables and buffers.

    >>> encoder, decoder = Encoder(tile_size=512), Decoder()
    >>> tile = numpy.zeros((512, 512), numpy.float16)
    >>> blob = encoder.encode(tile)
    >>> len(blob) < tile.nbytes / 100
    True
    >>> bool((decoder.decode(blob, (512, 512), "float16") == tile).all())
    True
    """

    def __init__(self, tile_size: int = 512) -> None:
        if isinstance(tile_size, bool) or not isinstance(tile_size, int) or not 1 <= tile_size <= 1024:
            raise refuse(f"tile_size is {tile_size!r}", "use 1 to 1024")
        self.tile_size = tile_size
        self._native = _melisma.TileEncoder()

    def encode(self, tile: ArrayLike, *, number: int = 0) -> bytes:
        """The encoded tile. `number` is its place among others, which its hash covers."""
        dtype, shape, data = taken(tile)
        if numpy.prod(shape, dtype=numpy.int64) > self.tile_size**2:
            raise refuse(f"a tile of shape {tuple(shape)} has more than {self.tile_size} x {self.tile_size} elements")
        return self._native.encode(dtype, data, number)


class Decoder:
    """Decodes one tile after another with the same buffers."""

    def __init__(self) -> None:
        self._native = _melisma.TileDecoder()

    def decode(
        self,
        blob: bytes | bytearray | memoryview,
        shape: tuple[int, ...],
        dtype: Any,
        *,
        number: int = 0,
        out: Any = None,
    ) -> Any:
        """The tile of this shape and type that `Encoder.encode` got, into `out` if that is given."""
        array = numpy.empty(shape, dtype) if out is None else plain(out)
        if array.shape != tuple(shape) or array.dtype != numpy.dtype(dtype) or not array.flags.c_contiguous:
            raise refuse(f"out: shape {array.shape} of {array.dtype}; {tuple(shape)} of {dtype} in C order is needed")
        if not array.flags.writeable:
            raise refuse("out: the array is read-only")
        name = taken(array)[0]
        self._native.decode(name, bytes(blob), array.reshape(-1).view(numpy.uint8), number)
        return array if out is None else out


def load_to_device(filename: StrPath, device: Any = "cuda") -> dict[str, Any]:
    """Loads a file, packed or plain, straight into a GPU: torch CUDA tensors that share the loaded memory.

    The GPU decodes packed tensors while the file is read, and checks every tile. `device` is `cuda:N`, or `cuda` for
    torch's current device.
    """
    torch = optional("torch")
    place = str(device)
    if place == "cuda":
        place = f"cuda:{torch.cuda.current_device() if torch.cuda.is_available() else 0}"
    tensors = {}
    for name, tensor in _melisma._load_to_device(path_of(filename), place):
        kind = getattr(torch, torch_name(tensor.dtype))
        tensors[name] = torch.as_tensor(tensor, device=place).view(kind).reshape(tensor.shape)
    return tensors
