"""Tools for single tensors, of numpy and of torch, and the optimizer of ONNX models."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, overload

import numpy
import numpy.typing as npt

from . import _melisma
from ._array import ArrayLike, TorchT, as_numpy, is_torch, mapping, optional, value_error
from ._melisma import Config
from ._path import StrPath, path_of
from ._search import Objective, Precision, Report

Settings: TypeAlias = dict[str, Any] | Config
_P = ParamSpec("_P")
_R = TypeVar("_R")

_TORCH = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_ALIASES = {"fp32": "float32", "fp16": "float16", **_TORCH}


class TensorOptimizer(_melisma.TensorOptimizer):
    """The tensor tools under one set of settings: device, profile, memory limit and the section `tensor_optimizations`.

    The environment's `MELISMA_*` count as everywhere.

    Args:
        profile: The name of a profile, or in its place what `config` takes; a str that ends in .yaml or .yml is a path.
        config: The path of a YAML file, or settings as a dict or a `Config`.
        memory_limit: Bytes, or text such as "2GiB".

    >>> import numpy
    >>> optimizer = TensorOptimizer({"mixed_precision": True, "memory_efficient": True})
    >>> optimizer.optimize_tensor(numpy.ones((2, 3), "f4"), dtype="float16").dtype
    'f16'
    """

    def __new__(
        cls,
        profile: StrPath | Settings | None = None,
        config: StrPath | Settings | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        if isinstance(profile, str) and not profile.endswith((".yaml", ".yml")):
            return super().__new__(cls, profile, config, memory_limit)
        if profile is not None and config is not None:
            raise value_error("settings are given twice", "give one path, dict or Config")
        return super().__new__(cls, None, config if profile is None else profile, memory_limit)

    @overload
    def optimize_tensor(self, array: TorchT, dtype: Any = None) -> TorchT: ...
    @overload
    def optimize_tensor(self, array: Any, dtype: npt.DTypeLike | None = None) -> _melisma.Tensor: ...
    def optimize_tensor(self, array: Any, dtype: Any = None) -> Any:
        """Converts an array or a tensor.

        Args:
            array: An array, a `Tensor` or a torch tensor.
            dtype: The type, which must hold every value; None is that of the settings, for tensors that it can hold.

        Returns:
            A torch tensor on the same device, detached, if `array` is one; else a `Tensor` under the memory limit.
        """
        if is_torch(array):
            return self._convert(array, dtype)
        return super().optimize_tensor(array, dtype)

    def _convert(self, tensor: Any, dtype: Any) -> Any:
        torch = optional("torch")
        with torch.inference_mode():
            tensor = tensor.detach()
            if dtype is None and not tensor.is_floating_point():
                return tensor
            wanted = self._torch_type(dtype)
            result = tensor.to(wanted)
            if wanted == torch.float16 and bool((torch.isinf(result) & torch.isfinite(tensor)).any()):
                if dtype is None:
                    return tensor
                raise value_error("a value does not fit float16", "use dtype=\"bfloat16\" or \"float32\"")
        return result

    def _torch_type(self, dtype: Any) -> Any:
        torch = optional("torch")
        if isinstance(dtype, torch.dtype):
            return dtype
        if dtype is None:
            dtype = self.mixed_precision().dtype
        name = dtype if isinstance(dtype, str) else numpy.dtype(dtype).name
        name = _ALIASES.get(name, name)
        if name not in _TORCH.values():
            raise value_error(f"tensors are not converted to the type `{name}`", "use float32, float16 or bfloat16")
        return getattr(torch, name)

    @contextlib.contextmanager
    def mixed_precision_context(self) -> Iterator[_melisma.PrecisionScope]:
        """Opens a scope in which products use the precision of the settings; where torch is imported, also its autocast.

        Returns:
            A context manager that gives the `PrecisionScope`.
        """
        with contextlib.ExitStack() as stack:
            scope = stack.enter_context(self.mixed_precision())
            if "torch" in sys.modules:
                torch = optional("torch")
                lowered = self._torch_type(None)
                is_lower = lowered != torch.float32
                stack.enter_context(torch.inference_mode())
                for kind in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
                    dtype = lowered if is_lower else torch.bfloat16
                    stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=is_lower))
            yield scope

    def optimize(
        self,
        path: StrPath,
        inputs: Mapping[str, Sequence[int] | ArrayLike],
        *,
        precision: Precision | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
        objective: Objective | None = None,
        calibrate: StrPath | None = None,
        remeasure: bool = False,
    ) -> Report:
        """Finds the best engine for an ONNX model with inputs of these shapes or values, and caches it for `run`.

        Args:
            path: The model.
            inputs: The shape of each input by name, or an array with its values; those whose shape the model fixes may be
                left out.
            precision: As for `melisma.optimize.optimize`.
            tolerance: As for `melisma.optimize.optimize`.
            engine: As for `melisma.optimize.optimize`.
            objective: As for `melisma.optimize.optimize`.
            calibrate: As for `melisma.optimize.optimize`.
            remeasure: As for `melisma.optimize.optimize`.

        Returns:
            The report of `melisma optimize --json`.
        """
        terms = {
            "precision": precision,
            "tolerance": tolerance,
            "engine": engine,
            "objective": objective,
            "calibrate": calibrate,
            "remeasure": remeasure,
        }
        given = {name: _shape_or_array(value) for name, value in mapping(inputs, "inputs").items()}
        return Report(**super().optimize(path, given, **terms))  # type: ignore[arg-type]


def _shape_or_array(value: Any) -> list[int] | npt.NDArray[Any]:
    """Returns the shape or the values of an input."""
    is_array = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    return as_numpy(value) if is_array and not isinstance(value, Sequence) else list(value)


@overload
def apply_tensor_optimizations(config: Callable[_P, _R]) -> Callable[_P, _R]: ...
@overload
def apply_tensor_optimizations(
    config: StrPath | Settings | None = None,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def apply_tensor_optimizations(config: Any = None) -> Any:
    """Returns a decorator that converts the arrays and tensors among the arguments by the settings.

    Args:
        config: As for `TensorOptimizer`. Without parentheses, as in `@apply_tensor_optimizations`, it is the function.

    Returns:
        The decorator. What the function returns has the type of the first array or tensor that it was given.

    >>> import numpy
    >>> @apply_tensor_optimizations({"mixed_precision": True, "target_precision": "fp16"})
    ... def double(x):
    ...     assert x.dtype == numpy.float16
    ...     return x + x
    >>> double(numpy.ones(3, "f4"))
    array([2., 2., 2.], dtype=float32)
    """
    if callable(config):
        return apply_tensor_optimizations()(config)
    optimizer = TensorOptimizer(config)

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def optimized(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given = next((value for value in [*args, *kwargs.values()] if _is_tensor(value)), None)
            positional = [_to_precision(optimizer, value) for value in args]
            named = {name: _to_precision(optimizer, value) for name, value in kwargs.items()}
            with optimizer.memory.track(function.__name__), optimizer.mixed_precision_context():
                result = function(*positional, **named)
            returned: _R = _like_input(result, given)
            return returned

        return optimized

    return decorate


def _is_tensor(value: object) -> bool:
    return isinstance(value, numpy.ndarray) or is_torch(value)


def _to_precision(optimizer: TensorOptimizer, value: Any) -> Any:
    if is_torch(value):
        return optimizer.optimize_tensor(value)
    if isinstance(value, numpy.ndarray) and value.dtype in (numpy.float32, numpy.float16):
        return optimizer.optimize_tensor(value).numpy()
    return value


def _like_input(result: Any, given: Any) -> Any:
    """Arrays of `result` as the type that `given` has."""
    if isinstance(result, tuple | list):
        return type(result)(_like_input(part, given) for part in result)
    if isinstance(result, dict):
        return {key: _like_input(value, given) for key, value in result.items()}
    if given is None or not (_is_tensor(result) or isinstance(result, _melisma.Tensor)):
        return result
    if is_torch(given):
        if not is_torch(result):
            result = optional("torch").from_numpy(numpy.array(result))
        return result.to(given.device, given.dtype if given.is_floating_point() and result.is_floating_point() else None)
    array: npt.NDArray[Any] = numpy.asarray(result) if isinstance(result, _melisma.Tensor) else as_numpy(result)
    return array.astype(given.dtype) if array.dtype.kind == given.dtype.kind == "f" else array


class MemoryTracker(_melisma.MemoryTracker):
    """Memory by named scope, each with its own peak: what this package holds in the process (host, pinned, device), what
    torch's CUDA allocator holds if torch is imported, and the growth of the process itself, where arrays of numpy and
    torch on the CPU appear once their pages are touched.

    Args:
        memory_limit: Bytes, or text such as "2GiB", that the table shows as the limit; None is that of the settings.

    >>> import numpy
    >>> tracker = MemoryTracker()
    >>> with tracker.track("load"):
    ...     loaded = numpy.ones(10_000_000)
    >>> 70e6 < tracker.scopes()["load"]["resident_growth"] < 90e6
    True
    >>> "load" in tracker.get_memory_summary()
    True
    """


class TensorRTOptimizer:
    """Finds the fastest engine for ONNX models: TensorRT where it is installed and the settings allow it, else another.

    Args:
        config: As for `TensorOptimizer`.
    """

    def __init__(self, config: StrPath | Settings | None = None) -> None:
        self._optimizer = TensorOptimizer(config)

    def optimize_onnx(self, path: StrPath, input_shapes: Mapping[str, Sequence[int]]) -> str:
        """Finds the best engine, and caches it for `melisma.optimize.Session`.

        Args:
            path: The model.
            input_shapes: The shape of each input by name.

        Returns:
            The folder of the cached engine.
        """
        report = self._optimizer.optimize(path_of(path), {name: list(shape) for name, shape in mapping(input_shapes, "input_shapes").items()})
        return str(report["cache"]["path"])
