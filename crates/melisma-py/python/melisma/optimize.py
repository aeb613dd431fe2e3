"""ONNX models: the fastest engine for this machine, found once and cached.

`optimize` measures the engines; `Session` then runs the model with the best of them, as `onnxruntime.InferenceSession`
does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy.typing as npt

from . import _melisma
from ._array import ArrayLike, as_numpy, mapping, value_error
from ._path import StrPath, path_of
from ._search import Objective, Precision, Report
from ._tensor import Settings, TensorOptimizer

__all__ = ["NodeArg", "Report", "Session", "optimize"]


def optimize(
    path: StrPath,
    inputs: Mapping[str, Sequence[int] | ArrayLike] | None = None,
    *,
    precision: Precision | None = None,
    tolerance: float | None = None,
    engine: str | None = None,
    objective: Objective | None = None,
    calibrate: StrPath | None = None,
    remeasure: bool = False,
    config: Settings | None = None,
) -> Report:
    """Finds the best engine for a model with inputs of these shapes or values, and caches it.

    Args:
        path: The ONNX model.
        inputs: The shape of each input by name, or an array with its values; those whose shape the model fixes may be
            left out. A run prefers an engine that was found with arrays for all inputs.
        precision: The lowest precision that is allowed: "fp32", "fp16", "int8", or "auto"; None is that of the settings.
        tolerance: The largest relative error that is allowed; None is that of the settings.
        engine: The only engine to consider; None considers all.
        objective: What the best engine is best at: "p50", "p99", "memory" or "first"; None is what the profile prefers.
        calibrate: A folder with NAME.npy for each input, or with folders of them, to measure accuracy with.
        remeasure: Whether a cached engine is measured again and replaced.
        config: As for `TensorOptimizer`.

    Returns:
        The engine, its speed and accuracy, and all candidates: the report of `melisma optimize --json`.
    """
    return TensorOptimizer(config).optimize(
        path_of(path),
        mapping(inputs or {}, "inputs"),
        precision=precision,
        tolerance=tolerance,
        engine=engine,
        objective=objective,
        calibrate=calibrate,
        remeasure=remeasure,
    )


class NodeArg(NamedTuple):
    """An input or output of a model.

    Args:
        name: Its name.
        type: Its type, as onnxruntime writes it.
        shape: Its axes, where a variable one is a name or None; None if the model declares no shape.
    """

    name: str
    type: str
    shape: list[int | str | None] | None


class Session(_melisma.Session):
    """A model that stays open, with the best cached engine for each set of input shapes.

    Without a cached engine it runs on the embedded one in FP32; the logger `melisma` says which and why.

    Args:
        path: The ONNX model.
        precision: As for `optimize`.
        tolerance: As for `optimize`.
        engine: As for `optimize`.
        objective: As for `optimize`.
        config: As for `TensorOptimizer`.
    """

    def __new__(
        cls,
        path: StrPath,
        *,
        precision: Precision | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
        objective: Objective | None = None,
        config: Settings | None = None,
    ) -> Self:
        optimizer = TensorOptimizer(config)
        return super().__new__(
            cls,
            path_of(path),
            optimizer,
            precision=precision,
            tolerance=tolerance,
            engine=engine,
            objective=objective,
        )

    def get_inputs(self) -> list[NodeArg]:
        """Returns the inputs of the model.

        Returns:
            Name, type and shape of each.
        """
        return [NodeArg(*port) for port in self._inputs()]

    def get_outputs(self) -> list[NodeArg]:
        """Returns the outputs of the model.

        Returns:
            Name, type and shape of each.
        """
        return [NodeArg(*port) for port in self._outputs()]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike]
    ) -> list[npt.NDArray[Any]]:
        """Runs the model.

        Args:
            output_names: The outputs to return, or None for all.
            input_feed: The inputs by name.

        Returns:
            The outputs, in the order of `output_names`.
        """
        found = self._run({name: as_numpy(value) for name, value in mapping(input_feed, "input_feed").items()})
        if output_names is None:
            return list(found.values())
        if isinstance(output_names, str):
            raise value_error(f"output_names is the str {output_names!r}", "use a list of names, or None for all outputs")
        unknown = [name for name in output_names if name not in found]
        if unknown:
            raise value_error(f"unknown output `{unknown[0]}`", f"the outputs are {', '.join(found)}")
        return [found[name] for name in output_names]

    def time(self, input_feed: Mapping[str, ArrayLike], repeat: int = 100) -> dict[str, Any]:
        """Runs the model several times on the same inputs.

        Args:
            input_feed: The inputs by name.
            repeat: How many runs are timed, after the first run with inputs of these shapes.

        Returns:
            The engine as `melisma run --json` has it, and `times`: `first_seconds`, and `latency_seconds` with `p50`,
            `p90`, `p99`, `min` and `runs`.
        """
        return self._time({name: as_numpy(value) for name, value in mapping(input_feed, "input_feed").items()}, repeat)
