"""Timing for the other scripts of this folder: `peer` sends it before each of them."""

import os
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


def numpy_on(threads):
    """numpy, whose libraries read their number of threads when they are loaded."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    import numpy

    return numpy


