"""A dataset as a job: each worker lists the same files, and builds the shards that it is given."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from typing import Any

import melisma
from melisma import _melisma, dataset

from ._cluster import Needs
from ._folder import Folder, stem
from ._remote import Remote

#: Files of a shard where the caller does not say how many shards there are.
FILES_PER_SHARD = 2000
#: Shards for each worker, so that none waits long for the last ones.
SHARDS_PER_WORKER = 4
#: Failures that the report lists; the file beside the dataset lists all.
MAX_LISTED = 1000
#: Seconds to wait for a worker of a dead driver to let go of a shard.
PATIENCE_S = 120
#: What a shard's report passes on.
KEYS = ("rows", "frames", "files_ok", "files_failed", "files_without_text", "audio_seconds", "wall_seconds")


class Build:
    """The work of `build`."""

    def __init__(self, inputs: Sequence[str], output: str, shards: int | None, options: dict[str, Any]) -> None:
        self.inputs, self.output, self.shards = inputs, output, shards
        self.store: str | None = options["store"]
        self.overwrite: bool = options["overwrite"]
        self.settings: dict[str, Any] = options["settings"]
        self.folder = Folder(f"{output}.shards")
        self.remote = Remote.of(inputs, options["scratch"])
        self._version = melisma.__version__
        self._builder: _melisma._Builder | None = None
        self._listed: _melisma._Inputs | None = None

    def needs(self) -> Needs:
        """The inputs, the model and the table; room beside the output and for remote files."""
        named = [self.settings.get(key) for key in ("model", "metadata")]
        reads = [path for path in named if path is not None and not path.startswith("builtin:")]
        reads += [] if self.remote else self.inputs
        writes = [os.path.dirname(self.output), *([self.remote.parent] if self.remote else [])]
        return Needs(self._version, tuple(reads), tuple(writes))

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Lists the files once, for all workers and all later calls."""
        if self.folder.read("merged.json") is not None and not os.path.exists(self.output):
            shutil.rmtree(self.folder.path)

        def plan() -> dict[str, Any]:
            listed = self.remote.list() if self.remote else _melisma._Inputs.find(self.inputs)
            listed.save(self.folder.at("inputs.list"))
            wanted = self.shards or max(n_workers * SHARDS_PER_WORKER, -(-len(listed) // FILES_PER_SHARD))
            return {"files": len(listed), "shards": min(wanted, len(listed)), "skipped": listed.skipped()}

        asked = {"inputs": self.inputs, "store": self.store, "settings": self.settings}
        job = self.folder.begin(asked, lambda: [self.output], plan, self.overwrite)
        is_merged = self.folder.read("merged.json") is not None
        done = [row["shard"] for row in self.folder.rows()]
        return job | {"done": [shard for shard in done if is_merged or os.path.exists(self._path(shard))]}

    def open(self, threads: int, device: str | None) -> None:
        """Loads the model, the table and the list of files."""
        self._builder = dataset._builder(**self.settings, device=device, threads=threads)
        self._listed = _melisma._Inputs.load(self.folder.at("inputs.list"))

    def run(self, shard: int) -> dict[str, Any]:
        """Builds one shard."""
        job = self.folder.job()
        assert self._listed is not None and job is not None
        if self.remote is None:
            return self._build(shard, job["shards"])
        with self.remote.staged(self._listed.paths(shard, job["shards"]), self.settings):
            return self._build(shard, job["shards"])

    def _build(self, shard: int, count: int) -> dict[str, Any]:
        assert self._builder is not None
        output = self._path(shard)
        order = {
            "inputs": self._listed, "output": output, "store": self.store, "shard": (shard, count),
            # What is unfinished resumes; what was begun with files that have changed since starts over.
            "overwrite": not os.path.exists(output), "stop_on_failure": False, "progress": None,
        }
        begun = time.monotonic()
        while True:
            try:
                report = self._builder.build(order)
                return {key: report[key] for key in KEYS}
            except melisma.MelismaError as error:
                if error.kind == "Exists" and not order["overwrite"]:
                    order["overwrite"] = True
                elif error.kind != "Busy" or time.monotonic() - begun > PATIENCE_S:
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
            # Before the job began, there was no output or it may be replaced: what is there is ours.
            rows = dataset.merge(paths, self.output, store=self.store, overwrite=True, allow_missing=missing)  # type: ignore[arg-type]
            merged = {"rows": rows, "missing_shards": job["shards"] - len(shards)}
            if not missing:
                self.folder.write("merged.json", merged)
                for path in paths:
                    _remove(path)
        return merged | {"failures": _failures(f"{self.output}.failures.jsonl")}

    def _path(self, shard: int) -> str:
        return self.folder.at(stem(shard) + os.path.splitext(self.output)[1])


def _remove(path: str) -> None:
    for place in (path, f"{path}.failures.jsonl"):
        if os.path.isdir(place):
            shutil.rmtree(place)
        elif os.path.exists(place):
            os.remove(place)


def _failures(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line, _ in zip(file, range(MAX_LISTED), strict=False)]
    except FileNotFoundError:
        return []
