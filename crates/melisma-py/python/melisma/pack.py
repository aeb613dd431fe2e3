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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import numpy
import numpy.typing as npt

from . import _melisma
from ._array import ArrayLike, OutT, as_numpy, mapping, optional, value_error
from ._async import twin
from ._dtype import framework_of, from_bytes, out_bytes, to_bytes, torch_name, width
from ._error import SafetensorError
from ._path import StrPath, path_of
from ._safe_open import Framework, Numpy, Slice, Torch, as_safetensors_raises, on_device, safe_open

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found, unused-ignore]

__all__ = [
    "Decoder",
    "Encoder",
    "SafetensorError",
    "Sizes",
    "Slice",
    "compress",
    "decompress",
    "load_file",
    "load_file_async",
    "load_to_device",
    "safe_open",
    "save_file",
    "save_file_async",
]

Blob: TypeAlias = bytes | bytearray | memoryview


class Sizes(NamedTuple):
    """The size of a file.

    Args:
        source_bytes: Bytes of the plain file.
        packed_bytes: Bytes of the packed file.
    """

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
    """Packs arrays or torch tensors into a file, and checks that it decodes to them. An existing file is replaced.

    Args:
        tensors: The arrays or tensors by name.
        filename: The file.
        metadata: Strings to store with them.
        tile_size: The side of a tile, 256, 512 or 1024; None chooses it for each tensor.
        base: A plain file of the same shapes; only the difference from it is stored.

    Returns:
        Bytes of the plain and of the packed file.
    """
    given = [(_name(name), *to_bytes(value)) for name, value in mapping(tensors, "tensors").items()]
    # The order of the reference library: widest elements first, then by name.
    given.sort(key=lambda tensor: (-_width(tensor[2], tensor[3].size), tensor[0]))
    words = {_name(key): _name(value) for key, value in mapping(metadata or {}, "metadata").items()}
    return Sizes(*_melisma._pack_save(path_of(filename), given, words, tile_size, _path(base)))


def _width(shape: list[int], size: int) -> int:
    elements = int(numpy.prod(shape, dtype=numpy.int64))
    return size // elements if elements else 0


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise value_error(f"{value!r} is not a str")
    return value


def _path(path: StrPath | None) -> str | None:
    return None if path is None else path_of(path)


@overload
def load_file(
    filename: StrPath, framework: Numpy, *, device: str = "cpu", base: StrPath | None = None
) -> dict[str, npt.NDArray[Any]]: ...
@overload
def load_file(
    filename: StrPath, framework: Torch, *, device: str = "cpu", base: StrPath | None = None
) -> "dict[str, torch.Tensor]": ...
@overload
def load_file(
    filename: StrPath, framework: None = None, *, device: str = "cpu", base: StrPath | None = None
) -> dict[str, Any]: ...
def load_file(
    filename: StrPath, framework: Framework | None = None, *, device: str = "cpu", base: StrPath | None = None
) -> dict[str, Any]:
    """Loads all tensors of a file, packed or plain, and checks every decoded byte.

    Args:
        filename: The file.
        framework: "np" for arrays, "pt" for torch tensors; None is "pt" if torch is imported. bfloat16 arrays need
            `ml_dtypes`; without it they are uint16, with a warning.
        device: Where torch tensors go.
        base: The file that a delta was made against.

    Returns:
        The tensors by name.
    """
    with as_safetensors_raises():
        kind = framework_of(framework)
        loaded = _melisma.PackFile(path_of(filename)).load(None, _path(base))
        return {name: on_device(from_bytes(dtype, shape, data, kind), device) for name, dtype, shape, data in loaded}


save_file_async = twin(save_file)
load_file_async = twin(load_file)


def compress(array: ArrayLike) -> bytes:
    """Packs one array.

    Args:
        array: The array or tensor.

    Returns:
        A packed file with this tensor, as bytes.
    """
    dtype, shape, data = to_bytes(array)
    return _melisma._compress(dtype, shape, data)


@overload
def decompress(blob: Blob, framework: Framework | None = "np", *, out: OutT) -> OutT: ...
@overload
def decompress(blob: Blob, framework: Numpy = "np", *, out: None = None) -> npt.NDArray[Any]: ...
@overload
def decompress(blob: Blob, framework: Torch, *, out: None = None) -> "torch.Tensor": ...
@overload
def decompress(blob: Blob, framework: None, *, out: None = None) -> Any: ...
def decompress(blob: Blob, framework: Framework | None = "np", *, out: ArrayLike | None = None) -> Any:
    """Restores the array that `compress` was given, bit for bit.

    Args:
        blob: What `compress` returned.
        framework: As for `load_file`.
        out: Takes the result: an array or a CPU tensor of its shape and type in C order.

    Returns:
        The array or tensor, or `out`.
    """
    blob = bytes(blob)
    dtype, shape = _melisma._compressed_info(blob)
    if out is None:
        data = numpy.empty(math.prod(shape) * width(dtype), numpy.uint8)
        _melisma._decompress(blob, data)
        return from_bytes(dtype, shape, data, framework_of(framework))
    _melisma._decompress(blob, out_bytes(out, dtype, shape))
    return out


class Encoder:
    """Encodes one tile after another with the same tables and buffers.

    Args:
        tile_size: The largest side of a tile, 1 to 1024.

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
            raise value_error(f"tile_size is {tile_size!r}", "use 1 to 1024")
        self.tile_size = tile_size
        self._native = _melisma.TileEncoder()

    def encode(self, tile: ArrayLike, *, number: int = 0) -> bytes:
        """Encodes a tile.

        Args:
            tile: The array.
            number: Its place among others, which its hash covers.

        Returns:
            The encoded tile.
        """
        dtype, shape, data = to_bytes(tile)
        if numpy.prod(shape, dtype=numpy.int64) > self.tile_size**2:
            raise value_error(f"a tile of shape {tuple(shape)} has more than {self.tile_size} x {self.tile_size} elements")
        return self._native.encode(dtype, data, number)


class Decoder:
    """Decodes one tile after another with the same buffers."""

    def __init__(self) -> None:
        self._native = _melisma.TileDecoder()

    @overload
    def decode(
        self, blob: Blob, shape: tuple[int, ...], dtype: npt.DTypeLike, *, number: int = 0, out: OutT
    ) -> OutT: ...
    @overload
    def decode(
        self, blob: Blob, shape: tuple[int, ...], dtype: npt.DTypeLike, *, number: int = 0, out: None = None
    ) -> npt.NDArray[Any]: ...
    def decode(
        self, blob: Blob, shape: tuple[int, ...], dtype: npt.DTypeLike, *, number: int = 0, out: Any = None
    ) -> Any:
        """Restores a tile.

        Args:
            blob: What `Encoder.encode` returned.
            shape: The tile's shape.
            dtype: Its type.
            number: The number that `Encoder.encode` was given.
            out: Takes the tile: an array of its shape and type in C order.

        Returns:
            The tile, or `out`.
        """
        array = numpy.empty(shape, dtype) if out is None else as_numpy(out)
        if array.shape != tuple(shape) or array.dtype != numpy.dtype(dtype) or not array.flags.c_contiguous:
            raise value_error(f"out: expected {tuple(shape)} of {dtype} in C order, found {array.shape} of {array.dtype}")
        if not array.flags.writeable:
            raise value_error("out: the array is read-only")
        name = to_bytes(array)[0]
        self._native.decode(name, bytes(blob), array.reshape(-1).view(numpy.uint8), number)
        return array if out is None else out


def load_to_device(filename: StrPath, device: "str | torch.device" = "cuda") -> "dict[str, torch.Tensor]":
    """Loads a file, packed or plain, straight into a GPU, which decodes it while it is read and checks every tile.

    Args:
        filename: The file.
        device: `cuda:N`, or `cuda` for torch's current device.

    Returns:
        Torch tensors by name, which share the loaded memory.
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
