"""Inputs on other file systems, by their URI: each worker fetches the files of its shard, and removes them after it.

pyarrow opens what it knows (`s3://`, `gs://`, `hdfs://`, `file://`); fsspec opens the rest where it is installed.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from melisma import _melisma

from .._array import refuse

#: Bytes that are copied at once.
BLOCK = 1 << 20


class Remote:
    """A folder of another file system, and where its files are staged on every node."""

    def __init__(self, uri: str, scratch: str | None) -> None:
        self.uri = uri
        self.parent = scratch or tempfile.gettempdir()
        self.folder = os.path.join(self.parent, f"melisma-{hashlib.sha256(uri.encode()).hexdigest()[:16]}")

    @staticmethod
    def of(inputs: Sequence[str], scratch: str | None) -> "Remote | None":
        """The remote folder among the inputs, or None if all are local."""
        remote = [place for place in inputs if "://" in place]
        if not remote:
            return None
        if len(inputs) > 1:
            raise refuse(f"{remote[0]} and {len(inputs) - 1} other inputs", "name one remote folder, or local paths only")
        return Remote(remote[0], scratch)

    def list(self) -> _melisma._Inputs:
        """All audio files below the folder, under the paths where they will be staged."""
        from pyarrow.fs import FileSelector, FileType  # type: ignore[import-untyped, import-not-found, unused-ignore]

        files, root = self._open()
        found = files.get_file_info(FileSelector(root, recursive=True))
        names = [os.path.relpath(entry.path, root) for entry in found if entry.type == FileType.File]
        return _melisma._Inputs.within(self.folder, names)

    def _open(self) -> tuple[Any, str]:
        from pyarrow import ArrowInvalid, fs  # type: ignore[import-untyped, import-not-found, unused-ignore]

        try:
            files, root = fs.FileSystem.from_uri(self.uri)
        except (ArrowInvalid, NotImplementedError) as unknown:
            try:
                from fsspec.core import url_to_fs  # type: ignore[import-untyped, import-not-found, unused-ignore]
            except ImportError:
                raise refuse(f"{self.uri}: {unknown}", "install fsspec for more file systems") from None
            opened, root = url_to_fs(self.uri)
            files = fs.PyFileSystem(fs.FSSpecHandler(opened))
        return files, root.rstrip("/")

    @contextmanager
    def staged(self, paths: Sequence[Path], settings: dict[str, Any]) -> Iterator[None]:
        """Fetches files for the time of a build. Files that are gone stay missing, and the build lists them."""
        files, root = self._open()
        wanted = [str(path) for path in paths]
        if settings.get("feature") == "tokens" and settings.get("metadata") is None:
            wanted += [os.path.splitext(path)[0] + ".txt" for path in wanted]
        sources = [f"{root}/{os.path.relpath(path, self.folder)}" for path in wanted]
        there = [(info, path) for info, path in zip(files.get_file_info(sources), wanted, strict=True) if info.is_file]
        needed = sum(info.size or 0 for info, _ in there)
        if shutil.disk_usage(self.parent).free < needed:
            raise refuse(f"{self.parent}: no room for the {needed} bytes of a shard", "use more shards, or another scratch")
        try:
            for info, path in there:
                self._fetch(files, info.path, path)
            yield
        finally:
            for path in wanted:
                Path(path).unlink(missing_ok=True)

    def _fetch(self, files: Any, source: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            with files.open_input_stream(source) as stream, open(target, "wb") as file:
                shutil.copyfileobj(stream, file, BLOCK)
        except FileNotFoundError:
            Path(target).unlink(missing_ok=True)
            return
        # A build resumes only with files of the same time.
        os.utime(target, (0, 0))
