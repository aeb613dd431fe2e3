"""Timing for the other scripts of this folder: `peer` sends it before each of them."""

import statistics
import time


def times(work, least, seconds, warm_up=1):
    """Sorted seconds of single calls: at least `least` of them, for at least `seconds`."""
    for _ in range(warm_up):
        work()
    found, begin = [], time.perf_counter()
    while len(found) < least or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return sorted(found)


def median_seconds(work, least=7, seconds=0.5, warm_up=3):
    return statistics.median(times(work, least, seconds, warm_up))


