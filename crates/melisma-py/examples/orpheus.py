"""Decodes what a language model says, while it says it: python orpheus.py [MODEL] < tokens.txt > speech.pcm"""

import sys

from melisma import snac

decoder = snac.Decoder(sys.argv[1] if len(sys.argv) > 1 else "builtin:mini24")
for samples in decoder.stream().samples(iter(lambda: sys.stdin.read(256), "")):
    sys.stdout.buffer.write((samples.clip(-1, 32767 / 32768) * 32768).astype("<i2").tobytes())
