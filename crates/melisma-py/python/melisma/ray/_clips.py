"""Clips of a preset as a job: a shard is a range of them."""

import os
import shutil
from collections.abc import Sequence
from typing import Any

import melisma
from melisma import _melisma

from ._cluster import Needs
from ._folder import Folder

#: Clips of a shard where the caller does not say how many shards there are.
CLIPS_PER_SHARD = 256
#: Shards for each worker, so that none waits long for the last ones.
SHARDS_PER_WORKER = 4


class Clips:
    """The work of `clips`."""

    def __init__(self, output: str, settings: dict[str, Any], shards: int | None, overwrite: bool) -> None:
        self.output, self.settings, self.shards, self.overwrite = output, settings, shards, overwrite
        self.folder = Folder(f"{output}.shards")
        self._version = melisma.__version__
        self._place: tuple[str | None, int] = (None, 1)

    def needs(self) -> Needs:
        """Room beside the folder of clips."""
        return Needs(self._version, (), (os.path.dirname(self.output),))

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Decides the ranges once."""
        count = self.settings["count"]
        if os.path.isdir(self.folder.path) and not os.path.isdir(self.output):
            shutil.rmtree(self.folder.path)

        def plan() -> dict[str, Any]:
            wanted = self.shards or max(n_workers * SHARDS_PER_WORKER, -(-count // CLIPS_PER_SHARD))
            return {"shards": min(wanted, count)}

        # Clips that are there are checked against their labels, so a folder of them is never refused.
        job = self.folder.begin({"settings": self.settings}, lambda: [], plan, self.overwrite)
        os.makedirs(self.output, exist_ok=True)
        return job | {"done": [row["shard"] for row in self.folder.rows()]}

    def open(self, threads: int, device: str | None) -> None:
        """Takes the worker's device."""
        self._place = (device, threads)

    def run(self, shard: int) -> dict[str, Any]:
        """Renders the clips of one range."""
        job = self.folder.job()
        assert job is not None
        return _melisma._clips(self.output, self.settings, (shard, job["shards"]), self._place, self.overwrite)

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Nothing is left to do."""
        return {"output": self.output}
