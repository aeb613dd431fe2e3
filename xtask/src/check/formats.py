"""Encodes 100 clips of speech and music as MP3 and Opus, decodes each with two independent decoders,
and compares length and log-mel distance with files of LAME and libopus of the same size.

usage: formats.py MELISMA CONVERT FOLDER
"""

import os
import subprocess
import sys
import wave

import numpy as np

MELISMA, CONVERT, FOLDER = sys.argv[1:]
TEXTS = [
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "She sells sea shells; Peter Piper picked a peck of pickled peppers.",
    "Numbers such as forty two, nine hundred and seventy, and a million.",
    "Quietly the old machine hums while rain falls upon the tin roof.",
    "Every good recording begins with a silence that nobody hears.",
]
VOICES = ["en-us", "en-gb", "de", "fr", "es", "it"]
# The worst that the mean distance may be, as a multiple of the peer's at the same size.
LIMIT = 1.1


def run(*command):
    """Runs a command and returns what it said on stderr; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
    return done.stderr.strip()


def read(path):
    with wave.open(path) as file:
        raw = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return file.getframerate(), raw.reshape(-1, file.getnchannels()) / 32768.0


def log_mel(samples, rate, size=1024, hop=256, n_mels=80):
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, n_mels + 2) / 2595) - 1)
    hz = np.arange(size // 2 + 1)[:, None] * rate / size
    rising = (hz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hz) / (edges[2:] - edges[1:-1])
    return np.log10(np.maximum(power @ np.maximum(0, np.minimum(rising, falling)), 1e-10))


def distance(original, decoded):
    rate, x = read(original)
    _, y = read(decoded)
    n = min(len(x), len(y))
    return np.mean([np.abs(log_mel(x[:n, c], rate) - log_mel(y[:n, c], rate)).mean() for c in range(x.shape[1])])


def clips():
    names = []
    for text in TEXTS:
        for voice in VOICES:
            for speed in (150, 190):
                name = f"speech{len(names)}"
                run("espeak-ng", "-v", voice, "-s", str(speed), "-w", "raw.wav", text)
                run("ffmpeg", "-v", "error", "-y", "-i", "raw.wav", "-ar", "24000", name + ".wav")
                names.append(name)
    for number in range(40):
        name = f"music{number}"
        preset = ["focus", "meditation", "sleep", "bright"][number % 4]
        run(MELISMA, "-q", "synth", f"preset:{preset}", "--seed", str(number), "--seconds", "4", "-o", name + ".wav")
        names.append(name)
    return names


def ours(name, suffix):
    """Our file, checked by two decoders; its distance and its size in kbit/s."""
    rate, samples = read(name + ".wav")
    path = f"{name}.{suffix}"
    run(CONVERT, name + ".wav", path)
    said = run("ffmpeg", "-v", "warning", "-y", "-i", path, "-ar", str(rate), "-c:a", "pcm_s16le", "a.wav")
    if suffix == "mp3":
        said += run("mpg123", "-q", "-r", str(rate), "-w", "b.wav", path)
    else:
        said += run("opusdec", "--quiet", "--rate", str(rate), path, "b.wav")
    assert not said, f"{path}: {said}"
    for decoded in ("a.wav", "b.wav"):
        _, back = read(decoded)
        assert abs(len(back) - len(samples)) <= 1, f"{path}: {len(back)} samples, not {len(samples)}"
    return distance(name + ".wav", "a.wav"), os.path.getsize(path) * 8 / len(samples) * rate / 1000


def peer(name, suffix, kbits):
    rate, _ = read(name + ".wav")
    path = f"{name}.peer.{suffix}"
    if suffix == "mp3":
        run("lame", "--quiet", "--abr", str(round(kbits)), "--resample", str(rate / 1000), name + ".wav", path)
    else:
        run("opusenc", "--quiet", "--cvbr", "--bitrate", str(kbits), name + ".wav", path)
    run("ffmpeg", "-v", "error", "-y", "-i", path, "-ar", str(rate), "-c:a", "pcm_s16le", "p.wav")
    return distance(name + ".wav", "p.wav")


os.chdir(FOLDER)
names = clips()
assert len(names) == 100
failed = False
for suffix in ("mp3", "opus"):
    for kind in ("speech", "music"):
        rows = [(name, *ours(name, suffix)) for name in names if name.startswith(kind)]
        peers = [peer(name, suffix, kbits) for name, _, kbits in rows]
        mean, beside = np.mean([row[1] for row in rows]), np.mean(peers)
        rate = np.mean([row[2] for row in rows])
        print(f"{suffix} {kind}: {len(rows)} clips, {rate:.0f} kbit/s, log-mel distance {mean:.4f}, peer {beside:.4f}, "
              f"{mean / beside:.2f} of it")
        failed |= mean > LIMIT * beside
sys.exit(f"further than {LIMIT} times the peer" if failed else 0)
