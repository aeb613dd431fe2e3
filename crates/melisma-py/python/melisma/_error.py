"""Exceptions: each is a MelismaError, and the exception of Python that fits its kind."""

import errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class SafetensorError(Exception):
        """What safetensors raises."""

else:
    try:
        from safetensors import SafetensorError
    except ImportError:

        class SafetensorError(Exception):
            """Stands in for the class of safetensors, which is not installed."""


class MelismaError(Exception):
    """What went wrong.

    Args:
        kind: The kind of error, for programs: `invalid_argument`, `exists`, `busy`, `unsupported`, `corrupt`,
            `truncated`, `version`, `device`, `memory`, `io`, `check` or `import`.
        message: What went wrong, for people.
        hint: How to fix it, where that is known.
    """

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.kind = kind
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, tuple[Any, ...]]:
        return of_kind, (self.kind, self.message, self.hint, getattr(self, "errno", None))


class MelismaValueError(MelismaError, ValueError):
    """A wrong value, a damaged file, or a check that failed."""


class MelismaOSError(MelismaError, OSError):
    """The operating system refused."""


class MelismaFileNotFoundError(MelismaOSError, FileNotFoundError):
    """A file or folder does not exist."""


class MelismaPermissionError(MelismaOSError, PermissionError):
    """A file or folder may not be used."""


class MelismaFileExistsError(MelismaOSError, FileExistsError, ValueError):
    """An output exists and may not be replaced."""


class MelismaMemoryError(MelismaError, MemoryError):
    """The memory limit refused, or an allocation failed."""


class MelismaRuntimeError(MelismaError, RuntimeError):
    """A request that this build, this machine or this kind of input does not allow."""


class MelismaImportError(MelismaError, ModuleNotFoundError):
    """A package that is not installed; the hint installs it."""


class MelismaSafetensorError(MelismaValueError, SafetensorError):
    """A file of weights that cannot be read, or a tensor that it lacks; also the `SafetensorError` of safetensors."""

    def __reduce__(self) -> tuple[object, tuple[Any, ...]]:
        return type(self), (self.kind, self.message, self.hint)


_CLASSES = {
    "exists": MelismaFileExistsError,
    "import": MelismaImportError,
    "io": MelismaOSError,
    "memory": MelismaMemoryError,
    "unsupported": MelismaRuntimeError,
    "device": MelismaRuntimeError,
}


_OS_CLASSES = {
    errno.ENOENT: MelismaFileNotFoundError,
    errno.EACCES: MelismaPermissionError,
    errno.EPERM: MelismaPermissionError,
}


def of_kind(kind: str, message: str, hint: str | None, code: int | None = None) -> MelismaError:
    error_class = _CLASSES.get(kind, MelismaValueError)
    if error_class is not MelismaOSError:
        return error_class(kind, message, hint)
    error = _OS_CLASSES.get(code or 0, MelismaOSError)(kind, message, hint)
    error.errno = code
    return error
