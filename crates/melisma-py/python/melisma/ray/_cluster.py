"""The nodes of a cluster: which of them can work, and the workers on them."""

import itertools
import math
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import ray  # type: ignore[import-not-found, unused-ignore]
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found, unused-ignore]
    NodeAffinitySchedulingStrategy,
)

import melisma

from .._array import value_error
from ._error import JobError
from ._folder import Folder
from ._lock import Lock

#: Free bytes below which a disk counts as full.
LEAST_FREE = 64 << 20
#: Seconds until a node that does not answer is left out.
TIMEOUT_S = 120


@dataclass(frozen=True)
class Workers:
    """What one worker has. The default is one worker with one thread for each core.

    Args:
        num_cpus: Its cores in Ray's counting, and its threads.
        num_gpus: Its GPUs in Ray's counting.
        count: The most workers; None takes all that fit.
    """

    num_cpus: float = 1
    num_gpus: float = 0
    count: int | None = None

    def __post_init__(self) -> None:
        for key in ("num_cpus", "num_gpus"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise value_error(f"{key} is {value!r}", "use a number from 0 on")
        check_int("count", self.count, 1)


def check_int(name: str, value: Any, least: int) -> None:
    """Fails unless `value` is None or a whole number from `least` on."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise value_error(f"{name} is {value!r}", f"use a whole number from {least} on")


def _max_workers(workers: Workers, resources: dict[str, float]) -> int:
    """Returns how many workers a node has room for."""
    asked = {"CPU": workers.num_cpus, "GPU": workers.num_gpus}
    rooms = [int(resources.get(name, 0) // amount) for name, amount in asked.items() if amount > 0]
    return min(rooms, default=1)


@dataclass(frozen=True)
class Needs:
    """What a node must have: these paths to read, and folders with room for results."""

    version: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def find_fault(needs: Needs) -> str | None:
    """Returns why this node cannot work, or None."""
    if melisma.__version__ != needs.version:
        return f"melisma {melisma.__version__} is installed, the driver has {needs.version}"
    for path in needs.reads:
        if not os.path.exists(path):
            return f"{path}: not found on this node; inputs and outputs must be on storage that every node sees"
    for path in needs.writes:
        # A file system without any room, such as /proc, holds no files of ours.
        if not os.path.isdir(path) or not os.access(path, os.W_OK) or shutil.disk_usage(path).total == 0:
            return f"{path}: not a folder that this node can write to"
        if shutil.disk_usage(path).free < LEAST_FREE:
            return f"{path}: the disk is full"
    return None


def name() -> str:
    """This node, as people and Ray's dashboard call it."""
    context = ray.get_runtime_context()
    return f"{socket.gethostname()} ({context.get_node_id()[:8]})"


def _inspect(needs: list[Needs]) -> tuple[str, str | None]:
    return name(), next(filter(None, map(find_fault, needs)), None)


class Cluster:
    """The nodes that can work, and the faults of the others."""

    def __init__(self, needs: Needs) -> None:
        if not ray.is_initialized():
            ray.init()
        self._needs = [needs]
        self._reported: set[str] = set()
        self._left_out: set[str] = set()
        self.nodes: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.faults: list[dict[str, Any]] = []
        self.refresh()

    def require(self, needs: Needs) -> None:
        """Leaves out the nodes that lack something more."""
        self._needs.append(needs)
        self.refresh()

    def exclude(self, names: Iterable[str]) -> None:
        """Uses these nodes no more, by the names that `name` gave them."""
        self._left_out.update(names)

    def refresh(self) -> None:
        """Finds the nodes that are alive now and lack nothing."""
        here = ray.get_runtime_context().get_node_id()
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call, unused-ignore]
        # The driver's node first: what is done once is done there if it can work.
        alive.sort(key=lambda node: (node["NodeID"] != here, node["NodeID"]))
        asked = [(node, on(node["NodeID"], _inspect, self._needs)) for node in alive]
        self.nodes, self.names = [], []
        for node, wait_for in asked:
            try:
                called, fault = ray.get(wait_for, timeout=TIMEOUT_S)
            except ray.exceptions.RayError as error:
                called = f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
                fault = f"melisma cannot be used: {first_line(error)}"
            if fault is None:
                if called not in self._left_out:
                    self.nodes.append(node)
                    self.names.append(called)
            elif node["NodeID"] not in self._reported:
                self._reported.add(node["NodeID"])
                self.faults.append({"node": called, "shard": None, "message": fault})
        if not self.nodes:
            reasons = {fault["message"] for fault in self.faults}
            reason = f": {reasons.pop()}" if len(reasons) == 1 else ""
            raise JobError(f"no node of the cluster can work{reason}", self.faults)

    def worker_nodes(self, workers: Workers) -> list[str]:
        """Returns the node of each worker, one node after the other."""
        each = [[node["NodeID"]] * _max_workers(workers, node["Resources"]) for node in self.nodes]
        worker_nodes = [seat for row in itertools.zip_longest(*each) for seat in row if seat is not None]
        if not worker_nodes:
            asked = f"num_cpus={workers.num_cpus} and num_gpus={workers.num_gpus}"
            raise JobError(f"no node has room for a worker with {asked}", self.faults, "ask for less, or add nodes")
        return worker_nodes[: workers.count]

    def run_once(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function on the first node that is alive, and returns what it returns or raises."""
        for node in self.nodes:
            try:
                return wait_for(on(node["NodeID"], function, *arguments))
            except ray.exceptions.RayError as error:
                last = error
        raise last

    @contextmanager
    def lock(self, folder: Folder) -> Iterator[None]:
        """Holds the lock of a job. Ray ends the process that holds it when the driver dies."""
        owner = f"{socket.gethostname()}, process {os.getpid()}"
        options = {"num_cpus": 0, "scheduling_strategy": _node_affinity(self.nodes[0]["NodeID"])}
        lock = ray.remote(Lock).options(**options).remote(folder, owner)
        try:
            wait_for(lock.take.remote())
            yield
        finally:
            # The lock is gone already if its node is.
            with suppress(ray.exceptions.RayError):
                wait_for(lock.release.remote())
            ray.kill(lock)


def on(node: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on a node; a reference to what it returns."""
    return ray.remote(function).options(num_cpus=0, max_retries=2, scheduling_strategy=_node_affinity(node)).remote(*arguments)


def _node_affinity(node: str) -> Any:
    return NodeAffinitySchedulingStrategy(node, soft=False)


def wait_for(reference: Any) -> Any:
    """Returns what a call returns or raises."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def first_line(error: BaseException) -> str:
    """Returns an exception in one line."""
    cause = getattr(error, "cause", None) or error
    text = str(cause).strip()
    return text.splitlines()[-1] if text else type(cause).__name__
