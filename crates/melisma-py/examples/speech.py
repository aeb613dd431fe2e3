"""Speech through OpenAI's client from a server in this process: python speech.py OUT.wav

A language model that streams tokens belongs behind `upstream`. A stand-in, which says the same words whatever it is
asked, takes its place here. It speaks in codes of the built-in codec; Melisma warns that other language models do not.
"""

import contextlib
import http.server
import json
import pathlib
import sys
import threading

import melisma
from melisma import audio, snac

SAMPLE = pathlib.Path(__file__).parent / "../../melisma-models/mini24/sample.wav"


@contextlib.contextmanager
def stand_in(texts):
    """The address of a server of completions that streams `texts`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for text in texts:
                self.wfile.write(b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n")
            self.wfile.write(b'data: {"choices": [{"text": "", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

        def log_message(self, *_words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def speak(path=SAMPLE):
    """What a language model would write to say what is in the file."""
    clip = audio.read(path, sample_rate=24000, mono=True)
    encoder = snac.Encoder("builtin:mini24")
    return encoder.to_text(encoder.encode(clip.samples)).splitlines()


if __name__ == "__main__":
    from openai import OpenAI

    with stand_in(speak()) as upstream, melisma.serve(model="builtin:mini24", upstream=upstream) as server:
        client = OpenAI(base_url=f"{server.url}/v1", api_key="none")
        speech = client.audio.speech.create(model="tts-1", voice="tara", input="Hello!", response_format="wav")
        speech.write_to_file(sys.argv[1])
    print(f"{audio.read(sys.argv[1]).seconds:.1f} s of speech in {sys.argv[1]}")
