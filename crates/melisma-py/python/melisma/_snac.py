"""The class `SNAC` of the `snac` package, over the codec of this one."""

from collections.abc import Sequence
from typing import Any, Self, TypeAlias, overload

import numpy
import numpy.typing as npt

from . import _hub, _melisma
from ._array import ArrayLike, Floats, Integers, TorchT, as_numpy, floats, integers, like, value_error
from ._path import StrPath, path_of

Codes: TypeAlias = ArrayLike
"""Frames [n, slots], or a sequence with one array [n] or [1, n] for each level."""


def as_codes(codes: Codes) -> Integers | list[Integers]:
    """Returns the codes as the native part takes them: frames with two axes, or levels with one each."""
    if isinstance(codes, list | tuple):
        if len(codes) == 0:
            raise value_error("codes need at least one level", "give frames [n, slots], or one array for each level")
        levels = [integers(level, f"level {index}") for index, level in enumerate(codes)]
        for index, level in enumerate(levels):
            if level.ndim not in (1, 2) or (level.ndim == 2 and level.shape[0] != 1):
                raise value_error(f"level {index} has the shape {level.shape}", "use [n] or [1, n]; a batch is a list of codes")
        return [level.reshape(-1) for level in levels]
    frames = integers(codes)
    if frames.ndim != 2:
        raise value_error(f"codes of shape {frames.shape} are not supported", "use frames [n, slots], or one array for each level")
    return frames


class SNAC:
    """The interface of the class of this name in the `snac` package: batches [B, 1, T] of samples, codes [B, n] a level.

    Torch tensors give torch tensors on their device, and arrays give arrays.

    Args:
        path: `builtin:mini24`, a folder with `config.json` and weights, or a file of weights beside `config.json`.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the settings.
        noise: The seed of the decoder's noise, or None for none.
    """

    def __init__(self, path: StrPath, *, device: str | None = None, noise: int | None = 0) -> None:
        self._path, self._device, self._noise = path_of(path), device, noise
        self._codec = _melisma.Codec(self._path, device=device)

    @classmethod
    def from_pretrained(
        cls, path: StrPath, *, revision: str | None = None, device: str | None = None, noise: int | None = 0
    ) -> Self:
        """Opens a model.

        Args:
            path: As for the class, or the name of a model on the Hugging Face Hub, such as `hubertsiuzdak/snac_24khz`,
                which `huggingface_hub` finds in its cache or downloads.
            revision: The branch, tag or commit of a model on the Hub.
            device: As for the class.
            noise: As for the class.

        Returns:
            The model.
        """
        return cls(_hub.resolve(path_of(path), revision), device=device, noise=noise)

    @property
    def sampling_rate(self) -> int:
        """Samples per second."""
        return self._codec.sample_rate

    def eval(self) -> Self:
        """Does nothing; the model has inference mode only.

        Returns:
            The model.
        """
        return self

    def train(self, mode: bool = True) -> Self:
        """Does nothing; the model has inference mode only.

        Args:
            mode: Ignored.

        Returns:
            The model.
        """
        return self

    def float(self) -> Self:
        """Does nothing: samples are float32.

        Returns:
            The model.
        """
        return self

    def to(self, device: object) -> Self:
        """Moves the model to another device.

        Args:
            device: `cpu`, `cuda` or `cuda:N`.

        Returns:
            The model.
        """
        if str(device) != self._device:
            self._codec = _melisma.Codec(self._path, device=str(device))
            self._device = str(device)
        return self

    def cpu(self) -> Self:
        """Moves the model to the CPU.

        Returns:
            The model.
        """
        return self.to("cpu")

    def cuda(self, device: int = 0) -> Self:
        """Moves the model to a GPU.

        Args:
            device: The number of the GPU.

        Returns:
            The model.
        """
        return self.to(f"cuda:{device}")

    @property
    def codebook_size(self) -> int:
        """Codes of a level are below this."""
        return self._codec.codebook_size

    @property
    def hop_length(self) -> int:
        """Samples for each code of the finest level."""
        return self._codec.frame_len // max(self._codec.frame_codes)

    @overload
    def encode(self, audio_data: TorchT) -> list[TorchT]: ...
    @overload
    def encode(self, audio_data: ArrayLike) -> list[npt.NDArray[numpy.int64]]: ...
    def encode(self, audio_data: ArrayLike) -> list[Any]:
        """Encodes a batch.

        Args:
            audio_data: Samples [B, 1, T].

        Returns:
            Codes, int64 [B, n] for each level.
        """
        batch = floats(audio_data)
        if batch.ndim != 3 or batch.shape[1] != 1:
            raise value_error(f"audio of shape {batch.shape}", "use [batch, 1, samples]")
        clips = self._codec._encode(list(batch[:, 0]))
        levels = zip(*clips, strict=True)
        return [like(audio_data, numpy.stack(level).astype(numpy.int64)) for level in levels]

    @overload
    def decode(self, codes: Sequence[TorchT]) -> TorchT: ...
    @overload
    def decode(self, codes: Sequence[ArrayLike]) -> Floats: ...
    def decode(self, codes: Sequence[ArrayLike]) -> Any:
        """Decodes a batch.

        Args:
            codes: Codes [B, n] for each level.

        Returns:
            Samples [B, 1, T].
        """
        levels = [integers(level, f"level {index}") for index, level in enumerate(codes)]
        if not levels or any(level.ndim != 2 or len(level) != len(levels[0]) for level in levels):
            shapes = [level.shape for level in levels]
            raise value_error(f"codes of shapes {shapes} are not supported", "use one array [batch, n] for each level")
        clips = [as_codes([level[item] for level in levels]) for item in range(len(levels[0]))]
        samples = self._codec._decode(clips, self._noise, None)
        return like(codes[0], numpy.stack(samples)[:, None])

    @overload
    def forward(self, audio_data: TorchT) -> tuple[TorchT, list[TorchT]]: ...
    @overload
    def forward(self, audio_data: ArrayLike) -> tuple[Floats, list[npt.NDArray[numpy.int64]]]: ...
    def forward(self, audio_data: ArrayLike) -> tuple[Any, list[Any]]:
        """Encodes a batch, and decodes it again.

        Args:
            audio_data: Samples [B, 1, T].

        Returns:
            The decoded samples at the same length, and the codes.
        """
        codes: list[Any] = self.encode(audio_data)
        return self.decode(codes)[..., : as_numpy(audio_data).shape[-1]], codes

    __call__ = forward
