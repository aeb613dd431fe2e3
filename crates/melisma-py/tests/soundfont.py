"""A tiny SoundFont and a MIDI file for it."""

import struct

import numpy

RATE = 32_000


def chunk(name, body):
    return name + struct.pack("<I", len(body)) + body


def listed(name, *chunks):
    return chunk(b"LIST", name + b"".join(chunks))


def record(layout, name, *numbers):
    return struct.pack(f"<20s{layout}", name, *numbers)


def font():
    """A looped tone of 500 Hz at key 60 on every program."""
    tone = (9_000 * numpy.sin(2 * numpy.pi * numpy.arange(64) / 64)).astype("<i2")
    samples = numpy.concatenate([tone, numpy.zeros(46, "<i2")])
    parameters = [
        (b"phdr", record("HHHIII", b"tone", 0, 0, 0, 0, 0, 0) + record("HHHIII", b"EOP", 0, 0, 1, 0, 0, 0)),
        (b"pbag", struct.pack("<4H", 0, 0, 1, 0)), (b"pmod", bytes(10)), (b"pgen", struct.pack("<4H", 41, 0, 0, 0)),
        (b"inst", record("H", b"tone", 0) + record("H", b"EOI", 1)), (b"ibag", struct.pack("<4H", 0, 0, 2, 0)),
        (b"imod", bytes(10)), (b"igen", struct.pack("<6H", 54, 1, 53, 0, 0, 0)),
        (b"shdr", record("5IBbHH", b"tone", 0, 64, 0, 64, RATE, 60, 0, 0, 1) + record("5IBbHH", b"EOS", *[0] * 9)),
    ]
    lists = [
        listed(b"INFO", chunk(b"ifil", struct.pack("<HH", 2, 1))), listed(b"sdta", chunk(b"smpl", samples.tobytes())),
        listed(b"pdta", *[chunk(name, body) for name, body in parameters]),
    ]
    return chunk(b"RIFF", b"sfbk" + b"".join(lists))


def midi():
    """A note of a second on program 40."""
    track = bytes([0, 0xC0, 40, 0, 0x90, 69, 100, 0x60, 0x80, 69, 0, 0, 0xFF, 0x2F, 0])
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, 48) + b"MTrk" + struct.pack(">I", len(track)) + track
