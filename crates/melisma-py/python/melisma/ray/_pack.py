"""A sharded checkpoint as a job: each of its files is a shard."""

import os
from collections.abc import Sequence
from typing import Any

import melisma
from melisma import _melisma

from ._cluster import Needs
from ._folder import Folder


class Pack:
    """The work of `pack`."""

    def __init__(self, index: str, tile_size: int | None, overwrite: bool) -> None:
        self.index, self.tile_size, self.overwrite = index, tile_size, overwrite
        self.folder = Folder(f"{index.removesuffix('.index.json')}.packed.shards")
        self._version = melisma.__version__
        self._threads = 1

    def needs(self) -> Needs:
        """The index, and room beside it."""
        return Needs(self._version, (self.index,), (os.path.dirname(self.index),))

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Checks the index against its files."""
        packed_index, files = _melisma._pack_index(self.index)
        targets = [packed_index, *(target for _, target in files)]
        asked = {"index": self.index, "tile_size": self.tile_size}

        def plan() -> dict[str, Any]:
            return {"shards": len(files), "files": files}

        job = self.folder.begin(asked, lambda: targets, plan, self.overwrite)
        done = [row["shard"] for row in self.folder.rows()]
        return job | {"done": [shard for shard in done if os.path.exists(job["files"][shard][1])]}

    def open(self, threads: int, device: str | None) -> None:
        """Files are packed by the CPU."""
        self._threads = threads

    def run(self, shard: int) -> dict[str, Any]:
        """Packs one file, and verifies it."""
        job = self.folder.job()
        assert job is not None
        source, target = job["files"][shard]
        source_bytes, packed_bytes = _melisma._pack_file(source, target, self.tile_size, self._threads)
        return {"source_bytes": source_bytes, "packed_bytes": packed_bytes}

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Writes the index of the packed files."""
        return {"output": _melisma._pack_write_index(self.index)}
