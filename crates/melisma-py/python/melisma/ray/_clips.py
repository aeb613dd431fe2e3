"""Clips of a preset as a job: a shard is a range of them."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import melisma
from melisma import _melisma

from .._array import value_error
from . import _shards
from ._cluster import Needs
from ._folder import Folder, Plan, remove, stamp, stem

#: Clips of a shard where the caller does not say how many shards there are.
CLIPS_PER_SHARD = 256
#: What a job that does not ask for it does not name.
NONE = {"soundfont": None, "changes": None}
#: Seconds of the clip that checks the settings, and of the longest one.
TRIAL_S, LONGEST_S = 0.02, 86_400


class Clips:
    """The work of `clips`."""

    def __init__(self, output: str, settings: dict[str, Any], shards: int | None, overwrite: bool) -> None:
        self.output, self.settings, self.shards, self.overwrite = output, settings, shards, overwrite
        self.folder = Folder(f"{output}.shards")
        self._version = melisma.__version__
        self._place: tuple[str | None, int] = (None, 1)

    def needs(self) -> Needs:
        """Returns the needs: the files of the preset and the SoundFont, and room beside the folder of clips."""
        return Needs(self._version, tuple(self._reads()), (os.path.dirname(self.output),))

    def _reads(self) -> list[str]:
        preset, font = self.settings["preset"], self.settings.get("soundfont")
        return [*([preset] if is_file(preset) else []), *([] if font is None else [font])]

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Decides the ranges once. Ranges with a clip that changed since it was made are made again."""
        count = self.settings["count"]
        before = self.folder.job()
        if before is not None and not os.path.isdir(self.output):
            self.folder.empty()

        def plan() -> Plan:
            check(self.settings)
            return {"shards": _shards.choose(self.shards, n_workers, count, CLIPS_PER_SHARD)}, lambda: None

        # Clips that are there are checked against their labels, so a folder of them is never refused.
        asked = {"settings": self.settings} | {f"file {path}": stamp([path]) for path in self._reads()}
        job = self.folder.begin(asked, [], plan, self.overwrite)
        _shards.check(self.folder, job, self.shards, count)
        os.makedirs(self.output, exist_ok=True)
        if before is not None and self.overwrite:
            self._remove_from(count, before["asked"].get("settings", {}).get("count", 0))
        rows = self.folder.rows().items()
        done = [shard for shard, row in rows if row.get("stamp") == stamp(self._files(shard, job["shards"]))]
        return job | {"done": done}

    def _remove_from(self, first: int, end: int) -> None:
        for path in self._names(range(first, end)):
            remove(path)

    def _files(self, shard: int, shards: int) -> Iterable[str]:
        count = self.settings["count"]
        return self._names(range(count * shard // shards, count * (shard + 1) // shards))

    def _names(self, clips: range) -> Iterable[str]:
        return (os.path.join(self.output, f"clip_{clip:06}.{kind}") for clip in clips for kind in ("wav", "json"))

    def open(self, threads: int, device: str | None) -> None:
        """Takes the worker's device."""
        self._place = (device, threads)

    def run(self, shard: int) -> dict[str, Any]:
        """Renders the clips of one range."""
        job = self.folder.job()
        assert job is not None
        # A range with a row has clips of this job; some were damaged since.
        overwrite = self.overwrite or self.folder.read(f"{stem(shard)}.json") is not None
        row = _melisma._clips(self.output, NONE | self.settings, (shard, job["shards"]), self._place, overwrite)
        return row | {"stamp": stamp(self._files(shard, job["shards"]))}

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Does nothing: no clips are left."""
        return {"output": self.output}


def is_file(preset: str) -> bool:
    """Returns whether a preset is a file and not a name."""
    return os.path.splitext(preset)[1].lower() in (".yaml", ".yml")


def check(settings: dict[str, Any]) -> None:
    """Fails as rendering clips with these settings does."""
    if settings["seconds"] > LONGEST_S:
        raise value_error(f"seconds is {settings['seconds']}", "a day is the longest clip")
    trial = NONE | settings | {"count": 1, "seconds": min(settings["seconds"], TRIAL_S)}
    with tempfile.TemporaryDirectory() as folder:
        _melisma._clips(folder, trial, (0, 1), ("cpu", 1), False)
