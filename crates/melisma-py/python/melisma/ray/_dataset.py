"""A dataset as a job: each worker lists the same files, and builds the shards that it is given."""

import collections
import dataclasses
import json
import os
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import melisma
from melisma import _feature, _melisma, dataset

from .._array import value_error
from .._feature import Feature, Tokens
from . import _shards
from ._cluster import Needs
from ._folder import Folder, Plan, remove, stamp, stem
from ._remote import Remote
from ._stage import Stage

#: Files of a shard where the caller does not say how many shards there are.
FILES_PER_SHARD = 2000
#: Failures that the report lists; the file beside the dataset lists all.
MAX_LISTED = 1000
#: Seconds to wait for a worker of a dead driver to let go of a shard.
TIMEOUT_S = 120
#: What a shard's report passes on.
KEYS = (
    "rows", "frames", "files_ok", "files_failed", "files_left_out", "files_peak_limited", "files_without_text",
    "audio_seconds", "wall_seconds",
)


class Build:
    """The work of `build`."""

    def __init__(self, inputs: Sequence[str], output: str, shards: int | None, options: dict[str, Any]) -> None:
        self.inputs, self.output, self.shards = inputs, output, shards
        self.store: str | None = options["store"]
        self.overwrite: bool = options["overwrite"]
        self.feature: Feature = options["feature"]
        self.memory_limit: int | str | None = options["memory_limit"]
        #: One more list of files, and where relative paths in lists begin.
        self.listing: tuple[str | None, str | None] = (options["list"], options["root"])
        self.folder = Folder(f"{output}.shards")
        self.remote = Remote.of(inputs, options["scratch"])
        if self.remote and self.listing != (None, None):
            raise value_error(f"{self.remote.uri}: a remote folder has no list and no root", "leave them out")
        self._version = melisma.__version__
        self._builder: _melisma._Builder | None = None
        self._listed: _melisma._Inputs | None = None
        self._stage: Stage | None = None

    def needs(self) -> Needs:
        """Returns the needs: the inputs, the model and the table, and room beside the output and for remote files."""
        reads = [path for path in _paths(self.feature) if not path.startswith("builtin:")]
        reads += [] if self.remote else [*self.inputs, *filter(None, self.listing)]
        writes = [os.path.dirname(self.output), *([self.remote.parent] if self.remote else [])]
        return Needs(self._version, tuple(reads), tuple(writes))

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Lists the files once, for all workers and all later calls. Shards that were damaged are made again."""
        if self.folder.read("merged.json") is not None and not os.path.exists(self.output):
            self.folder.empty()
        fields = dataclasses.asdict(self.feature)
        kept = {name: value for name, value in fields.items() if name not in _feature.TECHNIQUES}
        settings = {"feature": type(self.feature).__name__, **kept}
        asked = {
            "inputs": self.inputs, "list": self.listing[0], "root": self.listing[1], "store": self.store,
            "settings": settings, "memory_limit": self.memory_limit,
        }
        job = self.folder.begin(asked, [self.output], partial(self._plan, n_workers), self.overwrite)
        _shards.check(self.folder, job, self.shards, job["files"])
        if self.folder.read("merged.json") is not None:
            return job | {"done": list(range(job["shards"]))}
        self._check_list()
        rows = self.folder.rows()
        done = [shard for shard, row in rows.items() if row.get("stamp") == stamp([self._path(shard)])]
        for shard in rows.keys() - set(done):
            remove(self.folder.at(f"{stem(shard)}.json"))
            self._remove(shard)
        return job | {"done": done}

    def _plan(self, n_workers: int) -> Plan:
        _feature.builder(self.feature, ("cpu", 1, self.memory_limit))
        self._check_outputs([] if self.remote else [*self.inputs, *filter(None, self.listing[:1])])
        if os.path.isdir(self.output):
            check_dataset(self.output)
        listed, skipped = self.remote.list() if self.remote else find(self.inputs, self.listing)
        if os.path.exists(self.output) and not self.remote:
            self._check_outputs(map(str, listed.paths(0, 1)))
        shards = _shards.choose(self.shards, n_workers, len(listed), FILES_PER_SHARD)
        facts = {"files": len(listed), "shards": shards, "skipped": skipped}
        return facts, lambda: listed.save(self.folder.at("inputs.list"))

    def _check_outputs(self, inputs: Iterable[str]) -> None:
        """Fails if the output would replace an input."""
        output = os.path.realpath(self.output)
        for place in inputs:
            # Most are in other folders, and need no look at the disk.
            if place.startswith((output, self.output)) or os.path.basename(place) == os.path.basename(output):
                if f"{os.path.realpath(place)}/".startswith(f"{output}/"):
                    message = f"{self.output}: the output would replace the input {place}"
                    raise value_error(message, "choose another name for the output")

    def _check_list(self) -> None:
        path = self.folder.at("inputs.list")
        try:
            _melisma._Inputs.load(path)
        except melisma.MelismaError:
            message = f"{path}: the job's list of input files is missing or damaged"
            raise value_error(message, "use overwrite=True to start the job over") from None

    def open(self, threads: int, device: str | None) -> None:
        """Loads the model, the table and the list of files."""
        self._builder = _feature.builder(self.feature, (device, threads, self.memory_limit))
        self._listed = _melisma._Inputs.load(self.folder.at("inputs.list"))
        if self.remote is not None:
            self._stage = Stage(self.remote, self._listed)
            self._listed = self._stage.inputs

    def run(self, shard: int) -> dict[str, Any]:
        """Builds one shard."""
        job = self.folder.job()
        assert job is not None
        if self._stage is None:
            return self._build(shard, job["shards"])
        with_texts = isinstance(self.feature, Tokens) and self.feature.texts is None
        try:
            with self._stage.stage((shard, job["shards"]), with_texts):
                return self._build(shard, job["shards"])
        except melisma.MelismaError:
            # It may lack files that were there.
            self._remove(shard)
            raise

    def _build(self, shard: int, count: int) -> dict[str, Any]:
        assert self._builder is not None
        output = self._path(shard)
        order = {
            "inputs": self._listed, "output": output, "store": self.store, "shard": (shard, count),
            # What is unfinished resumes; what was begun with files that have changed since starts over.
            "overwrite": not os.path.exists(output), "max_failures": None, "progress": None,
        }
        begun = time.monotonic()
        while True:
            try:
                report = self._builder.build(order)
                counted = {"failures_by_code": report["failures_by_code"], "stamp": stamp([output])}
                return {key: report[key] for key in KEYS} | counted
            except melisma.MelismaError as error:
                if error.kind == "exists" and not order["overwrite"]:
                    order["overwrite"] = True
                elif error.kind != "busy" or time.monotonic() - begun > TIMEOUT_S:
                    raise
                else:
                    time.sleep(1)

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Merges the shards, and removes them."""
        job = self.folder.job()
        assert job is not None
        merged = self.folder.read("merged.json")
        if merged is None:
            paths = [self._path(shard) for shard in shards]
            missing = len(shards) < job["shards"]
            merged = {"rows": self._merge(paths, missing), "missing_shards": job["shards"] - len(shards)}
            if not missing:
                self.folder.write("merged.json", merged)
        if self.folder.read("merged.json") is not None:
            for shard in range(job["shards"]):
                self._remove(shard)
        by_code: collections.Counter[str] = collections.Counter()
        for row in self.folder.rows().values():
            by_code.update(row.get("failures_by_code", {}))
        failures = _failures(f"{self.output}.failures.jsonl")
        return merged | {"failures": failures, "failures_by_code": dict(sorted(by_code.items()))}

    def _merge(self, paths: list[str], missing: bool) -> int:
        # Before the job began, there was no output or it may be replaced: what is there is ours.
        try:
            return dataset.merge(paths, self.output, store=self.store, overwrite=True, allow_missing=missing)  # type: ignore[arg-type]
        except melisma.MelismaValueError as error:
            if not any(path in error.message for path in paths):
                raise
            hint = "remove this shard, and the same call builds it again"
            raise melisma.MelismaValueError(error.kind, error.message, hint) from None

    def _path(self, shard: int) -> str:
        return self.folder.at(stem(shard) + os.path.splitext(self.output)[1])

    def _remove(self, shard: int) -> None:
        path = self._path(shard)
        remove(path)
        remove(f"{path}.failures.jsonl")
        remove(f"{path}.origin.json")


def _paths(feature: Feature) -> list[str]:
    """Returns the files that a feature reads."""
    if not isinstance(feature, Tokens):
        return []
    return [str(feature.model), *([] if feature.texts is None else [str(feature.texts.path)])]


def find(inputs: Sequence[str], listing: tuple[str | None, str | None]) -> tuple[_melisma._Inputs, list[str]]:
    """Returns the audio files of local inputs, and what was left out, in words."""
    listed = _melisma._Inputs.find(inputs, *listing)
    return listed, listed.skipped()


def check_dataset(folder: str) -> None:
    """Fails if a folder is not a dataset, which alone may be replaced."""
    try:
        dataset.open(folder)
    except melisma.MelismaError:
        raise value_error(f"{folder}: this folder is not a dataset", "choose another name, or remove it yourself") from None


def _failures(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line, _ in zip(file, range(MAX_LISTED), strict=False)]
    except FileNotFoundError:
        return []
