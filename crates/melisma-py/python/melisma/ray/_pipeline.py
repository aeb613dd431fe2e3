"""Shards through a Ray Data pipeline: shard ids in, rows of a manifest out."""

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import ray  # type: ignore[import-not-found, unused-ignore]

from . import _cluster
from ._cluster import Cluster, Needs, Workers
from ._folder import Folder, stem


class Work(Protocol):
    """One kind of job. It travels to the workers by pickle."""

    folder: Folder

    def needs(self) -> Needs:
        """Returns what every node must have."""

    def prepare(self, n_workers: int) -> dict[str, Any]:
        """Begins or reopens the job on one node; returns at least its `shards`."""

    def open(self, threads: int, device: str | None) -> None:
        """Loads what all shards need, once in each worker."""

    def run(self, shard: int) -> dict[str, Any]:
        """Makes one shard, or resumes it, and returns its row."""

    def finish(self, shards: Sequence[int]) -> dict[str, Any]:
        """Joins the finished shards on one node; returns what the report adds."""


class Worker:
    """One process of the pipeline, with its own device."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.node = _cluster.name()
        self.fault = _cluster.find_fault(work.needs())
        if self.fault is None:
            resources = ray.get_runtime_context().get_assigned_resources()  # type: ignore[no-untyped-call, unused-ignore]
            # Ray shows each worker its own GPU as the first one.
            device = "cuda:0" if resources.get("GPU", 0) > 0 else "cpu"
            try:
                work.open(max(1, int(resources.get("CPU", 1))), device)
            except Exception as error:
                self.fault = f"{type(error).__name__}: {error}"

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard, folder = int(row["shard"]), self.work.folder
        begun = time.monotonic()
        result, message = {}, self.fault
        if message is None:
            try:
                folder.write(f"{stem(shard)}.begun", {"node": self.node})
                result = self.work.run(shard)
                result |= {"node": self.node, "seconds": time.monotonic() - begun}
                folder.write(f"{stem(shard)}.json", result)
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
        return {"shard": shard, "node": self.node, "message": message or "", "rows": int(result.get("rows", 0))}


class Pipeline:
    """Runs shards until each is finished or has failed too often."""

    def __init__(self, work: Work, cluster: Cluster, workers: Workers, retries: int) -> None:
        self.work, self.cluster, self.workers, self.retries = work, cluster, workers, retries
        self.faults: list[dict[str, Any]] = []

    def run(self, shards: Sequence[int]) -> list[int]:
        """Returns the shards that failed on every attempt."""
        attempts: Counter[int] = Counter()
        left, failed = list(shards), []
        while left:
            working: set[str] = set()
            finished: set[int] = set()
            refused: dict[int, str | None] = {}
            for row in self._rows(left):
                if row["message"]:
                    refused[row["shard"]] = row["node"]
                    self._fault(row["node"], row["shard"], row["message"])
                else:
                    working.add(row["node"])
                    finished.add(row["shard"])
            left = [shard for shard in left if shard not in finished]
            for shard in left:
                if shard not in refused:
                    refused[shard] = self._last_node(shard)
            # A node on which several shards fail and none works, while others do, is left out; the shards are not to blame.
            counts = Counter(node for node in refused.values() if node is not None and node not in working)
            broken = {node for node, count in counts.items() if count > 1 and working}
            self.cluster.exclude(broken)
            attempts.update(shard for shard in left if refused[shard] not in broken)
            failed += [shard for shard in left if attempts[shard] > self.retries]
            left = [shard for shard in left if attempts[shard] <= self.retries]
            if left:
                self.cluster.refresh()
        return sorted(failed)

    def _rows(self, shards: Sequence[int]) -> Iterator[dict[str, Any]]:
        context = ray.data.DataContext.get_current()
        before = context.max_errored_blocks
        # A worker that dies takes its shard with it; the next round runs it again.
        context.max_errored_blocks = -1
        try:
            worker_nodes = self.cluster.worker_nodes(self.workers)
            items = ray.data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
            pool = ray.data.ActorPoolStrategy(size=min(len(worker_nodes), len(shards)), max_tasks_in_flight_per_actor=1)
            with warnings.catch_warnings():
                # Ray deprecates arguments of `remote` that it has no other name for yet.
                warnings.simplefilter("ignore")
                rows = items.map(
                    Worker,  # type: ignore[arg-type, unused-ignore]
                    fn_constructor_args=[self.work],
                    compute=pool,
                    num_cpus=self.workers.num_cpus,
                    num_gpus=self.workers.num_gpus or None,
                    label_selector={"ray.io/node-id": f"in({','.join(sorted(set(worker_nodes)))})"},
                    max_restarts=-1,
                    max_task_retries=0,
                )
            yield from rows.iter_rows()
        except ray.exceptions.RayError as error:
            self._fault(None, None, _cluster.first_line(error))
        finally:
            context.max_errored_blocks = before

    def _last_node(self, shard: int) -> str | None:
        node: str | None = self.cluster.run_once(_started_node, self.work.folder, shard)
        # A worker that died before it began the shard has left no trace of its node.
        self._fault(node or f"one of {', '.join(self.cluster.names)}", shard, "the worker or its node died")
        return node

    def _fault(self, node: str | None, shard: int | None, message: str) -> None:
        self.faults.append({"node": node, "shard": None if shard is None else shard + 1, "message": message})


def _started_node(folder: Folder, shard: int) -> str | None:
    return folder.started_node(shard)
