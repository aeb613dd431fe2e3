"""The jobs of this package, from the driver."""

import os
import time
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from .._array import refuse
from .._path import StrPath, path_of
from ._clips import Clips
from ._cluster import Cluster, Needs, Workers, whole
from ._dataset import Build
from ._error import JobError
from ._pack import Pack
from ._pipeline import Pipeline, Work

Store: TypeAlias = Literal["hdf5", "safetensors", "npy"]
#: One worker on each core.
CORES = Workers()
#: Kinds of datasets, by the name of the store or the suffix of the output.
KINDS = ("hdf5", "safetensors", "npy", "h5", "hdf", "")
#: Arguments of `melisma.dataset.build` that a job decides by itself.
OTHERWISE = {
    "device": "use workers=Workers(num_gpus=...)",
    "threads": "use workers=Workers(num_cpus=...)",
    "shard": "use shards, the number of them",
    "on_error": "files that fail are listed, and the others are built",
    "progress": "Ray shows the progress",
}
#: What rows have beside counts: the report has a time of its own.
TIMES = ("seconds", "wall_seconds")
#: The most clips of a job.
MAX_CLIPS = (1 << 32) - 1


def build(
    inputs: StrPath | Iterable[StrPath],
    output: StrPath,
    *,
    workers: Workers = CORES,
    shards: int | None = None,
    retries: int = 2,
    allow_missing: bool = False,
    overwrite: bool = False,
    store: Store | None = None,
    scratch: StrPath | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Builds a dataset on the cluster, or resumes an earlier job; returns a report.

    Inputs and output are paths that every node sees, or the input is a single folder URI (`s3://...`). Its files are
    staged by each worker below `scratch`, a folder on every node (default: the folder for temporary files).
    `settings` are those of `melisma.dataset.build` for the rows: `feature`, `preset`, `segment`, `model` and so on.
    The output's suffix, or `store`, chooses HDF5, safetensors or a folder of npy files.

    The job has `shards` shards, by default sixteen for each worker and at most 2000 files in each. A shard that fails is
    tried `retries` times more, also on other nodes. Shards that fail every time raise `JobError`, unless
    `allow_missing` merges the others. `overwrite` replaces the output, and an earlier job with its shards.

    The report has `rows`, `frames`, `files_ok`, `files_failed`, `files_without_text`, `audio_seconds`, `failures` (the
    first thousand), `skipped`, `shards`, `shards_resumed`, `shards_failed`, `missing_shards`, `faults` (dicts with
    `node`, `shard` counted from 1, and `message`) and `wall_seconds`.
    """
    _check(workers, shards, retries)
    for key in settings.keys() & OTHERWISE.keys():
        raise refuse(f"`{key}` cannot be set for a job on Ray", OTHERWISE[key])
    kind = os.path.splitext(path_of(output))[1][1:] if store is None else store
    if kind not in KINDS:
        hint = "use store=\"hdf5\", \"safetensors\" or \"npy\", or a name that ends with .h5 or .safetensors"
        raise refuse(f"unknown kind of dataset `{kind}`", hint)
    places = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    named = {key: _absolute(settings[key]) for key in ("model", "metadata") if settings.get(key) is not None}
    options = {
        "store": store,
        "overwrite": overwrite,
        "settings": settings | named,
        "scratch": None if scratch is None else _absolute(scratch),
    }
    work = Build([_absolute(place) for place in places], _absolute(output), shards, options)
    return _run(work, workers, retries, allow_missing)


def pack(
    index: StrPath,
    *,
    workers: Workers = CORES,
    retries: int = 2,
    tile_size: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Packs every file of a sharded checkpoint, or resumes an earlier job; returns a report.

    `index` is its `.index.json`. Packed files and their index go beside the sources, as `melisma pack` writes them.
    `tile_size` is that of `melisma.pack.save_file`. A file that changed since it was packed is packed again.
    `overwrite` replaces packed files that no earlier job made. The report has `output` (the new index), `source_bytes`,
    `packed_bytes`, and `shards`, `faults` and so on as for `build`.
    """
    _check(workers, None, retries)
    whole("tile_size", tile_size, 1)
    return _run(Pack(_absolute(index), tile_size, overwrite), workers, retries, allow_missing=False)


def clips(
    preset: str,
    folder: StrPath,
    count: int,
    *,
    seconds: float = 10.0,
    seed: int | str = 0,
    rate: int = 48000,
    loudness: float | None = -18.0,
    sample_format: str = "s16",
    workers: Workers = CORES,
    shards: int | None = None,
    retries: int = 2,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Renders clips of a preset with their labels, as `melisma synth --clips` does; returns a report.

    Clip i of `count` has the seed `seed` + i and lasts `seconds`; `preset` is a name such as "focus". `rate` is in Hz,
    `loudness` in LUFS (None leaves the level as it is), `sample_format` "s16", "s24" or "f32". Clips that were removed
    or damaged since an earlier call are made again. `overwrite` replaces clips, and removes those of an earlier job that
    had more. `workers`, `shards` and `retries` are those of `build`; a shard is a range of clips, by default 256 at most.
    The report has `clips`, `clips_kept`, `notes`, `samples`, and `shards`, `faults` and so on as for `build`.
    """
    _check(workers, shards, retries)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_CLIPS:
        raise refuse(f"count is {count!r}", f"use a whole number from 1 to {MAX_CLIPS}")
    settings = {
        "preset": preset, "count": count, "seconds": seconds, "seed": str(seed), "rate": rate, "loudness": loudness,
        "sample_format": sample_format,
    }
    return _run(Clips(_absolute(folder), settings, shards, overwrite), workers, retries, allow_missing=False)


def _absolute(path: StrPath) -> str:
    text = path_of(path)
    return text if "://" in text or text.startswith("builtin:") else os.path.abspath(text)


def _check(workers: Workers, shards: int | None, retries: int) -> None:
    if not isinstance(workers, Workers):
        raise refuse(f"workers is {workers!r}", "use Workers(num_cpus, num_gpus, count)")
    whole("shards", shards, 1)
    whole("retries", -1 if retries is None else retries, 0)


def _run(work: Work, workers: Workers, retries: int, allow_missing: bool) -> dict[str, Any]:
    begun = time.monotonic()
    cluster = Cluster(work.needs())
    n_workers = len(cluster.seats(workers))
    with cluster.locked(work.folder):
        job = cluster.once(_prepare, work, n_workers)
        # A node that does not see the job's file has another disk under this path.
        cluster.require(Needs(work.needs().version, (work.folder.at("job.json"),), ()))
        pipeline = Pipeline(work, cluster, workers, retries)
        done = set(job["done"])
        failed = pipeline.run([shard for shard in range(job["shards"]) if shard not in done])
        faults = cluster.faults + pipeline.faults
        if failed and (not allow_missing or len(failed) == job["shards"]):
            what = f"{len(failed)} of {job['shards']} shards failed on every attempt"
            raise JobError(what, faults, "once the cause is removed, the same call resumes the job")
        finished = [shard for shard in range(job["shards"]) if shard not in failed]
        report: dict[str, Any] = cluster.once(_finish, work, finished)
    counted = {"shards": job["shards"], "shards_resumed": len(done), "shards_failed": len(failed)}
    skipped = {"skipped": job["skipped"]} if "skipped" in job else {}
    return report | counted | skipped | {"faults": faults, "wall_seconds": time.monotonic() - begun}


def _prepare(work: Work, n_workers: int) -> dict[str, Any]:
    return work.prepare(n_workers)


def _finish(work: Work, shards: list[int]) -> dict[str, Any]:
    rows = list(work.folder.rows().values())
    keys = [key for key, value in rows[0].items() if isinstance(value, int | float) and key not in TIMES]
    return {key: sum(row[key] for row in rows) for key in keys} | work.finish(shards)
