"""A list of texts as a job: a shard is a range of its lines, spoken to audio or to tokens."""

import os
import time
from collections.abc import Sequence
from typing import Any, Literal

import melisma
from melisma import _feature, dataset, speak

from .._array import value_error
from .._feature import Tokens
from . import _shards
from ._cluster import Needs
from ._dataset import TIMEOUT_S, check_dataset
from ._folder import Folder, Plan, remove, stamp, stem

#: Lines of a shard where the caller does not say how many shards there are.
LINES_PER_SHARD = 256
#: Failures that the report lists.
MAX_LISTED = 1000
#: Suffixes of corpora; an output without a suffix is a folder of audio.
CORPORA = (".safetensors", ".h5", ".hdf5", ".jsonl")
#: What a shard's row passes on.
KEYS = ("texts", "texts_kept", "frames", "samples", "files", "failures", "notes")


class Speak:
    """The work of `speak`."""

    def __init__(self, texts: str, output: str, shards: int | None, options: dict[str, Any]) -> None:
        self.texts, self.output, self.shards = texts, output, shards
        self.voice_model: str = options["voice_model"]
        self.model: str = options["model"]
        self.precision: Literal["fp32", "bf16"] | None = options["precision"]
        self.normalise: bool | None = options["normalise"]
        self.memory_limit: int | str | None = options["memory_limit"]
        self.overwrite: bool = options["overwrite"]
        #: What every shard is asked for, and how the texts are spoken.
        self.asked: dict[str, Any] = options["asked"]
        self.manner: dict[str, Any] = options["manner"]
        self.suffix = os.path.splitext(output)[1]
        self.folder = Folder(f"{output}.shards")
        self._version = melisma.__version__
        self._speaker: speak.Speaker | None = None

    def needs(self) -> Needs:
        """Returns the needs: the list and the models, and room beside the output."""
        reads = [path for path in (self.texts, self.voice_model, self.model) if not path.startswith("builtin:")]
        return Needs(self._version, tuple(reads), (os.path.dirname(self.output),))

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Decides the ranges once. Shards whose files changed are made again."""
        target = self.output if self.folder.read("merged.json") is not None or not self.suffix else None
        if target is not None and not os.path.exists(target):
            self.folder.empty()
        asked = {
            "texts": self.texts, "voice_model": self.voice_model, "model": self.model, "precision": self.precision,
            "normalise": self.normalise, "asked": self.asked, "manner": self.manner, "list": stamp([self.texts]),
        }
        targets = [self.output] if self.suffix else []

        def plan() -> Plan:
            self._check_output()
            self._check_settings()
            lines = count_lines(self.texts)
            if lines == 0:
                raise value_error(f"{self.texts}: the list is empty", "each line is an object such as {\"text\": \"Hi.\"}")
            shards = _shards.choose(self.shards, n_workers, lines, LINES_PER_SHARD)
            return {"lines": lines, "shards": shards}, lambda: None

        job = self.folder.begin(asked, targets, plan, self.overwrite)
        _shards.check(self.folder, job, self.shards, job["lines"])
        if self.folder.read("merged.json") is not None:
            return job | {"done": list(range(job["shards"]))}
        if not self.suffix:
            os.makedirs(self.output, exist_ok=True)
        rows = self.folder.rows()
        done = [shard for shard, row in rows.items() if row.get("stamp") == stamp(self._files(shard, row))]
        for shard in rows.keys() - set(done) if self.suffix else ():
            remove(self.folder.at(f"{stem(shard)}.json"))
            self._remove(shard)
        return job | {"done": done}

    def _check_output(self) -> None:
        if os.path.isdir(self.output) and self.suffix:
            check_dataset(self.output)
        if os.path.exists(self.output) and os.path.samefile(self.output, self.texts):
            raise value_error(f"{self.output}: the output would replace the list", "choose another name for the output")

    def _check_settings(self) -> None:
        """Fails as speaking with these settings does."""
        speaker = self._open(1, "cpu")
        if self.asked["format"] == "orpheus":
            _feature.builder(Tokens(self.model, format="orpheus"), ("cpu", 1, self.memory_limit))
        # A stream checks everything, and draws nothing before it is read.
        speaker._stream("a", (self.asked["voice"], self.asked["seed"]), self.manner)

    def _open(self, threads: int, device: str | None) -> speak.Speaker:
        return speak.Speaker(
            self.voice_model, model=self.model, precision=self.precision, normalise=self.normalise, device=device,
            threads=threads, memory_limit=self.memory_limit,
        )

    def open(self, threads: int, device: str | None) -> None:
        """Loads the models."""
        self._speaker = self._open(threads, device)

    def run(self, shard: int) -> dict[str, Any]:
        """Speaks one range of lines."""
        job = self.folder.job()
        assert job is not None and self._speaker is not None
        order = self.asked | {"list": self.texts, "output": self.output, "shard": (shard, job["shards"])}
        if self.suffix:
            # What is unfinished resumes; what was begun with files that have changed since starts over.
            order["output"] = self._path(shard)
            order["overwrite"] = not os.path.exists(order["output"])
        else:
            # A range with a row has files of this job; some were damaged since.
            order["overwrite"] = self.overwrite or self.folder.read(f"{stem(shard)}.json") is not None
        row = {key: value for key, value in self._spoken(self._speaker, order).items() if key in KEYS}
        return row | {"stamp": stamp(self._files(shard, row))}

    def _spoken(self, speaker: speak.Speaker, order: dict[str, Any]) -> dict[str, Any]:
        begun = time.monotonic()
        while True:
            try:
                return speaker._list(order, self.manner)
            except melisma.MelismaError as error:
                if error.kind == "exists" and not order["overwrite"]:
                    order["overwrite"] = True
                elif error.kind != "busy" or time.monotonic() - begun > TIMEOUT_S:
                    raise
                else:
                    time.sleep(1)

    def _files(self, shard: int, row: dict[str, Any]) -> list[str]:
        """Returns the files of a finished shard."""
        return [self._path(shard)] if self.suffix else [os.path.join(self.output, name) for name in row["files"]]

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Merges the shards of a corpus, and removes them."""
        rows = self.folder.rows()
        failures = [failure for shard in sorted(rows) for failure in rows[shard]["failures"]][:MAX_LISTED]
        notes = [note for shard in sorted(rows) for note in rows[shard]["notes"]]
        report = {"output": self.output, "failures": failures, "notes": notes}
        if self.suffix and self.folder.read("merged.json") is None:
            paths = [self._path(shard) for shard in shards]
            self.folder.write("merged.json", {"rows": dataset.merge(paths, self.output, overwrite=True)})
        if self.suffix:
            for shard in range(len(shards)):
                self._remove(shard)
        return report

    def _path(self, shard: int) -> str:
        return self.folder.at(stem(shard) + self.suffix)

    def _remove(self, shard: int) -> None:
        path = self._path(shard)
        remove(path)
        remove(f"{path}.failures.jsonl")
        remove(f"{path}.origin.json")


def count_lines(path: str) -> int:
    """Returns the lines that are not empty."""
    with open(path, encoding="utf-8") as file:
        return sum(1 for line in file if line.strip())
