"""Models of the Hugging Face Hub."""

import errno
import os
import re

from ._array import optional
from ._error import MelismaImportError, of_kind

#: The files that a model may have, as `melisma.snac` finds them in a folder. A packed file that is not named like one
#: is not among them, because a repository may have other weights.
FILES = ["config.json", "model.safetensors", "*.packed.safetensors", "pytorch_model.bin"]
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def resolve(path: str, revision: str | None) -> str:
    """Returns the folder of a model: `path` itself, or that of the Hub's cache if `path` is a name there and no file here."""
    if not _NAME.fullmatch(path) or os.path.exists(path):
        return path
    try:
        hub = optional("huggingface_hub")
    except MelismaImportError as error:
        message = f"{path}: no such folder, and huggingface_hub, which could download it, is not installed"
        raise MelismaImportError(error.kind, message, error.hint) from None
    try:
        folder: str = hub.snapshot_download(path, revision=revision, allow_patterns=FILES)
    except (OSError, ValueError) as error:
        message = f"{path}: no such folder, and the Hugging Face Hub does not give it: {_first_line(error)}"
        hint = "check the name and the network, or download the model elsewhere and give its folder"
        raise of_kind("io", message, hint, errno.ENOENT) from error
    return folder


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
