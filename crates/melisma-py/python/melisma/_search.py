"""The report of a search for the best engine."""

import dataclasses
from typing import Any, Literal, TypeAlias

from . import _report

Precision: TypeAlias = Literal["fp32", "fp16", "int8", "auto"]
Objective: TypeAlias = Literal["p50", "p99", "memory", "first"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Report(_report.Report):
    """What `optimize` found. It is also a mapping with these keys, those of `melisma optimize --json`.

    Args:
        inputs: A dict for each input, with `name` and `shape`.
        engine: The best engine.
        engine_version: Its version.
        precision: Its precision.
        threads: Its threads; 0 if it chooses them.
        chunk: The length of its chunks, or None if inputs are not cut.
        latency_seconds: Percentiles of the time of a run: `p50`, `p90`, `p99`, `min`, and the number of `runs`.
        first_result_seconds: From opening the model to its first result.
        memory_bytes: What it `allocated`, which a memory limit counts; the `program` itself beside it; the `peak` of both.
        accuracy: `max_abs`, `relative` and `cosine` against the `reference`, and whether that is `independent`.
        input_values: How the values of each input were made: `name`, `source` and `description`.
        evidence: What the result rests on: inputs that were `given`, `generated` ones, or `degenerate` outputs.
        degenerate: What is wrong with the outputs of generated inputs, or None.
        model_bytes: The size of the model `before` and `after`.
        candidates: Every engine that was tried.
        operators: Where the time of a run goes.
        operators_missing: Why there are none.
        other_operators: The same for the other engines, each with `engine`, `operators` and `missing`.
        objective: What the engine is best at.
        comparison: The default that the engine is compared with, its figures, the `ratio`, whether that is
            `beyond_spread`, and the `answer` in one line.
        advice: What would make it faster.
        cache: The `key` of the entry, whether it was a `hit`, its `path`, and the `reason` if it was not.
    """

    inputs: list[dict[str, Any]]
    engine: str
    engine_version: str
    precision: str
    threads: int
    chunk: int | None
    latency_seconds: dict[str, Any]
    first_result_seconds: float
    memory_bytes: dict[str, Any]
    accuracy: dict[str, Any]
    input_values: list[dict[str, Any]]
    evidence: str
    degenerate: str | None
    model_bytes: dict[str, int]
    candidates: list[dict[str, Any]]
    operators: list[dict[str, Any]]
    operators_missing: str | None
    other_operators: list[dict[str, Any]]
    objective: str
    comparison: dict[str, Any]
    advice: list[str]
    cache: dict[str, Any]
