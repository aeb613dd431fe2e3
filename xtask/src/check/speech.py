"""OpenAI's own clients in Python and Node.js against /v1/audio/speech, over a stand-in for the language model."""

import base64
import http.server
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request

import openai

FORMATS = ["mp3", "opus", "flac", "wav", "pcm"]
# A little faster than real time.
SECONDS_PER_TOKEN = 2048 / 24000 / 7 / 1.2
CROWD_SECONDS = 60
# What a sentence of the crowd takes at most.
SENTENCE_SECONDS = 4


class Upstream:
    """Streams the same tokens to everybody who asks."""

    def __init__(self, tokens):
        self.ended, self.times = 0.0, 1
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                assert self.path == "/v1/completions" and asked["stream"] is True, self.path
                assert "authorization" not in self.headers, "a client's key was forwarded"
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for token in tokens * upstream.times:
                    self.say(json.dumps({"choices": [{"index": 0, "text": token, "finish_reason": None}]}))
                    time.sleep(SECONDS_PER_TOKEN)
                upstream.ended = time.monotonic()
                self.say(json.dumps({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}))
                self.say(json.dumps({"choices": [], "usage": {"prompt_tokens": 5}}))
                self.say("[DONE]")
                self.close_connection = True

            def say(self, data):
                self.wfile.write(f"data: {data}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def decode_tokens(url, key, tokens, audio_format):
    """The bytes of /v1/decode for a body without a length, which are those of speech."""
    headers = {"authorization": f"Bearer {key}", "content-type": "text/plain"}
    address = f"{url}/v1/decode?format={audio_format}"
    with urllib.request.urlopen(urllib.request.Request(address, ["".join(tokens).encode()], headers)) as answer:
        return answer.read()


def unpack(text):
    """The audio of events, and the last event."""
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]
    assert all(event["type"] == "speech.audio.delta" for event in events[:-1]), events[-2:]
    return b"".join(base64.b64decode(event["audio"]) for event in events[:-1]), events[-1]


def python_client(url, key, upstream, tokens):
    client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
    assert [model.id for model in client.models.list()][-1] == "melisma"
    said = {"model": "gpt-4o-mini-tts", "voice": "coral", "input": "Good morning!", "instructions": "Cheerful."}
    whole = client.audio.speech.create(model="tts-1", voice="alloy", input="Good morning!").read()
    assert whole == decode_tokens(url, key, tokens, "mp3"), "the default is another format than mp3"
    for audio_format in FORMATS:
        expected = decode_tokens(url, key, tokens, audio_format)
        stream = client.audio.speech.with_streaming_response
        with stream.create(**said, response_format=audio_format) as answer:
            pieces = answer.iter_bytes()
            audio, first = next(pieces), time.monotonic()
            audio += b"".join(pieces)
        assert audio == expected, f"{audio_format}: {len(audio)} bytes of {len(expected)}, or other ones"
        assert first < upstream.ended, f"{audio_format}: the first bytes came after the last token"
        with stream.create(**said, response_format=audio_format, stream_format="sse") as answer:
            audio, last = unpack(answer.read().decode())
        assert audio == expected, f"{audio_format} in events: {len(audio)} bytes of {len(expected)}, or other ones"
        usage = {"input_tokens": 5, "output_tokens": len(tokens), "total_tokens": 5 + len(tokens)}
        assert last == {"type": "speech.audio.done", "usage": usage}, last
    for field, value, error in [
        ("model", "tts-9", openai.NotFoundError),
        ("voice", "bob", openai.BadRequestError),
        ("response_format", "aac", openai.BadRequestError),
        ("speed", 9, openai.BadRequestError),
        ("input", "x" * 4097, openai.BadRequestError),
    ]:
        try:
            client.audio.speech.create(**{**said, field: value})
        except error as caught:
            assert caught.param == field, caught
        else:
            raise AssertionError(f"{field}={value} is accepted")
    print("the openai client in Python: every format, as audio and in events")


def node_client(url, key, tokens, folder):
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("SKIPPED: the openai client in Node.js: node or npm is not installed")
        return
    install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "openai@7.53.0"]
    subprocess.run(install, cwd=folder, check=True)
    for audio_format in FORMATS:
        (folder / f"expected.{audio_format}").write_bytes(decode_tokens(url, key, tokens, audio_format))
    environment = {**os.environ, "OPENAI_BASE_URL": url + "/v1", "OPENAI_API_KEY": key}
    subprocess.run(["node", "speech.mjs", *FORMATS], cwd=folder, env=environment, check=True, timeout=120)


def crowd(url, key, upstream, tokens):
    """Twice as many clients as the server has streams, with their own retries: each asks for its next sentence when it
    has heard the last. No call fails, and first audio comes within the queue and half a second."""
    request = urllib.request.Request(url + "/v1/status", headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as answer:
        status = json.load(answer)
    upstream.times = int(SENTENCE_SECONDS / (len(tokens) * SECONDS_PER_TOKEN))
    waits, failed, end = [], [], time.monotonic() + CROWD_SECONDS

    def talk():
        client = openai.OpenAI(base_url=url + "/v1", api_key=key)
        said = {"model": "tts-1", "voice": "alloy", "input": "Good morning!", "response_format": "pcm"}
        while time.monotonic() < end:
            start = time.monotonic()
            try:
                with client.audio.speech.with_streaming_response.create(**said) as answer:
                    pieces = answer.iter_bytes()
                    next(pieces)
                    waits.append(time.monotonic() - start)
                    for _ in pieces:
                        pass
            except Exception as error:
                failed.append(repr(error))

    talking = [threading.Thread(target=talk) for _ in range(2 * status["capacity_streams"])]
    for thread in talking:
        thread.start()
    for thread in talking:
        thread.join()
    assert not failed, f"{len(failed)} calls of {len(waits)} failed: {failed[:3]}"
    limit, p99 = status["queue"]["limit_seconds"] + 0.5, sorted(waits)[int(0.99 * (len(waits) - 1))]
    print(f"{len(talking)} clients of {len(talking) // 2} streams: {len(waits)} calls, first audio p99 {p99:.2f} s")
    assert p99 <= limit, f"first audio comes after {p99:.2f} s, the limit is {limit} s"


def run(url, key, upstream, tokens, folder):
    python_client(url, key, upstream, tokens)
    node_client(url, key, tokens, folder)
    crowd(url, key, upstream, tokens)
