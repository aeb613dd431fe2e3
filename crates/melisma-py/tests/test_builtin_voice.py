"""The built-in voice: `Speaker()` and `serve()` without an argument."""

import json
import os
import tempfile
import unittest
import urllib.request
import warnings

import numpy

import melisma
import test_tensor  # It clears the environment.
from melisma import snac, speak

TEXT = "Good morning. Who is there?"


def models(server):
    with urllib.request.urlopen(f"{server.url}/v1/models", timeout=120) as answer:
        return json.load(answer)["data"]


class BuiltinVoice(unittest.TestCase):
    def test_it_is_the_default_of_a_speaker(self):
        speech = speak.Speaker(device="cpu").speak(TEXT)
        named = speak.Speaker("builtin:voice", model="builtin:solo24", device="cpu", threads=1).speak(TEXT)
        numpy.testing.assert_array_equal(speech.samples, named.samples)
        self.assertGreater(speech.seconds, 0.5)
        decoded = snac.Decoder("builtin:solo24", device="cpu").decode(speech.codes)
        self.assertEqual(numpy.asarray(decoded).size, speech.samples.size)

    def test_a_corpus_of_its_codes_is_warned_of(self):
        speaker = speak.Speaker(device="cpu")
        with tempfile.TemporaryDirectory() as folder:
            texts = os.path.join(folder, "texts.jsonl")
            with open(texts, "w") as file:
                file.write('{"text": "Hi."}\n')
            for name in ("a.jsonl", "a.safetensors", "a.h5"):
                with self.assertWarnsRegex(UserWarning, "codes of builtin:solo24; .*: speak to a folder") as warned:
                    speaker.speak_list(texts, os.path.join(folder, name))
                self.assertEqual(os.path.basename(warned.filename), "test_builtin_voice.py")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                speaker.speak_list(texts, os.path.join(folder, "audio"))

    def test_another_codec_is_refused_by_name(self):
        with self.assertRaisesRegex(melisma.MelismaError, "builtin:voice: this codec is .*") as raised:
            speak.Speaker(model="builtin:mini24", device="cpu")
        self.assertIn("it speaks with builtin:solo24", str(raised.exception))
        with self.assertRaisesRegex(melisma.MelismaError, "builtin:solo24: this codec has no encoder"):
            snac.Encoder("builtin:solo24", device="cpu")

    def test_a_server_speaks_with_it_unless_told_otherwise(self):
        body = json.dumps({"input": TEXT, "response_format": "pcm"}).encode()
        with melisma.serve(streams=2, log=lambda line: None) as server:
            self.assertEqual(models(server)[0]["id"], "voice")
            asked = urllib.request.Request(f"{server.url}/v1/audio/speech", body, {"content-type": "application/json"})
            with urllib.request.urlopen(asked, timeout=120) as answer:
                spoken = numpy.frombuffer(answer.read(), "<i2")
        samples = speak.Speaker(device="cpu").speak(TEXT).samples
        self.assertEqual(spoken.size, samples.size)
        with melisma.serve(streams=2, voice_model="none", log=lambda line: None) as server:
            self.assertEqual(models(server), [])


if __name__ == "__main__":
    unittest.main()
