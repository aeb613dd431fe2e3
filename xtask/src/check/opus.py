"""Decodes Opus that opusenc writes, of every mode, bandwidth, frame length and number of channels, and
compares the samples with those of opusdec; and the same packets in WebM, also where some of them are lost.

usage: opus.py MELISMA CONVERT FOLDER
"""

import ctypes
import itertools
import os
import struct
import subprocess
import sys

import numpy as np

MELISMA, CONVERT, FOLDER = sys.argv[1:]
RATE = 48000
# That of opus-tools; the files lose packets of our choice.
OPUS = ctypes.CDLL("libopus.so.0")
OPUS.opus_decoder_create.restype = ctypes.c_void_p
# The most steps of 16 bits that a sample may differ, after both have rounded it.
LIMIT = 2
# The least ratio of the signal to the difference, in dB.
LEAST_DB = 90.0
# The same with pauses that are not sent, and after packets that are lost. The standard leaves open what is heard then;
# libopus 1.4 made it softer, which ours follows, and Debian has 1.3.1.
PAUSES = (64, 45.0)
# The least ratio in dB in place of lost packets, where silence would have 0.
LOST_DB = 10.0
FRAMES = ["2.5", "5", "10", "20", "40", "60"]
# The values of libopus's OPUS_SET_MAX_BANDWIDTH, control 4004.
BANDWIDTHS = {"4 kHz": 1101, "6 kHz": 1102, "8 kHz": 1103, "12 kHz": 1104, "20 kHz": 1105}
# Bits per second and channel, and what opusenc is told about the signal.
TARGETS = [("8", "--speech"), ("16", "--speech"), ("32", "--speech"), ("64", "--music"), ("160", "--music")]
MODES = ["SILK"] * 12 + ["hybrid"] * 4 + ["CELT"] * 16


def run(*command):
    """Runs a command; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)


def read(path):
    """The frames of a WAV file, which may be extensible: `wave` of Python 3.11 does not read those."""
    data = open(path, "rb").read()
    n_channels, rate = struct.unpack_from("<HI", data, 22)
    assert rate == RATE, path
    start = data.index(b"data", 36) + 8
    return np.frombuffer(data[start:], "<i2").reshape(-1, n_channels).astype(int)


def packets(path):
    """The packets of an Ogg file with one stream, the first two of which are headers."""
    data, found, packet, at = open(path, "rb").read(), [], b"", 0
    while at < len(data):
        lengths = data[at + 27 : at + 27 + data[at + 26]]
        at += 27 + len(lengths)
        for length in lengths:
            packet += data[at : at + length]
            at += length
            if length < 255:
                found.append(packet)
                packet = b""
    return found


def sources():
    """Four seconds of speech and of music with one, two and six channels, and speech with pauses.

    At half the loudness: opusdec bends what is beyond 16 bits, and we leave it to the caller.
    """
    text = "The quick brown fox jumps over the lazy dog near the river bank, and nobody hears it."
    run("espeak-ng", "-v", "en-us", "-w", "raw.wav", text)
    half = ["-af", "volume=0.5", "-t", "4", "-ar", str(RATE)]
    run("ffmpeg", "-v", "error", "-y", "-i", "raw.wav", *half, "-ac", "1", "speech1.wav")
    run(MELISMA, "-q", "synth", "preset:focus", "--seconds", "4", "-o", "synth.wav")
    run("ffmpeg", "-v", "error", "-y", "-i", "synth.wav", *half, "-ac", "2", "music2.wav")
    run("ffmpeg", "-v", "error", "-y", "-i", "music2.wav", "-ac", "1", "music1.wav")
    pan = "asplit=2[a][b];[a]volume=0.7[a];[a][b]join=inputs=2:channel_layout=stereo"
    run("ffmpeg", "-v", "error", "-y", "-i", "speech1.wav", "-filter_complex", pan, "speech2.wav")
    six = "join=inputs=3:channel_layout=5.1"
    inputs = ["-i", "music2.wav", "-i", "speech2.wav", "-i", "music2.wav"]
    run("ffmpeg", "-v", "error", "-y", *inputs, "-filter_complex", six, "music6.wav")
    run("ffmpeg", "-v", "error", "-y", *inputs, "-filter_complex", six, "speech6.wav")
    pause = "volume=0:enable='between(t,1,3)'"
    run("ffmpeg", "-v", "error", "-y", "-i", "speech1.wav", "-af", pause, "-ar", str(RATE), "pauses1.wav")


def compare(path):
    """The `distance` of our samples of a file from those of opusdec."""
    run("opusdec", "--quiet", "--no-dither", "--rate", str(RATE), path, "theirs.wav")
    run(CONVERT, path, "ours.wav")
    theirs, ours = read("theirs.wav"), read("ours.wav")
    assert ours.shape == theirs.shape, f"{path}: {ours.shape} samples, not {theirs.shape}"
    return distance(ours, theirs)


def distance(ours, theirs):
    """The largest difference in steps, and the ratio of signal to difference in dB."""
    noise = np.mean((ours - theirs) ** 2.0)
    db = 10 * np.log10(np.mean(theirs**2.0) / noise) if noise else np.inf
    return np.abs(ours - theirs).max(), db


def concealed(head, sent, lost):
    """What libopus makes of packets, of which those in `lost` did not arrive."""
    n_channels, error = head[9], ctypes.c_int()
    decoder = ctypes.c_void_p(OPUS.opus_decoder_create(RATE, n_channels, ctypes.byref(error)))
    samples = []
    for index, packet in enumerate(sent):
        n_frame = OPUS.opus_packet_get_samples_per_frame(packet, RATE)
        n_packet = OPUS.opus_packet_get_nb_samples(packet, len(packet), RATE)
        # Lost frames are concealed one by one.
        pieces = [(None, 0, n_frame)] * (n_packet // n_frame) if index in lost else [(packet, len(packet), n_packet)]
        for data, size, n in pieces:
            piece = np.zeros((n, n_channels), np.float32)
            done = OPUS.opus_decode_float(decoder, data, size, piece.ctypes.data_as(ctypes.c_void_p), n, 0)
            assert done == n, (index, done)
            samples.append(piece)
    OPUS.opus_decoder_destroy(decoder)
    return np.clip(np.rint(np.concatenate(samples) * 32768), -32768, 32767)


def lose(path):
    """Loses up to three loud packets, 60 ms at most, on the way into WebM: the ratio in their place, and the `distance`
    of the second half."""
    head, _, *sent = packets(path)
    pre_skip = struct.unpack_from("<H", head, 10)[0]
    n = OPUS.opus_packet_get_nb_samples(sent[0], len(sent[0]), RATE)
    n_lost = min(3, RATE * 60 // 1000 // n)
    whole = concealed(head, sent, ())
    power = [np.sum(whole[index * n : (index + n_lost) * n] ** 2) for index in range(len(sent) // 3)]
    first = max(range(len(sent) // 8, len(sent) // 3), key=power.__getitem__)
    lost = range(first, first + n_lost)
    drop = "+".join(f"eq(n\\,{index})" for index in lost)
    run("ffmpeg", "-v", "error", "-y", "-i", path, "-c:a", "copy", "-bsf:a", f"noise=drop={drop}", "lost.webm")
    run(CONVERT, "lost.webm", "lost.wav")
    ours, theirs = read("lost.wav"), concealed(head, sent, lost)[pre_skip:]
    assert 0 <= len(theirs) - len(ours) < n, f"{path}: {len(ours)} of {len(theirs)} samples"
    place, rest = slice(first * n - pre_skip, (first + n_lost) * n - pre_skip), slice(len(ours) // 2, len(ours))
    return distance(ours[place], theirs[place])[1], *distance(ours[rest], theirs[rest])


os.chdir(FOLDER)
sources()
cases = [
    (f"{kind[2:]}{channels}.wav", ["--bitrate", str(int(rate) * channels), kind, "--framesize", frame])
    for channels, frame, (rate, kind) in itertools.product((1, 2, 6), FRAMES, TARGETS)
]
cases += [
    (f"{kind[2:]}{channels}.wav", ["--bitrate", rate, kind, "--set-ctl-int", f"4004={bandwidth}"])
    for channels, bandwidth, (rate, kind) in itertools.product((1, 2), BANDWIDTHS.values(), TARGETS)
]
# Packets that are not sent in silence; redundancy for lost packets; constant bit rate.
cases += [
    ("pauses1.wav", ["--bitrate", rate, "--speech", "--set-ctl-int", "4016=1", "--framesize", frame])
    for rate, frame in itertools.product(("8", "16", "32"), ("20", "60"))
]
cases += [("speech2.wav", ["--bitrate", rate, "--expect-loss", "20"]) for rate in ("24", "48")]
cases += [("music2.wav", ["--bitrate", rate, "--hard-cbr"]) for rate in ("24", "64", "128")]
seen, worst, least, losses, failed = {}, {}, {}, [], False
for source, options in cases:
    run("opusenc", "--quiet", *options, source, "x.opus")
    steps, db = compare("x.opus")
    for packet in packets("x.opus")[2:]:
        mode = MODES[packet[0] >> 3]
        seen[mode] = seen.get(mode, 0) + 1
    kind = "with pauses" if source == "pauses1.wav" else "all sent"
    most, low = PAUSES if kind == "with pauses" else (LIMIT, LEAST_DB)
    if steps > most or db < low:
        print(f"{source} {' '.join(options)}: {steps} steps, {db:.1f} dB")
        failed = True
    worst[kind], least[kind] = max(worst.get(kind, 0), steps), min(least.get(kind, np.inf), db)
    run("ffmpeg", "-v", "error", "-y", "-i", "x.opus", "-c:a", "copy", "x.webm")
    run(CONVERT, "x.webm", "webm.wav")
    assert np.array_equal(read("webm.wav"), read("ours.wav")), f"{source} {options}: WebM differs"
    if source not in ("music6.wav", "speech6.wav", "pauses1.wav"):
        concealed_db, steps, db = lose("x.opus")
        if concealed_db < LOST_DB or steps > PAUSES[0] or db < PAUSES[1]:
            print(f"{source} {' '.join(options)}, packets lost: {concealed_db:.1f} dB, then {steps} steps, {db:.1f} dB")
            failed = True
        losses.append(concealed_db)
assert len(seen) == 3, f"modes: {seen}"
print(f"opus: {len(cases)} files, packets {seen}")
for kind in worst:
    print(f"opus, {kind}: at most {worst[kind]} steps of 16 bits from libopus, {least[kind]:.1f} dB or more")
print(f"opus, lost packets: {len(losses)} files, {min(losses):.1f} dB or more in their place")
sys.exit("further from libopus" if failed else 0)
