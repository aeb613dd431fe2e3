"""What notebooks show of audio: a player, and a spectrogram as a small picture."""

import base64
import html
import struct
import zlib

import numpy
import numpy.typing as npt

from . import _melisma
from ._error import MelismaError

MAX_SECONDS = 30
"""Players hold at most this much of a clip, so that a notebook stays small."""
MAX_COLUMNS = 800
MAX_CHANNELS = 64
MAX_RATE = 768_000


def clip_html(samples: npt.NDArray[numpy.float32], sample_rate: int) -> str:
    """Returns a player of the first seconds, not normalised, and their spectrogram."""
    shown = samples[:, : MAX_SECONDS * sample_rate]
    seconds = samples.shape[1] / sample_rate
    peak = float(numpy.abs(samples).max(initial=0))
    facts = [f"{seconds:.2f} s", f"{sample_rate} Hz", f"{len(samples)} channel{'s' * (len(samples) != 1)}", f"peak {peak:.3f}"]
    if shown.shape[1] < samples.shape[1]:
        facts.append(f"the player has the first {MAX_SECONDS} s")
    if peak > 1:
        facts.append("samples beyond full scale are clipped in the player")
    fits = len(samples) <= MAX_CHANNELS and sample_rate <= MAX_RATE
    if not fits:
        facts.append("no player has so many channels or so high a rate")
    parts = [f"<div><small>{html.escape(', '.join(facts))}</small><br>"]
    if fits:
        player = base64.b64encode(wav(shown, sample_rate)).decode()
        parts.append(f'<audio controls preload="none" src="data:audio/wav;base64,{player}"></audio>')
    picture = spectrogram(shown, sample_rate)
    if picture is not None:
        data = base64.b64encode(png(picture)).decode()
        parts.append(f'<br><img alt="mel spectrogram" src="data:image/png;base64,{data}">')
    return "".join(parts) + "</div>"


def wav(samples: npt.NDArray[numpy.float32], sample_rate: int) -> bytes:
    """Returns 16-bit WAV; samples beyond full scale are clipped."""
    finite = numpy.nan_to_num(samples.T, nan=0, posinf=1, neginf=-1)
    data = (numpy.clip(finite, -1, 32767 / 32768) * 32768).astype("<i2").tobytes()
    channels = len(samples)
    layout = struct.pack("<IHHIIHH", 16, 1, channels, sample_rate, sample_rate * channels * 2, channels * 2, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + layout + b"data" + struct.pack("<I", len(data)) + data


def spectrogram(samples: npt.NDArray[numpy.float32], sample_rate: int) -> npt.NDArray[numpy.uint8] | None:
    """Draws grey values over 80 dB below the loudest, low frequencies at the bottom."""
    mono = samples.mean(axis=0, dtype=numpy.float32)
    hop = max(128, -(-len(mono) // MAX_COLUMNS))
    try:
        values = {"sample_rate": sample_rate, "hop_length": min(hop, 65536), "n_mels": 64}
        decibels = _melisma.Transform("librosa-db", device="cpu", **values)._run(mono)
    except MelismaError:
        return None
    levels = numpy.clip((decibels - decibels.max(initial=0) + 80) / 80, 0, 1)
    grey: npt.NDArray[numpy.uint8] = (255 - levels[::-1] * 255).astype(numpy.uint8)
    return grey


def png(grey: npt.NDArray[numpy.uint8]) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    size = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
