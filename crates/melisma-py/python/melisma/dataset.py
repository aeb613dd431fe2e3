"""Folders of audio to training tensors, and memory-mapped arrays of them.

>>> import numpy, tempfile, pathlib
>>> from melisma import audio, dataset
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> audio.write(folder / "tone.wav", numpy.sin(numpy.arange(22050 * 3) / 9), 22050)
>>> report = dataset.build(folder, folder / "train.h5", dataset.Mel(segment=1.0), progress=False)
>>> report.rows, report["files_ok"]
(3, 1)
>>> rows = dataset.open(folder / "train.h5")
>>> len(rows), rows[0].shape, rows[0].dtype.name
(3, (80, 87), 'float16')
"""

import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import numpy

from . import _feature, _melisma, _report
from ._array import value_error
from ._async import twin
from ._feature import Feature, Mel, Table, Tokens
from ._path import StrPath, path_of
from ._rows import Dataset, Rows, collate

__all__ = ["Dataset", "Mel", "Report", "Rows", "Table", "Tokens", "build", "build_async", "collate", "merge", "open"]

Progress: TypeAlias = Callable[[int, int], object] | bool | None
Store: TypeAlias = Literal["hdf5", "safetensors", "npy"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Report(_report.Report):
    """What `build` did. It is also a mapping with these keys.

    Args:
        rows: Rows of the dataset or shard.
        rows_resumed: Those of them that earlier calls made.
        frames: Frames of all rows.
        files_ok: Files that were used.
        files_failed: Files that could not be used.
        files_without_text: Files without a text, for tokens.
        failures: A dict for each file that failed, with `path` and the reason.
        audio_seconds: Seconds of audio that were read.
        wall_seconds: Seconds that the call took.
    """

    rows: int
    rows_resumed: int
    frames: int
    files_ok: int
    files_failed: int
    files_without_text: int
    failures: list[dict[str, Any]]
    audio_seconds: float
    wall_seconds: float


def build(
    inputs: StrPath | Iterable[StrPath],
    output: StrPath,
    feature: Feature | str | None = None,
    *,
    store: Store | None = None,
    shard: tuple[int, int] = (1, 1),
    overwrite: bool = False,
    on_error: Literal["skip", "fail"] = "skip",
    device: str | None = None,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress = None,
    **old: Any,
) -> Report:
    """Builds a dataset from audio files and folders, or resumes an earlier build of it.

    Ctrl-C stops the build, and the same call resumes it.

    Args:
        inputs: Audio files, folders and lists of files.
        output: The dataset.
        feature: What the rows are, `Mel(...)` or `Tokens(...)`; None is `Mel()`.
        store: HDF5, safetensors or a folder of npy files; None takes the suffix of `output`.
        shard: The number of this shard, counted from 1, and how many there are: (3, 8).
        overwrite: Whether an existing output is replaced.
        on_error: "skip" lists files that fail and goes on; "fail" stops at the first.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the settings.
        threads: Threads of the CPU; None is that of the settings.
        memory_limit: Bytes, or text such as "2GiB"; None is that of the settings.
        progress: Called with (done, total) a few times a second; None shows a bar where tqdm is installed, False nothing.
        old: Deprecated: the arguments of `Mel` and `Tokens`, with `feature` as "mel" or "tokens".

    Returns:
        Counts of rows, frames and files, the failures, and times.
    """
    if on_error not in ("skip", "fail"):
        raise value_error(f"on_error is {on_error!r}", "use \"skip\" or \"fail\"")
    resolved = _feature.as_feature(feature, old, "melisma.dataset.build")
    index, count = _index_of(shard)
    places = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    callback, bar = _progress_callback(progress)
    try:
        report = _feature.builder(resolved, (device, threads, memory_limit)).build({
            "inputs": _melisma._Inputs.find([path_of(place) for place in places]),
            "output": path_of(output),
            "store": store,
            "shard": (index, count),
            "overwrite": overwrite,
            "stop_on_failure": on_error == "fail",
            "progress": callback,
        })
    finally:
        if bar is not None:
            bar.close()
    return Report(**report)


build_async = twin(build)


def _index_of(shard: tuple[int, int]) -> tuple[int, int]:
    """Returns a shard counted from 0, and how many there are."""
    is_pair = isinstance(shard, tuple | list) and len(shard) == 2
    if not is_pair or any(isinstance(part, bool) or not isinstance(part, int | numpy.integer) for part in shard):
        raise value_error(f"shard is {shard!r}", "use (number, count), as in (3, 8)")
    number, count = shard
    if number == 0:
        raise value_error(f"shard is {shard!r}: shards count from 1", f"use (1, {count}) for the first one")
    if not 1 <= number <= count:
        raise value_error(f"shard is {shard!r}", "use (number, count) with 1 <= number <= count")
    return int(number) - 1, int(count)


def merge(
    shards: Iterable[StrPath],
    output: StrPath,
    *,
    store: Store | None = None,
    overwrite: bool = False,
    allow_missing: bool = False,
) -> int:
    """Merges the shards of one dataset. The bytes are those of a build without shards. Every row is checked first.

    Args:
        shards: The shards, in any order.
        output: The merged dataset.
        store: As in `build`.
        overwrite: Whether an existing output is replaced.
        allow_missing: Whether shards may be missing.

    Returns:
        The number of rows.
    """
    places = [path_of(shard) for shard in shards]
    return _melisma._merge(places, path_of(output), store, (overwrite, allow_missing))[0]


def _progress_callback(progress: Progress) -> tuple[Callable[[int, int], object] | None, Any]:
    """Returns what to call with (done, total), and a bar to close."""
    if progress is False:
        return None, None
    if callable(progress):
        return progress, None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None, None
    bar = tqdm(unit="row")

    def report(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return report, bar


def open(path: StrPath) -> Dataset:
    """Opens a dataset that `build` or `melisma dataset build` made.

    Args:
        path: The file, or the folder of npy files.

    Returns:
        Its rows, memory-mapped.
    """
    return Dataset(path)
