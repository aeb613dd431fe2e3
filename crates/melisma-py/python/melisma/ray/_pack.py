"""A sharded checkpoint as a job: each of its files is a shard."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy

import melisma
from melisma import _melisma, pack

from .._array import value_error
from ._cluster import Needs
from ._folder import Folder, Plan, stamp


class Pack:
    """The work of `pack`."""

    def __init__(self, index: str, tile_size: int | None, overwrite: bool) -> None:
        self.index, self.tile_size, self.overwrite = index, tile_size, overwrite
        self.folder = Folder(f"{index.removesuffix('.index.json')}.packed.shards")
        self._version = melisma.__version__
        self._threads = 1

    def needs(self) -> Needs:
        """Returns the needs: the index, and room beside it."""
        return Needs(self._version, (self.index,), (os.path.dirname(self.index),))

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Checks the index against its files. Files that changed since they were packed are packed again."""
        packed_index, files = _melisma._pack_index(self.index)
        if not files:
            raise value_error(f"{self.index}: the index names no files")
        asked = {"index": self.index, "tile_size": self.tile_size, "files": files}

        def plan() -> Plan:
            check(self.tile_size)
            return {"shards": len(files)}, lambda: None

        job = self.folder.begin(asked, [packed_index, *(target for _, target in files)], plan, self.overwrite)
        rows = self.folder.rows().items()
        return job | {"done": [shard for shard, row in rows if row.get("stamp") == stamp(files[shard])]}

    def open(self, threads: int, device: str | None) -> None:
        """Files are packed by the CPU."""
        self._threads = threads

    def run(self, shard: int) -> dict[str, Any]:
        """Packs one file, and verifies it."""
        job = self.folder.job()
        assert job is not None
        source, target = job["asked"]["files"][shard]
        source_bytes, packed_bytes = _melisma._pack_file(source, target, self.tile_size, self._threads)
        return {"source_bytes": source_bytes, "packed_bytes": packed_bytes, "stamp": stamp([source, target])}

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Writes the index of the packed files."""
        return {"output": _melisma._pack_write_index(self.index)}


def check(tile_size: int | None) -> None:
    """Fails as packing with this tile size does."""
    with tempfile.TemporaryDirectory() as folder:
        pack.save_file({"w": numpy.ones((64, 64), "f4")}, os.path.join(folder, "w.safetensors"), tile_size=tile_size)
