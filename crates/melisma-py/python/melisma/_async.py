"""Twins of long calls, for `await`: each works on a thread, and ends when its task is cancelled."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from . import _melisma

_P = ParamSpec("_P")
_R = TypeVar("_R")


def twin(call: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """Returns the twin of a call. It is cancelled as a task is: the work ends as after Ctrl-C, and with it the task."""

    @functools.wraps(call)
    async def call_async(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        cancel, claim = _melisma._Cancel(), threading.Lock()
        work = functools.partial(contextvars.copy_context().run, call, *args, **kwargs)

        def begin() -> Any:
            # Whoever takes it first: the thread, or the cancelled task, for which no thread was free yet.
            return cancel.run(work) if claim.acquire(blocking=False) else None

        future = asyncio.get_running_loop().run_in_executor(None, begin)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if claim.acquire(blocking=False):
                future.cancel()
                raise
            cancel.cancel()
            # Nothing works on the arguments any more when the task has ended.
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
            raise

    name = call.__name__
    call_async.__name__ = f"{name}_async"
    call_async.__qualname__ = f"{call.__qualname__}_async"
    said = inspect.cleandoc(call.__doc__ or "").partition("\n")[2]
    call_async.__doc__ = f"As `{name}`, on a thread, for `await`; if the task is cancelled, the work ends.\n{said}"
    del call_async.__wrapped__
    call_async.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
    return call_async
