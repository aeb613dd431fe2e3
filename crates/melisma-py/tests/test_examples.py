"""The examples that need nothing but numpy."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import numpy

import melisma
from melisma import snac

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples")


def run(name, *arguments, **options):
    script = os.path.join(EXAMPLES, name)
    return subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True, timeout=600, **options).stdout


class Examples(unittest.TestCase):
    def test_orpheus(self):
        codes = numpy.random.default_rng(0).integers(0, 4096, (12, 7))
        pcm = numpy.frombuffer(run("orpheus.py", input=snac.Encoder().to_text(codes).encode()), "<i2")
        numpy.testing.assert_allclose(pcm / 32768, snac.Decoder().decode(codes), atol=1 / 32768)

    def test_speech_without_openai_s_client(self):
        sys.path.insert(0, EXAMPLES)
        self.addCleanup(sys.path.remove, EXAMPLES)
        import speech

        lines = speech.speak()[:9]
        with speech.stand_in(lines) as upstream, melisma.serve(model="builtin:mini24", upstream=upstream) as server:
            body = json.dumps({"model": "tts-1", "voice": "tara", "input": "Hello!", "response_format": "pcm"})
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{server.url}/v1/audio/speech", body.encode(), headers)
            with urllib.request.urlopen(request, timeout=120) as answer:
                pcm = numpy.frombuffer(answer.read(), "<i2")
        samples = numpy.concatenate(list(snac.Decoder().stream().samples(lines)))
        numpy.testing.assert_allclose(pcm / 32768, samples, atol=1 / 32768)

    def test_chords(self):
        with tempfile.TemporaryDirectory() as folder:
            run("chords.py", folder, "3")
            self.assertEqual(len(os.listdir(folder)), 6)
            with open(os.path.join(folder, "0000.json")) as file:
                self.assertEqual(sorted(json.load(file)), ["chord", "instrument", "root"])


if __name__ == "__main__":
    unittest.main()
