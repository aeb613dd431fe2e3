#!/usr/bin/env python3
"""Reads the texts aloud with flite's voice slt, into files of 250 clips each, as long as it may.

    aloud.py TEXTS.json.gz LIBRARIES OUT [--workers N] [--seconds N] [--limit N]

LIBRARIES is a folder with libflite*.so.1 of Debian's libflite1, and libasound.so.2 where the machine has none. Worker w
of n reads the texts w, w + n, w + 2n and so on, so the first texts are read first. OUT/w-k.npz has the samples of 16 kHz,
one clip after the other, the lengths, and the numbers of the texts.
"""
import argparse, ctypes, gzip, json, multiprocessing, os, time

import numpy

RATE, SILENCE, PAUSE, MAX_SECONDS, CLIPS = 16_000, 60, 1600, 22, 250


class Wave(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char_p), ("rate", ctypes.c_int), ("n", ctypes.c_int), ("channels", ctypes.c_int),
                ("samples", ctypes.POINTER(ctypes.c_short))]


def flite(libraries):
    """Returns a function that reads a text aloud, with a tenth of a second after its last sound."""
    names = ["libasound.so.2", "libflite.so.1", "libflite_usenglish.so.1", "libflite_cmulex.so.1", "libflite_cmu_us_slt.so.1"]
    opened = []
    for name in names:
        try:
            path = os.path.join(libraries, name)
            opened.append(ctypes.CDLL(path if os.path.exists(path) else name, mode=ctypes.RTLD_GLOBAL | os.RTLD_LAZY))
        except OSError:
            if "flite" in name:
                raise
    engine, slt = opened[-4], opened[-1]
    engine.flite_init()
    slt.register_cmu_us_slt.restype = ctypes.c_void_p
    slt.register_cmu_us_slt.argtypes = [ctypes.c_char_p]
    voice = slt.register_cmu_us_slt(None)
    engine.flite_text_to_wave.restype = ctypes.POINTER(Wave)
    engine.flite_text_to_wave.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    engine.delete_wave.argtypes = [ctypes.POINTER(Wave)]

    def say(text):
        wave = engine.flite_text_to_wave(text.encode(), voice)
        found = wave.contents
        assert found.rate == RATE and found.n > 0, text
        samples = numpy.ctypeslib.as_array(found.samples, (found.n,)).copy()
        engine.delete_wave(wave)
        loud = numpy.nonzero(numpy.abs(samples.astype(numpy.int32)) > SILENCE)[0]
        last = loud[-1] + 1 if len(loud) else 0
        return numpy.concatenate([samples[:last], numpy.zeros(max(0, last + PAUSE - len(samples)), numpy.int16),
                                  samples[last : last + PAUSE]])

    return say


def work(job):
    arguments, worker, texts, end = job
    say, clips, numbers, n_files = flite(arguments.libraries), [], [], 0

    def write():
        path = f"{arguments.out}/{worker}-{n_files}"
        numpy.savez(path + ".tmp.npz", samples=numpy.concatenate(clips), lengths=[len(clip) for clip in clips], numbers=numbers)
        os.replace(path + ".tmp.npz", path + ".npz")

    for number, text in texts:
        if time.time() > end:
            break
        clip = say(text)
        if RATE // 5 < len(clip) < MAX_SECONDS * RATE:
            clips.append(clip)
            numbers.append(number)
        # The first files are small, so that others can begin.
        if len(clips) == (60 if n_files < 4 else CLIPS):
            write()
            clips, numbers, n_files = [], [], n_files + 1
    if clips:
        write()
    return worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("texts", "libraries", "out"):
        parser.add_argument(name)
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() - 2))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--limit", type=int, default=10**9)
    arguments = parser.parse_args()
    start, n = time.time(), arguments.workers
    with gzip.open(arguments.texts, "rt") as file:
        texts = list(enumerate(json.load(file)))[: arguments.limit]
    os.makedirs(arguments.out, exist_ok=True)
    jobs = [(arguments, worker, texts[worker::n], start + arguments.seconds) for worker in range(n)]
    with multiprocessing.get_context("fork").Pool(n) as pool:
        for worker in pool.imap_unordered(work, jobs):
            print(f"[{time.time() - start:.0f} s] worker {worker} is done", flush=True)
    open(f"{arguments.out}/done", "w").close()


if __name__ == "__main__":
    main()
