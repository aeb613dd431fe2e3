"""The rows of a dataset, memory-mapped, and batches of them for torch."""

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy
import numpy.typing as npt

from . import _melisma
from ._array import optional, value_error
from ._path import StrPath, path_of

#: The columns that each kind of dataset has, and their axes.
_SPECTROGRAMS = {"status": 1, "mel": 3}
_TOKENS = {"status": 1, "codes": 2, "offsets": 1, "text": 1, "text_offsets": 1}


class Dataset(Sequence[Any]):
    """A dataset as memory-mapped arrays, usable as a map-style Dataset of torch; pickling it stores its path only.

    Rows are views of the map. Changing one changes later reads of it in this process, never the file, so copy a row before
    you change it. The file must not be changed or cut while it is open.

    Row i of spectrograms is an array [mels, frames]. Row i of tokens is a pair: codes [frames, slots], and its text;
    `text(i, name)` is another text of the row, and `column(name)` a whole column.

    Args:
        path: The file, or the folder of npy files.
    """

    def __init__(self, path: StrPath) -> None:
        self._path = os.path.abspath(path_of(path))
        columns, self.attributes = _melisma._dataset_columns(self._path)
        self._places = {name: (kind, tuple(shape), file, offset) for name, kind, shape, file, offset in columns}
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._is_tokens = self.attributes.get("melisma.kind") == "tokens"
        self._length = self._checked_length()
        self._values = self.column("codes" if self._is_tokens else "mel")
        if self._is_tokens:
            self._offsets = self.column("offsets")

    def _checked_length(self) -> int:
        """Returns the number of rows, in a file that has the columns of a dataset."""
        for name, n_axes in (_TOKENS if self._is_tokens else _SPECTROGRAMS).items():
            if name not in self._places:
                raise value_error(f"{self._path} is not a dataset: it has no column `{name}`", "melisma.dataset.build makes one")
            shape = self._places[name][1]
            if len(shape) != n_axes:
                raise value_error(f"{self._path}: the column `{name}` has {len(shape)} axes, not {n_axes}")
        length = {name: place[1][0] for name, place in self._places.items() if place[1]}
        rows = length["status"]
        ends = {"offsets": rows + 1, "text_offsets": rows + 1} if self._is_tokens else {"mel": rows}
        for name, expected in ends.items():
            if length[name] != expected:
                raise value_error(f"{self._path}: the column `{name}` has {length[name]} entries, not {expected}")
        return rows

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self._places)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Returns a column, mapped from the file. Changes to it stay in this process.

        Args:
            name: One of `columns`.

        Returns:
            The values of all rows, one after the other.
        """
        if name not in self._columns:
            if name not in self._places:
                raise value_error(f"unknown column `{name}`", f"the columns are {', '.join(self._places)}")
            kind, shape, file, offset = self._places[name]
            if 0 in shape:
                self._columns[name] = numpy.zeros(shape, kind)
            else:
                # Writable for torch's sake, but copied on write: the file never changes.
                mapped = numpy.memmap(file, kind, "c", offset, shape)
                # A plain array over the map: rows of it are cheaper than rows of a memmap.
                self._columns[name] = numpy.asarray(mapped).view(numpy.ndarray)
        return self._columns[name]

    def text(self, index: int, name: str = "text") -> str:
        """Returns a text of a row of tokens.

        Args:
            index: The number of the row, from the end if it is negative.
            name: The column: `text`, `path`, or one that was kept of a table, such as `source`.

        Returns:
            The text; empty if the row has none.
        """
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        if f"{name}_offsets" not in self._places:
            names = [known.removesuffix("_offsets") for known in self._places if known.endswith("_offsets")]
            raise value_error(f"`{name}` is not a column of texts", f"those of this dataset are {', '.join(names) or 'none'}")
        offsets = self.column(f"{name}_offsets")
        return bytes(self.column(name)[int(offsets[row]) : int(offsets[row + 1])]).decode("utf-8", "replace")

    @property
    def status(self) -> npt.NDArray[Any]:
        """0 for each row that is valid."""
        return self.column("status")

    def __len__(self) -> int:
        """Returns the number of rows."""
        return int(self._length)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: Any) -> Any:
        """Returns one row, or a list of rows for a slice.

        Args:
            index: The number of a row, from the end if it is negative, or a slice.

        Returns:
            A row: an array [mels, frames], or codes [frames, slots] and their text.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self._row(index)

    def __getitems__(self, indices: Iterable[int]) -> list[Any]:
        """Returns many rows at once, as the loaders of torch ask for them.

        Args:
            indices: The numbers of the rows.

        Returns:
            The rows, as `Rows` if they are spectrograms.
        """
        is_plain = not self._is_tokens and type(self).__getitem__ is Dataset.__getitem__
        return Rows(self, list(indices)) if is_plain else [self[index] for index in indices]

    def _row(self, index: int) -> Any:
        if not self._is_tokens:
            return self._values[index]
        codes = self._values[int(self._offsets[index]) : int(self._offsets[index + 1])]
        return codes, self.text(index)

    def __iter__(self) -> Iterator[Any]:
        """Returns every row."""
        return (self[index] for index in range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        own = {name: value for name, value in self.__dict__.items() if name not in _OPENED}
        return _reopen, (type(self), self._path, own)

    def __repr__(self) -> str:
        return f"Dataset({self._path!r}, {len(self)} rows)"


#: The attributes of every dataset; those of subclasses are pickled.
_OPENED = frozenset({"attributes", "_path", "_places", "_columns", "_is_tokens", "_length", "_values", "_offsets"})


def _reopen(kind: type[Dataset], path: str, own: dict[str, Any]) -> Dataset:
    result = kind.__new__(kind)
    Dataset.__init__(result, path)
    result.__dict__.update(own)
    return result


class Rows(list[Any]):
    """Rows of spectrograms, as the loaders of torch get them.

    Args:
        dataset: Where the rows are.
        indices: Their numbers.
    """

    def __init__(self, dataset: Dataset, indices: list[int]) -> None:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"{type(dataset).__name__} is not a Dataset")
        values = dataset.column("mel")
        super().__init__(values[index] for index in indices)
        self.dataset, self.indices = dataset, indices


def collate(rows: Rows) -> Any:
    """Returns the `collate_fn` for a loader of spectrograms.

    Workers read the rows but send only their numbers. The process that trains copies them from its own map of the file,
    which shares the workers' pages, so that no batch passes through a pipe or shared memory.

    Args:
        rows: What `Dataset.__getitems__` gave.

    Returns:
        A torch tensor [rows, mels, frames].
    """
    if not isinstance(rows, Rows):
        raise value_error(f"{type(rows).__name__} is not a batch of spectrograms", "torch's own collate_fn joins other rows")
    file = rows.dataset._places["mel"][2]
    batch = _Batch(rows.dataset.path, _stamp(file), rows.indices)
    if optional("torch").utils.data.get_worker_info() is None:
        return batch.tensor()
    # Waits for the disk here, so that the training process does not.
    rows.dataset.column("mel")[rows.indices]
    return batch


class _Batch:
    """Rows by number; becomes a tensor where it is unpickled."""

    def __init__(self, path: str, stamp: tuple[int, ...], indices: list[int]) -> None:
        self._arguments = (path, stamp, indices)

    def tensor(self) -> Any:
        return _gather(*self._arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _gather, self._arguments


def _gather(path: str, stamp: tuple[int, ...], indices: list[int]) -> Any:
    return _map_file(os.getpid(), path, stamp)[indices]


@functools.lru_cache(maxsize=4)
def _map_file(process: int, path: str, stamp: tuple[int, ...]) -> Any:
    opened = Dataset(path)
    if _stamp(opened._places["mel"][2]) != stamp:
        raise value_error(f"{path} was replaced while it was read", "open it again")
    return optional("torch").from_numpy(opened.column("mel"))


def _stamp(file: str) -> tuple[int, ...]:
    """Tells a file from another one of the same name."""
    data = os.stat(file)
    return data.st_ino, data.st_size, data.st_mtime_ns
