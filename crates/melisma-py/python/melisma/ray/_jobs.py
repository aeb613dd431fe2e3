"""The jobs of this package, from the driver."""

import dataclasses
import os
import time
from collections.abc import Iterable
from typing import Any, Literal, Unpack

from .._array import value_error
from .._feature import Feature, LineFormat, Tokens, as_feature, lines_of, warn_of_builtin, warn_of_spoken
from .._path import StrPath, path_of
from .._preset import Change
from ..dataset import Store
from ..speak import Sampling, as_manner, as_which
from ._clips import Clips, is_file
from ._cluster import Cluster, Needs, Workers, check_int
from ._dataset import Build
from ._error import JobError
from ._pack import Pack
from ._pipeline import Pipeline, Work
from ._report import BuildReport, ClipsReport, PackReport, SpeakReport
from ._speak import CORPORA, Speak

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
    "max_failures": "files that fail are listed, and the others are built",
    "progress": "Ray shows the progress",
}
#: What rows have beside counts: the report has a time of its own.
TIMES = ("seconds", "wall_seconds")
#: The most clips of a job.
MAX_CLIPS = (1 << 32) - 1


def build(
    inputs: StrPath | Iterable[StrPath],
    output: StrPath,
    feature: Feature | str | None = None,
    *,
    workers: Workers = CORES,
    shards: int | None = None,
    retries: int = 2,
    allow_missing: bool = False,
    overwrite: bool = False,
    store: Store | None = None,
    list: StrPath | None = None,
    root: StrPath | None = None,
    scratch: StrPath | None = None,
    memory_limit: int | str | None = None,
    **old: Any,
) -> BuildReport:
    """Builds a dataset on the cluster, or resumes an earlier job.

    Args:
        inputs: Paths that every node sees, or the URI of one folder (`s3://...`), whose files each worker stages.
        output: The dataset, a path that every node sees.
        feature: What the rows are, `Mel(...)` or `Tokens(...)` as for `melisma.dataset.build`; None is `Mel()`.
        workers: What one worker has, and how many there are.
        shards: How many shards the job has; None is sixteen for each worker, with at most 2000 files in each.
        retries: How often a shard that fails is tried again, also on other nodes.
        allow_missing: Whether shards that fail every time are left out of the merge, instead of raising `JobError`.
        overwrite: Whether the output, and an earlier job with its shards, is replaced.
        store: HDF5, safetensors or a folder of npy files; None takes the suffix of `output`.
        list: One more list of files, whatever its name, on storage that every node sees.
        root: Where relative paths in lists begin; None is the folder of the list.
        scratch: The folder on every node for staged files; None is that for temporary files.
        memory_limit: That of each worker: bytes, or text such as "2GiB".
        old: Deprecated: the arguments of `Mel` and `Tokens`, with `feature` as "mel" or "tokens".

    Returns:
        Counts of rows, frames, files and shards, the failures and the faults.
    """
    _check(workers, shards, retries)
    for key in old.keys() & OTHERWISE.keys():
        raise value_error(f"`{key}` cannot be set for a job on Ray", OTHERWISE[key])
    resolved = as_feature(feature, old, "melisma.ray.build")
    warn_of_builtin(resolved)
    kind = os.path.splitext(path_of(output))[1][1:] if store is None else store
    is_lines = kind == "jsonl" and store is None and isinstance(resolved, Tokens)
    if not is_lines and (kind not in KINDS or (kind == "npy" and store is None)):
        hint = "use store=\"hdf5\", \"safetensors\" or \"npy\", or a name that ends with .h5 or .safetensors"
        raise value_error(f"unknown kind of dataset `{kind}`", hint)
    places = [_absolute(place) for place in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    options = {
        "store": store,
        "overwrite": overwrite,
        "feature": _with_absolute_paths(resolved),
        "memory_limit": memory_limit,
        "list": None if list is None else _absolute(list),
        "root": None if root is None else _absolute(root),
        "scratch": None if scratch is None else _absolute(scratch),
    }
    work = Build(places, _absolute(output), shards, options)
    return BuildReport(**_run(work, workers, retries, allow_missing))


def pack(
    index: StrPath,
    *,
    workers: Workers = CORES,
    retries: int = 2,
    tile_size: int | None = None,
    overwrite: bool = False,
) -> PackReport:
    """Packs every file of a sharded checkpoint, or resumes an earlier job.

    Packed files and their index go beside the sources, as `melisma pack` writes them. A file that changed since it was
    packed is packed again.

    Args:
        index: The checkpoint's `.index.json`.
        workers: As for `build`.
        retries: As for `build`.
        tile_size: As for `melisma.pack.save_file`.
        overwrite: Whether packed files that no earlier job made are replaced.

    Returns:
        The new index, bytes before and after, counts of shards, and the faults.
    """
    _check(workers, None, retries)
    check_int("tile_size", tile_size, 1)
    return PackReport(**_run(Pack(_absolute(index), tile_size, overwrite), workers, retries, allow_missing=False))


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
    soundfont: StrPath | None = None,
    workers: Workers = CORES,
    shards: int | None = None,
    retries: int = 2,
    overwrite: bool = False,
    **changes: Change,
) -> ClipsReport:
    """Renders clips of a preset with their labels, as `melisma synth --clips` does.

    Clips that were removed or damaged since an earlier call are made again.

    Args:
        preset: A name such as "focus", or a .yaml file, a path that every node sees.
        folder: Where the clips go, a path that every node sees.
        count: How many there are.
        seconds: The length of each.
        seed: The seed of the first; clip i has `seed` + i.
        rate: Their sample rate in Hz.
        loudness: Their loudness in LUFS; None leaves the level as it is.
        sample_format: "s16", "s24" or "f32".
        soundfont: An .sf2 file that plays instead of Melisma's instruments, on the CPU; a path that every node sees.
        workers: As for `build`.
        shards: As for `build`; a shard is a range of clips, by default 256 at most.
        retries: As for `build`.
        overwrite: Whether clips are replaced, and those of an earlier job that had more are removed.
        changes: Changes to the preset that every clip varies, by the names of `melisma.synth.changes()` but `key`:
            `tempo=96`.

    Returns:
        Counts of clips, notes, samples and shards, and the faults.
    """
    _check(workers, shards, retries)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_CLIPS:
        raise value_error(f"count is {count!r}", f"use a whole number from 1 to {MAX_CLIPS}")
    settings: dict[str, Any] = {
        "preset": _preset(preset), "count": count, "seconds": seconds, "seed": str(seed), "rate": rate, "loudness": loudness,
        "sample_format": sample_format,
    }
    if soundfont is not None:
        settings["soundfont"] = _absolute(soundfont)
    given = {name: value for name, value in changes.items() if value is not None}
    if "key" in given:
        raise value_error("key cannot be used with clips", "each clip has a key of its own")
    if given:
        settings["changes"] = {name: value if isinstance(value, str) else float(value) for name, value in given.items()}
    work = Clips(_absolute(folder), settings, shards, overwrite)
    return ClipsReport(**_run(work, workers, retries, allow_missing=False))


def speak(
    texts: StrPath,
    output: StrPath,
    voice_model: StrPath = "builtin:voice",
    *,
    model: StrPath | None = None,
    voice: str | None = None,
    seed: int = 0,
    speed: float = 1.0,
    noise: int | None = 0,
    sample_format: str = "s16",
    format: LineFormat = "codes",
    drop_repeats: bool = False,
    precision: Literal["fp32", "bf16"] | None = None,
    normalise: bool | None = None,
    workers: Workers = CORES,
    shards: int | None = None,
    retries: int = 2,
    overwrite: bool = False,
    memory_limit: int | str | None = None,
    **sampling: Unpack[Sampling],
) -> SpeakReport:
    """Speaks a list of texts, as `melisma speak --list` does, or resumes an earlier job.

    Args:
        texts: The list: lines with `text` and, where wanted, `voice`, `seed` and `name`.
        output: A name without a suffix is a folder of audio, one that ends with .safetensors, .h5 or .jsonl a corpus
            of tokens.
        voice_model: The language model: `builtin:voice`, or its folder.
        model: Its codec; None is `builtin:solo24` for the built-in voice and `builtin:mini24` for others.
        voice: The voice of lines without one; None is the model's first.
        seed: The seed of lines without one.
        speed: The speed of audio at the same pitch, 0.25 to 4.
        noise: The seed of the codec's noise in audio, or None for none.
        sample_format: That of audio: "s16", "s24" or "f32".
        format: What a line of .jsonl holds: "codes", or "orpheus", its ids.
        drop_repeats: Whether lines leave out frames that begin like the frame before.
        precision: As for `melisma.speak.Speaker`; None is that of each worker's settings.
        normalise: As for `melisma.speak.Speaker`.
        workers: As for `build`.
        shards: As for `build`; a shard is a range of lines, by default 256 at most.
        retries: As for `build`.
        overwrite: Whether the output, and an earlier job with its shards, is replaced.
        memory_limit: As for `build`.
        sampling: How tokens are drawn, see `melisma.speak.Sampling`.

    Returns:
        Counts of texts, frames, samples and shards, the lines that failed, notes and faults.
    """
    _check(workers, shards, retries)
    suffix = os.path.splitext(path_of(output))[1]
    if suffix not in ("", *CORPORA):
        hint = "use a name without a suffix for audio, or one that ends with .safetensors, .h5 or .jsonl for tokens"
        raise value_error(f"unknown kind of output `{suffix}`", hint)
    if suffix and speed != 1.0:
        raise value_error(f"speed is {speed!r}: tokens have no speed", "leave it out, or write audio to a folder")
    if any(lines_of(format, drop_repeats).values()) and suffix != ".jsonl":
        hint = "use them with an output that ends with .jsonl"
        raise value_error("format and drop_repeats are for lines of tokens", hint)
    which = as_which(voice, seed)
    codec = _absolute(model or _codec_of(voice_model))
    warn_of_spoken(codec, path_of(output))
    options = {
        "voice_model": _absolute(voice_model), "model": codec, "precision": precision,
        "normalise": normalise, "memory_limit": memory_limit, "overwrite": overwrite,
        "manner": as_manner(speed, noise, sampling),
        "asked": {
            "voice": which[0], "seed": which[1], "sample_format": sample_format, "format": format,
            "drop_repeats": drop_repeats,
        },
    }
    work = Speak(_absolute(texts), _absolute(output), shards, options)
    return SpeakReport(**_run(work, workers, retries, allow_missing=False))


def _with_absolute_paths(feature: Feature) -> Feature:
    """Returns a feature whose paths mean the same on every node."""
    if not isinstance(feature, Tokens):
        return feature
    table = feature.texts
    texts = None if table is None else dataclasses.replace(table, path=_absolute(table.path))
    return dataclasses.replace(feature, model=_absolute(feature.model), texts=texts)


def _preset(preset: str) -> str:
    """Returns a preset whose file, if it is one, means the same on every node."""
    name = preset.removeprefix("preset:")
    return _absolute(name) if is_file(name) else preset


def _codec_of(voice_model: StrPath) -> str:
    return "builtin:solo24" if path_of(voice_model) == "builtin:voice" else "builtin:mini24"


def _absolute(path: StrPath) -> str:
    text = path_of(path)
    return text if "://" in text or text.startswith("builtin:") else os.path.abspath(text)


def _check(workers: Workers, shards: int | None, retries: int) -> None:
    if not isinstance(workers, Workers):
        raise value_error(f"workers is {workers!r}", "use Workers(num_cpus, num_gpus, count)")
    check_int("shards", shards, 1)
    check_int("retries", -1 if retries is None else retries, 0)


def _run(work: Work, workers: Workers, retries: int, allow_missing: bool) -> dict[str, Any]:
    begun = time.monotonic()
    cluster = Cluster(work.needs())
    n_workers = len(cluster.worker_nodes(workers))
    with cluster.lock(work.folder):
        job = cluster.run_once(_prepare, work, n_workers)
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
        report: dict[str, Any] = cluster.run_once(_finish, work, finished)
    counted = {"shards": job["shards"], "shards_resumed": len(done), "shards_failed": len(failed)}
    skipped = {"skipped": job["skipped"]} if "skipped" in job else {}
    return report | counted | skipped | {"faults": faults, "wall_seconds": time.monotonic() - begun}


def _prepare(work: Work, n_workers: int) -> dict[str, Any]:
    return work.prepare(n_workers)


def _finish(work: Work, shards: list[int]) -> dict[str, Any]:
    rows = list(work.folder.rows().values())
    keys = [key for key, value in rows[0].items() if isinstance(value, int | float) and key not in TIMES]
    return {key: sum(row[key] for row in rows) for key in keys} | work.finish(shards)
