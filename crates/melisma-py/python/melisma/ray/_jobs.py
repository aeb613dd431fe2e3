"""The jobs of this package, from the driver."""

import os
import time
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from ..dataset import Path
from ._clips import Clips
from ._cluster import Cluster, Needs, Workers
from ._dataset import Build
from ._error import JobError
from ._pack import Pack
from ._pipeline import Pipeline, Work

Store: TypeAlias = Literal["hdf5", "safetensors", "npy"]
#: One worker on each core.
CORES = Workers()


def build(
    inputs: Path | Iterable[Path],
    output: Path,
    *,
    workers: Workers = CORES,
    shards: int | None = None,
    retries: int = 2,
    allow_missing: bool = False,
    overwrite: bool = False,
    store: Store | None = None,
    scratch: Path | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Builds a dataset on the cluster, or resumes an earlier job; returns a report.

    Inputs and output are paths that every node sees, or the inputs are the URI of one folder (`s3://...`), whose files
    each worker stages in `scratch`. `settings` are those of `melisma.dataset.build` for the rows: `feature`, `preset`,
    `segment`, `model` and so on. A shard that fails is tried `retries` times more, also on other nodes. Shards that fail
    every time raise `JobError`, unless `allow_missing` merges the others.
    """
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
    index: Path,
    *,
    workers: Workers = CORES,
    retries: int = 2,
    tile_size: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Packs every file of a sharded checkpoint, or resumes an earlier job; returns a report.

    `index` is its `.index.json`. Packed files and their index go beside the sources, as `melisma pack` writes them.
    """
    return _run(Pack(_absolute(index), tile_size, overwrite), workers, retries, allow_missing=False)


def clips(
    preset: str,
    folder: Path,
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
    """Renders clips of a preset with their labels, as `melisma synth --clips` does; returns a report."""
    settings = {
        "preset": preset, "count": count, "seconds": seconds, "seed": str(seed), "rate": rate, "loudness": loudness,
        "sample_format": sample_format,
    }
    return _run(Clips(_absolute(folder), settings, shards, overwrite), workers, retries, allow_missing=False)


def _absolute(path: Path) -> str:
    text = os.fspath(path)
    return text if "://" in text or text.startswith("builtin:") else os.path.abspath(text)


def _run(work: Work, workers: Workers, retries: int, allow_missing: bool) -> dict[str, Any]:
    begun = time.monotonic()
    needs = work.needs()
    cluster = Cluster(needs)
    job = cluster.once(_prepare, work, len(cluster.seats(workers)))
    # A node that does not see the job's file has another disk under this path.
    cluster.require(Needs(needs.version, (work.folder.at("job.json"),), ()))
    pipeline = Pipeline(work, cluster, workers, retries)
    done = set(job["done"])
    failed = pipeline.run([shard for shard in range(job["shards"]) if shard not in done])
    faults = cluster.faults + pipeline.faults
    if failed and not allow_missing:
        raise JobError(f"{len(failed)} of {job['shards']} shards failed on every attempt", faults)
    finished = [shard for shard in range(job["shards"]) if shard not in failed]
    report: dict[str, Any] = cluster.once(_finish, work, finished)
    counted = {"shards": job["shards"], "shards_resumed": len(done), "shards_failed": len(failed)}
    skipped = {"skipped": job["skipped"]} if "skipped" in job else {}
    return report | counted | skipped | {"faults": faults, "wall_seconds": time.monotonic() - begun}


def _prepare(work: Work, n_workers: int) -> dict[str, Any]:
    return work.prepare(n_workers)


def _finish(work: Work, shards: list[int]) -> dict[str, Any]:
    rows = work.folder.rows()
    sums = {key: sum(row[key] for row in rows) for key in rows[0] if key not in ("shard", "node", "seconds", "wall_seconds")}
    return sums | work.finish(shards)
