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
from ._feature import Feature, LineFormat, Mel, Table, Tokens, Trim
from ._path import StrPath, path_of
from ._rows import Dataset, Rows, collate
from ._shard import index_of

__all__ = [
    "Dataset", "Mel", "Report", "Rows", "Table", "Tokens", "Trim", "Verified", "build", "build_async", "collate", "merge",
    "merge_async", "open", "verify", "verify_async",
]

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
        files_left_out: Files that filters left out: `min_seconds`, `max_seconds` and `require_text`.
        files_newer: Files that were written after a finished output was built, which is kept as it is.
        files_peak_limited: Files that are quieter than `loudness`, because of their peaks.
        files_without_text: Files without a text, for tokens, and rows of a table without a file.
        failures: A dict for each file that failed, with `path` and the reason.
        failures_by_code: How many there are of each reason, its `code`. `missing` counts files of a list that do not
            exist, `no-file` rows of a table that match no file.
        audio_seconds: Seconds of audio that were read.
        wall_seconds: Seconds that the call took.
    """

    rows: int
    rows_resumed: int
    frames: int
    files_ok: int
    files_failed: int
    files_left_out: int
    files_newer: int
    files_peak_limited: int
    files_without_text: int
    failures: list[dict[str, Any]]
    failures_by_code: dict[str, int]
    audio_seconds: float
    wall_seconds: float


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Verified(_report.Report):
    """What `verify` found. It is also a mapping with these keys.

    Args:
        rows: Rows of the dataset.
        bytes: Bytes that were read.
        zero_filled: Rows whose files failed.
        missing: Rows that were never computed.
        damaged: Rows that differ from what was written.
        first_damaged: The first thousand of them.
        first_damaged_files: The names of their audio files.
        missing_origin: The file that would tell which lines were written to a .jsonl file, if it is not there: each line
            was checked by itself.
        problem: What is wrong, in words; None if the dataset is whole.
        rebuilt: The rows that a repair rebuilt.
    """

    rows: int
    bytes: int
    zero_filled: int
    missing: int
    damaged: int
    first_damaged: list[int]
    first_damaged_files: list[str]
    missing_origin: str | None
    problem: str | None
    rebuilt: list[int] = dataclasses.field(default_factory=list)


def build(
    inputs: StrPath | Iterable[StrPath],
    output: StrPath,
    feature: Feature | str | None = None,
    *,
    store: Store | None = None,
    shard: tuple[int, int] = (1, 1),
    overwrite: bool = False,
    on_error: Literal["skip", "fail"] = "skip",
    max_failures: int | None = None,
    list: StrPath | None = None,
    root: StrPath | None = None,
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
        output: The dataset; for tokens, a name that ends with .jsonl is a line for each file.
        feature: What the rows are, `Mel(...)` or `Tokens(...)`; None is `Mel()`.
        store: HDF5, safetensors or a folder of npy files; None takes the suffix of `output`.
        shard: The number of this shard, counted from 1, and how many there are: (3, 8).
        overwrite: Whether an existing output is replaced.
        on_error: "skip" lists files that fail and goes on; "fail" stops at the first.
        max_failures: How many files may fail before the build stops; None is any number.
        list: One more list of files, whatever its name; "-" is stdin.
        root: Where relative paths in lists begin; None is the folder of the list.
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
    is_count = isinstance(max_failures, int | numpy.integer) and not isinstance(max_failures, bool) and max_failures >= 0
    if max_failures is not None and not is_count:
        raise value_error(f"max_failures is {max_failures!r}", "use a whole number from 0 on, or None")
    if max_failures is not None and on_error == "fail":
        raise value_error("max_failures beside on_error=\"fail\", which allows none", "leave out one of them")
    resolved = _feature.as_feature(feature, old, "melisma.dataset.build")
    _feature.warn_of_builtin(resolved)
    index, count = index_of(shard)
    callback, bar = _progress_callback(progress)
    try:
        report = _feature.builder(resolved, (device, threads, memory_limit)).build({
            "inputs": _found(inputs, list, root),
            "output": path_of(output),
            "store": store,
            "shard": (index, count),
            "overwrite": overwrite,
            "max_failures": 0 if on_error == "fail" else max_failures,
            "progress": callback,
        })
    finally:
        if bar is not None:
            bar.close()
    return Report(**report)


build_async = twin(build)


def merge(
    shards: Iterable[StrPath],
    output: StrPath,
    *,
    store: Store | None = None,
    overwrite: bool = False,
    allow_missing: bool = False,
    format: LineFormat | None = None,
    drop_repeats: bool = False,
    threads: int | None = None,
    memory_limit: int | str | None = None,
) -> int:
    """Merges the shards of one dataset. The bytes are those of a build without shards. Every row is checked first.

    Args:
        shards: The shards, in any order: all of columns, or all .jsonl files.
        output: The merged dataset; a name that ends with .jsonl is a line for each row of tokens.
        store: As in `build`.
        overwrite: Whether an existing output is replaced.
        allow_missing: Whether shards may be missing.
        format: What a line of .jsonl holds, as in `Tokens`; None is as in the shards, or else codes.
        drop_repeats: As in `Tokens`.
        threads: Threads that check the shards; None is that of the settings.
        memory_limit: Bytes, or text such as "2GiB"; None is that of the settings.

    Returns:
        The number of rows.
    """
    places = [path_of(shard) for shard in shards]
    lines = None if format is None and not drop_repeats else _feature.lines_of(format or "codes", drop_repeats)
    host, policy = (threads, memory_limit), (overwrite, allow_missing)
    return _melisma._merge(host, places, path_of(output), store, policy, lines)[0]


merge_async = twin(merge)


def verify(
    path: StrPath,
    *,
    repair: bool = False,
    inputs: StrPath | Iterable[StrPath] | None = None,
    feature: Feature | None = None,
    list: StrPath | None = None,
    root: StrPath | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_limit: int | str | None = None,
) -> Verified:
    """Checks every column of every row of a dataset against its recorded hash, and repairs it where that is wanted.

    A repair rebuilds damaged rows from the original audio, with the bytes that they had. It writes nothing if a file or
    text has changed or is missing. `inputs`, `feature`, `list`, `root` and `device` belong to it.

    Args:
        path: The dataset.
        repair: Whether damaged rows are rebuilt.
        inputs: What the dataset was built from, as in `build`; None is `list` alone.
        feature: `Tokens` with the model and the texts of tokens; their other settings, and those of spectrograms, are
            taken from the dataset.
        list: As in `build`.
        root: As in `build`.
        device: `cpu`, `cuda` or `cuda:N`, as when it was built; None is that of the settings.
        threads: Threads of the CPU; None is that of the settings.
        memory_limit: Bytes, or text such as "2GiB"; None is that of the settings.

    Returns:
        Counts of rows; its `problem` is None if nothing is damaged or missing.
    """
    if not isinstance(repair, bool):
        raise value_error(f"repair is {repair!r}", "use True or False")
    if not repair:
        of_repair = {"inputs": inputs, "feature": feature, "list": list, "root": root, "device": device}
        for name, value in of_repair.items():
            if value is not None:
                raise value_error(f"{name} belongs to a repair", "use repair=True, or leave it out")
        return Verified(**_melisma._verify((threads, memory_limit), path_of(path)))
    if inputs is None and list is None:
        raise value_error("a repair without the original audio", "name it: inputs=\"wavs/\"")
    place = (device, threads, memory_limit)
    builder = _melisma._Builder.like(place, path_of(path)) if feature is None else _feature.builder(feature, place)
    return Verified(**builder.repair(_found(() if inputs is None else inputs, list, root), path_of(path)))


verify_async = twin(verify)


def _found(
    inputs: StrPath | Iterable[StrPath], listed: StrPath | None, root: StrPath | None
) -> _melisma._Inputs:
    places = [path_of(place) for place in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    return _melisma._Inputs.find(
        places, None if listed is None else path_of(listed), None if root is None else path_of(root)
    )


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
