"""How many shards a job has."""

from typing import Any

from .._array import value_error
from ._folder import Folder

#: Shards for each worker, so that none waits long for the last ones.
PER_WORKER = 16


def choose(asked: int | None, n_workers: int, items: int, per_shard: int) -> int:
    """Returns the shards of a new job, never more than its items."""
    return min(asked or max(n_workers * PER_WORKER, -(-items // per_shard)), items)


def check(folder: Folder, job: dict[str, Any], asked: int | None, items: int) -> None:
    """Fails if the job has another number of shards than the caller asks for."""
    if asked is not None and min(asked, items) != job["shards"]:
        raise value_error(
            f"{folder.path}: the job there has {job['shards']} shards, this call has shards={asked}",
            "leave out shards, or use overwrite=True to start over",
        )
