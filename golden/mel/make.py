"""Makes the tones, byte for byte but for the serial number of the Ogg stream and the time in `tone_f64.wav`.

python -m venv venv && venv/bin/pip install numpy==2.4.6 soundfile==0.14.0 && venv/bin/python make.py
"""

import subprocess

import numpy as np
import soundfile

N = 6400
t = np.arange(N) / 16000
# 440 Hz under a Hann window; where there are two channels, the second is half as loud.
tone = (0.4 * np.sin(2 * np.pi * 440 * t) * np.hanning(N)).astype(np.float32)
two = np.stack([tone, tone / 2], axis=1)

for name, samples, format, subtype, endian in [
    ("tone.aiff", tone, "AIFF", "PCM_16", "FILE"),
    ("tone.flac", two, "FLAC", "PCM_16", "FILE"),
    ("tone.mp3", tone, "MP3", "MPEG_LAYER_III", "FILE"),
    ("tone.ogg", two, "OGG", "VORBIS", "FILE"),
    ("tone.w64", tone, "W64", "PCM_24", "FILE"),
    ("tone_alaw.wav", tone, "WAV", "ALAW", "FILE"),
    ("tone_be.wav", tone, "WAV", "PCM_16", "BIG"),
    ("tone_ext.wav", two, "WAVEX", "PCM_24", "FILE"),
    ("tone_f64.wav", tone, "WAV", "DOUBLE", "FILE"),
    ("tone_mulaw.wav", tone, "WAV", "ULAW", "FILE"),
    ("tone_rf64.wav", tone, "RF64", "FLOAT", "FILE"),
    ("tone_u8.wav", tone, "WAV", "PCM_U8", "FILE"),
]:
    soundfile.write(name, samples, 16000, subtype, endian, format)

# FFmpeg 5.1 with LAME 3.100.
for name, codec in [
    ("tone.m4a", ["aac", "-b:a", "48k"]),
    ("tone_alac.m4a", ["alac"]),
    ("tone_lame.mp3", ["libmp3lame", "-b:a", "48k"]),
]:
    exact = ["-fflags", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1"]
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", "tone_rf64.wav", *exact, "-c:a", *codec, name], check=True)
