"""Calls everything public with success, then with wrong arguments, under a limit of memory and a deadline.

`python caller.py N SEED FOLDER` draws N wrong calls and writes the report `report.json`. With TEST_TORCH, arrays are
torch tensors now and then. A call that ends the process, or that
does not return, is the last one in the files `call.THREAD` of the folder.
"""

import faulthandler
import json
import math
import os
import random
import resource
import sys
import threading
import time
import warnings

import numpy

import melisma
import recipes

torch = None
if "TEST_TORCH" in os.environ:
    import torch

THREADS = 4
DEADLINE_S = 120
MEMORY_BYTES = 16 << 30
"""Of addresses: a runaway allocation fails, and with it the test."""
DOCUMENTED = (
    melisma.MelismaError, TypeError, OverflowError, ValueError, IndexError, KeyError, MemoryError, OSError, RecursionError,
)

NUMBERS = [
    0, 1, 2, 3, 7, -1, -2, 255, 256, 4_096, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63,
    2**64 - 1, 2**64, -(2**31), -(2**63), -(2**70), 10**400, True, False, 0.0, -0.0, 0.5, 1.5, -1.5, 1e-300, 1e30, 1e308,
    math.nan, math.inf, -math.inf, numpy.float32("nan"), numpy.int64(3), numpy.uint8(2), 3j,
]
WORDS = [
    "", "x", "0", "-1", "nan", "inf", "1e999", "9" * 50, "cpu", "cuda:99", "auto", "float16", "focus", "preset:focus",
    "preset:", "\0", "\ud800", "a\nb", "é" * 50, "builder", "fp16", "64GiB", "builtin:", "none", "../x",
]
BYTES = [b"", b"RIFF", b"MThd", bytes(range(256)), bytearray(5), memoryview(b"abc"), memoryview(bytes(16))[::2]]
DTYPES = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u8", "?", "c8", "O", "S3", "U2", ">f4", ">i4", "M8[s]", "f4,i4"]
DEEP = []
DEEP.append(DEEP)


class Liar:
    """It says that it is a path, an array and a number, and is none."""

    def __fspath__(self):
        return 3

    def __index__(self):
        return "x"

    def __array__(self, *_arguments, **_options):
        return 5

    def __len__(self):
        return -1


class Descriptor:
    """It would be an open file."""

    def __fspath__(self):
        return 1


class Text(str):
    pass


OTHERS = [None, ..., object(), int, len, range(5), {1, 2}, [], (), {}, [[]], [None], DEEP, {"w": 1}, {3: 4}, {"x": DEEP},
          Liar(), Descriptor(), Text("x"), (1, 2, 3, 4, 5), [1, 2, "x"], {"tempo": 1}, iter([]), numpy.float32, numpy.dtype("f4")]


def drawn(rng):
    """An array of any shape and type."""
    shape = tuple(rng.choice([0, 1, 2, 3, 7, 14, 100, 700]) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])))
    if math.prod(shape) > 200_000:
        shape = shape[:1]
    return numpy.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape) * rng.choice([0.1, 1, 5_000, 1e30])


def change(rng, array):
    """An array with something wrong: its type, shape, order, place or values."""
    array = numpy.asarray(array).copy()
    kind = rng.randrange(10)
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if kind == 0:
                return array.astype(rng.choice(DTYPES))
            if kind == 1:
                return array.reshape(rng.choice([(-1,), (1, -1), (-1, 1), (1, 1, -1), (2, -1), (7, -1)]))
            if kind == 2:
                return array[tuple(slice(None, None, rng.choice([-1, 2, -3])) for _ in array.shape)]
            if kind == 3:
                return array.T if array.ndim > 1 else array[:, None].T
            if kind == 4:
                return array[..., :0]
            if kind == 5:
                array.flags.writeable = False
                return array
            if kind == 6:
                room = bytearray(array.nbytes + 1)
                return numpy.frombuffer(room, array.dtype, array.size, 1).reshape(array.shape)
            if kind == 7:
                array.reshape(-1)[rng.randrange(max(array.size, 1)) :] = rng.choice([math.nan, math.inf, -1, 2**31, 1e30])
                return array
            if kind == 8:
                return rng.choice([numpy.asfortranarray, numpy.ma.masked_array, numpy.asmatrix, list, numpy.ndarray.tolist])(array)
            return drawn(rng).astype(rng.choice(DTYPES))
        except (IndexError, OverflowError, TypeError, ValueError):
            return array[..., None]


def tensor(rng, array):
    """A torch tensor of an array, or of another type, place or order."""
    try:
        tensor = torch.from_numpy(numpy.require(array, requirements=["C", "A", "W"]))
    except (TypeError, ValueError):
        return torch.zeros(3)
    kind = rng.randrange(8)
    if kind == 0:
        kinds = [torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn]
        return tensor.to(rng.choice(kinds))
    if kind == 1:
        return tensor.to("meta")
    if kind == 2 and tensor.is_floating_point():
        return tensor.requires_grad_()
    if kind == 3:
        return tensor[..., ::2] if tensor.ndim else tensor
    if kind == 4:
        return tensor.to_sparse() if tensor.ndim else tensor
    if kind == 5:
        return tensor.conj() if tensor.is_complex() else tensor.T if tensor.ndim == 2 else tensor.expand(2, *tensor.shape)
    return tensor


def wrong(rng, value, depth=0):
    """Something in place of `value`: another of its kind, or anything."""
    if torch is not None and isinstance(value, numpy.ndarray) and rng.random() < 0.4:
        return tensor(rng, value if rng.random() < 0.5 else change(rng, value))
    if isinstance(value, numpy.ndarray) and rng.random() < 0.7:
        return change(rng, value)
    if isinstance(value, dict | list | tuple) and value and depth < 3 and rng.random() < 0.7:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(list(keys))
        again = dict(value) if isinstance(value, dict) else list(value)
        if rng.random() < 0.1:
            again.pop(key)
        else:
            again[key] = wrong(rng, value[key], depth + 1)
        return tuple(again) if isinstance(value, tuple) else again
    if isinstance(value, bool):
        kinds = [NUMBERS, OTHERS]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        kinds = [NUMBERS] * 4 + [WORDS, OTHERS]
    elif isinstance(value, str):
        kinds = [WORDS] * 3 + [NUMBERS, BYTES, OTHERS]
    elif isinstance(value, bytes):
        if value and rng.random() < 0.5:
            broken = bytearray(value)
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            return rng.choice([bytes(broken), value[: rng.randrange(len(value))], value + b"x"])
        kinds = [BYTES, WORDS, OTHERS]
    else:
        kinds = [NUMBERS, WORDS, BYTES, OTHERS]
    if rng.random() < 0.15:
        return rng.choice([lambda: drawn(rng), lambda: change(rng, drawn(rng)), lambda: [drawn(rng), drawn(rng)]])()
    return rng.choice(rng.choice(kinds))


def limit(name, key, value):
    """The most or least that is drawn, in place of what is allowed but takes long."""
    bound, allowed = recipes.BOUNDS.get((name.partition(" ")[0].removesuffix("_async"), key), (None, None))
    if bound is None or not isinstance(value, int | float | numpy.number):
        return value
    return bound if bound < value <= allowed or bound > value >= allowed else value


class Caller:
    def __init__(self, folder):
        self.folder = folder
        self.world = recipes.World(folder)
        self.recipes = self.world.recipes()
        self.successes, self.unexpected, self.n_calls = set(), [], 0
        self.lock = threading.Lock()
        self.begun = {}
        names = list(self.recipes)
        self.weights = [1 / recipes.RARE.get(name, recipes.RARE.get(name.partition(" ")[0], 1)) for name in names]
        self.names = names

    def call(self, name, recipe, log):
        shown = f"{name}(*{recipe.args!r:.2000}, **{recipe.kwargs!r:.2000})"
        log.seek(0)
        log.write(shown.encode("utf-8", "replace"))
        log.truncate()
        self.begun[log.name] = (time.monotonic(), shown)
        raised = None
        try:
            recipe.call()
        except DOCUMENTED as error:
            raised = error
        except BaseException as error:
            raised = error
            with self.lock:
                self.unexpected.append(f"{shown}: {type(error).__name__}: {error}")
        with self.lock:
            self.n_calls += 1
            if raised is None:
                self.successes.add(name.partition(" ")[0])
        self.begun.pop(log.name)
        return raised

    def succeed(self):
        """Calls everything as it is meant; what failed, and why."""
        failed = {}
        with open(os.path.join(self.folder, "call.first"), "wb") as log:
            for name in self.names:
                raised = self.call(name, self.recipes[name](), log)
                if raised is not None:
                    failed[name] = f"{type(raised).__name__}: {raised}"
        return failed

    def draw(self, n, seed):
        rng = random.Random(seed)
        with open(os.path.join(self.folder, f"call.{seed}"), "wb") as log:
            for name in rng.choices(self.names, self.weights, k=n):
                try:
                    recipe = self.recipes[name]()
                except melisma.MelismaError:
                    # After a fork.
                    continue
                for _ in range(rng.choice([1, 1, 1, 2, 3])):
                    keys = [*recipe.kwargs, *range(len(recipe.args))]
                    if keys:
                        key = rng.choice(keys)
                        values = recipe.args if isinstance(key, int) else recipe.kwargs
                        values[key] = limit(name, key, wrong(rng, values[key]))
                self.call(name, recipe, log)

    def watch(self):
        """Ends the process where a call does not return."""
        while True:
            time.sleep(1)
            for begun, shown in list(self.begun.values()):
                if time.monotonic() - begun > DEADLINE_S:
                    print(f"it has not returned for {DEADLINE_S} s: {shown}", file=sys.stderr, flush=True)
                    faulthandler.dump_traceback(all_threads=True)
                    os._exit(3)


def main(n, seed, folder):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.environ["MELISMA_DEVICE"] = "cpu"
    os.chdir(folder)
    caller = Caller(folder)
    threading.Thread(target=caller.watch, daemon=True).start()
    failed = caller.succeed()
    threads = [threading.Thread(target=caller.draw, args=(n // THREADS, THREADS * seed + index)) for index in range(THREADS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    child = os.fork()
    if child == 0:
        # Objects of the parent are refused, and functions work.
        caller.unexpected, caller.begun = [], {}
        threading.Thread(target=caller.watch, daemon=True).start()
        caller.draw(n // 10, THREADS * seed + THREADS)
        print("\n".join(caller.unexpected), file=sys.stderr, flush=True)
        os._exit(min(len(caller.unexpected), 100))
    forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    report = {
        "calls": caller.n_calls, "successes": sorted(caller.successes), "failed": failed,
        "unexpected": caller.unexpected, "forked": forked,
    }
    with open(os.path.join(folder, "report.json"), "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
