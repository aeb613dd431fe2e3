"""Parts of a job, as callers name them."""

import numpy

from ._array import value_error


def index_of(shard: tuple[int, int]) -> tuple[int, int]:
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
