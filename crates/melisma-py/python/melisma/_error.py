"""Exceptions: each is a MelismaError, and the exception of Python that fits its kind."""

import errno


class MelismaError(Exception):
    """What went wrong. `kind` is for programs, the text for people, `hint` says how to fix it where that is known."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.kind = kind
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, tuple[str, str, str | None, int | None]]:
        return of_kind, (self.kind, self.message, self.hint, getattr(self, "errno", None))


class MelismaValueError(MelismaError, ValueError):
    """A wrong value, a damaged file, or a check that failed."""


class MelismaOSError(MelismaError, OSError):
    """The operating system refused."""


class MelismaFileNotFoundError(MelismaOSError, FileNotFoundError):
    """A file or folder does not exist."""


class MelismaPermissionError(MelismaOSError, PermissionError):
    """A file or folder may not be used."""


class MelismaMemoryError(MelismaError, MemoryError):
    """The memory limit refused, or an allocation failed."""


class MelismaRuntimeError(MelismaError, RuntimeError):
    """A request that this build, this machine or this kind of input does not allow."""


_CLASSES = {
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
    made = _CLASSES.get(kind, MelismaValueError)
    if made is not MelismaOSError:
        return made(kind, message, hint)
    error = _OS_CLASSES.get(code or 0, MelismaOSError)(kind, message, hint)
    error.errno = code
    return error
