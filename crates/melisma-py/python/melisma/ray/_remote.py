"""Inputs on other file systems, by the URI of a folder.

pyarrow opens what it knows (`s3://`, `gs://`, `hdfs://`, `file://`); fsspec opens the rest where it is installed.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from melisma import _melisma

from .._array import value_error

#: The folder of remote files in a job's list. Each worker stages them in a folder of its own.
ROOT = "/"


class Remote:
    """A folder of another file system, and the folder on every node below which its files are staged."""

    def __init__(self, uri: str, scratch: str | None) -> None:
        self.uri = uri
        self.parent = scratch or tempfile.gettempdir()

    @staticmethod
    def of(inputs: Sequence[str], scratch: str | None) -> "Remote | None":
        """Returns the remote folder among the inputs, or None if all are local."""
        remote = [place for place in inputs if "://" in place]
        if not remote:
            return None
        if len(inputs) > 1:
            raise value_error(f"{remote[0]} cannot be combined with {len(inputs) - 1} other inputs", "name one remote folder, or local paths only")
        return Remote(remote[0], scratch)

    def list(self) -> tuple[_melisma._Inputs, Sequence[str]]:
        """Returns all audio files below the folder, and what was left out, in words."""
        from pyarrow.fs import FileSelector  # type: ignore[import-untyped, import-not-found, unused-ignore]

        files, root = self.open()
        try:
            found = files.get_file_info(FileSelector(root, recursive=True))
        except FileNotFoundError:
            raise value_error(f"{self.uri}: the folder was not found", "check the URI") from None
        except OSError as error:
            raise value_error(f"{self.uri}: {error}", "check the URI, and that every node may read it") from None
        paths = [path for path in _paths(found) if path is not None]
        skipped = [f"{len(found) - len(paths)} with a name that is not UTF-8"] if len(paths) < len(found) else []
        return _melisma._Inputs.within(ROOT, [os.path.relpath(path, root) for path in paths if path]), skipped

    def open(self) -> tuple[Any, str]:
        """Returns the file system, and the path of the folder in it."""
        from pyarrow import ArrowInvalid, fs  # type: ignore[import-untyped, import-not-found, unused-ignore]

        try:
            files, root = fs.FileSystem.from_uri(self.uri)
        except (ArrowInvalid, NotImplementedError) as unknown:
            try:
                from fsspec.core import url_to_fs  # type: ignore[import-untyped, import-not-found, unused-ignore]
            except ImportError:
                raise value_error(f"{self.uri}: {unknown}", "install fsspec for more file systems") from None
            try:
                opened, root = url_to_fs(self.uri)
            except (ValueError, ImportError) as error:
                raise value_error(f"{self.uri}: {error}", "check the URI") from None
            files = fs.PyFileSystem(fs.FSSpecHandler(opened))
        return files, root.rstrip("/")


def _paths(found: Iterable[Any]) -> Iterator[str | None]:
    """Returns the path of each file; an empty one for folders, and None for names that pyarrow cannot decode."""
    from pyarrow.fs import FileType  # type: ignore[import-untyped, import-not-found, unused-ignore]

    for entry in found:
        try:
            yield entry.path if entry.type == FileType.File else ""
        except UnicodeDecodeError:
            yield None
