"""The memory of torch's CUDA allocator while a scope is open."""

import sys
import threading
from typing import Any

_TICK_S = 0.005


def _cuda() -> Any:
    """Returns torch.cuda, where torch is imported and has used a GPU."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


class TorchWatch:
    """The most bytes that torch's CUDA allocator holds on all devices, from its making to `peak`.

    torch has one peak for each device, which belongs to the caller and is not reset. A peak that rises meanwhile is exact;
    lower ones are sampled every few milliseconds.
    """

    def __init__(self) -> None:
        self._highest: dict[int, int] = {}
        self._sampled: dict[int, int] = {}
        self._stop, self._sampler = threading.Event(), None
        if (cuda := _cuda()) is None:
            return
        for device in range(cuda.device_count()):
            self._highest[device] = cuda.max_memory_allocated(device)
        self._look(cuda)
        self._sampler = threading.Thread(target=self._sample, args=(cuda,), name="melisma-torch", daemon=True)
        self._sampler.start()

    def _look(self, cuda: Any) -> None:
        for device in range(cuda.device_count()):
            self._sampled[device] = max(self._sampled.get(device, 0), cuda.memory_allocated(device))

    def _sample(self, cuda: Any) -> None:
        while not self._stop.wait(_TICK_S):
            self._look(cuda)

    def peak(self) -> int:
        """Stops, and gives the most bytes."""
        self._stop.set()
        if self._sampler is not None:
            self._sampler.join()
        if (cuda := _cuda()) is None:
            return 0
        self._look(cuda)
        peaks = []
        for device, sampled in self._sampled.items():
            highest = cuda.max_memory_allocated(device)
            peaks.append(highest if highest > self._highest.get(device, 0) else sampled)
        return sum(peaks)
