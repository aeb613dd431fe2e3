"""Makes the files with Debian 12's opus-tools 0.2 (libopus 1.3.1) and FFmpeg 5.1.

python make.py
"""

import math
import random
import struct
import subprocess
import wave

RATE = 48000


def voice(n):
    """A gliding hum with breath, of 20 dB more or less."""
    noise, phase = random.Random(7), 0.0
    for i in range(n):
        phase += 2 * math.pi * (110 + 40 * math.sin(i / 9000)) / RATE
        hum = sum(math.sin(k * phase) / k for k in range(1, 30)) / 4
        yield (hum + 0.05 * noise.gauss(0, 1)) * (0.1 + 0.4 * math.sin(i / 4000) ** 2)


def chord(n):
    """Bells that are struck three times a second."""
    for i in range(n):
        decay = math.exp(-(i % 16000) / 5000)
        yield decay * sum(0.12 * math.sin(2 * math.pi * f * i / RATE) for f in (440, 554, 659, 1760, 5274, 9000))


def pauses(n):
    """A voice that is silent in the middle."""
    return [sample if i < n // 4 or i > 3 * n // 4 else 0.0 for i, sample in enumerate(voice(n))]


def write(name, channels):
    with wave.open(name, "wb") as file:
        file.setparams((len(channels), 2, RATE, 0, "NONE", ""))
        frames = zip(*channels)
        file.writeframes(b"".join(struct.pack("<h", round(32767 * sample)) for frame in frames for sample in frame))


def run(*command):
    subprocess.run(command, check=True)


N = 14400
short = 4800
left, right = list(voice(N)), list(chord(N))
write("voice.wav", [left])
write("music.wav", [right, [-sample / 2 for sample in right]])
write("six.wav", [[sample / (k + 1) for sample in (left, right)[k % 2][:short]] for k in range(6)])
write("pauses.wav", [pauses(4 * N)])

# Name, source, and options. Control 4004 limits the bandwidth to 6 or 8 kHz, which leaves SILK alone.
for name, source, *options in [
    ("silk_narrow_60ms", "voice", "--speech", "--bitrate", "6", "--framesize", "60"),
    ("silk_wide_20ms", "voice", "--speech", "--bitrate", "20", "--set-ctl-int", "4004=1103"),
    ("silk_medium_40ms", "music", "--speech", "--bitrate", "24", "--framesize", "40", "--set-ctl-int", "4004=1102"),
    ("hybrid_20ms", "voice", "--speech", "--bitrate", "28"),
    ("hybrid_stereo_10ms", "music", "--speech", "--bitrate", "48", "--framesize", "10"),
    ("celt_20ms", "music", "--music", "--bitrate", "64"),
    ("celt_mono_5ms", "voice", "--music", "--bitrate", "64", "--framesize", "5"),
    ("celt_2.5ms", "music", "--music", "--bitrate", "96", "--framesize", "2.5"),
    ("six", "six", "--bitrate", "160"),
    # Packets of a single byte where nothing is heard.
    ("pauses", "pauses", "--speech", "--bitrate", "16", "--set-ctl-int", "4016=1", "--set-ctl-int", "4004=1103"),
]:
    file = name + ".opus"
    run("opusenc", "--quiet", "--serial", "7", "--padding", "0", *options, source + ".wav", file)
    # The expected samples, from libopus.
    run("opusdec", "--quiet", "--no-dither", "--rate", "48000", file, "decoded.wav")
    exact = ["-fflags", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1"]
    run("ffmpeg", "-v", "error", "-y", "-i", "decoded.wav", *exact, "-compression_level", "12", name + ".flac")

exact = ["-fflags", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1"]
for source, name, *options in [
    ("hybrid_20ms.opus", "hybrid_20ms.webm", "-c:a", "copy"),
    # Lengths that a live writer does not know.
    # With checksums, which WebM has not.
    ("hybrid_20ms.opus", "hybrid_20ms.mka", "-c:a", "copy"),
    ("celt_20ms.opus", "celt_20ms_live.webm", "-c:a", "copy", "-live", "1", "-cluster_time_limit", "100"),
    ("voice.wav", "voice_vorbis.webm", "-c:a", "libvorbis"),
    ("voice.wav", "voice_flac.mka", "-c:a", "flac"),
    ("voice.wav", "voice_pcm.mka", "-c:a", "pcm_s16le"),
    ("voice.wav", "voice_aac.mka", "-c:a", "aac", "-b:a", "64k"),
    ("voice.wav", "voice_mp3.mka", "-c:a", "libmp3lame", "-b:a", "64k"),
    ("celt_20ms.opus", "celt_20ms.mp4", "-c:a", "copy", "-strict", "-2"),
]:
    run("ffmpeg", "-v", "error", "-y", "-i", source, *exact, *options, name)
run("rm", "voice.wav", "music.wav", "six.wav", "pauses.wav", "decoded.wav")
