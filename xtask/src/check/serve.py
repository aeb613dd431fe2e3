"""The clients of docs/protocol.md and OpenAI's own against `melisma serve`, its files in
other programs, and requests made from its OpenAPI document.

Usage: serve.py MELISMA PROTOCOL.md FOLDER PYTHON, which has the packages that read audio
"""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import refusal
import speech

KEY = "a-key-of-the-check"
N_FRAMES = 24
# Requests are drawn from the schemas alone: bodies are seldom audio, and none is a WebSocket handshake.
SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 413, 415, 426, 503]
[checks.positive_data_acceptance]
enabled = false
[[operations]]
include-path-regex = "/v1/synth[.]"
parameters = { seconds = 0.2 }
"""
CLIENTS = {
    "python": ("client.py", [sys.executable]),
    # WebSocket is global from Node.js 22 on, and behind this flag in 20.
    "js": ("client.mjs", ["node", "--experimental-websocket"]),
    "sh": ("client.sh", ["bash"]),
}


def tokens():
    """One line of tokens for each frame."""
    slots = lambda frame: (f"<custom_token_{10 + 4096 * slot + (31 * frame + 7 * slot) % 4096}>" for slot in range(7))
    return "".join("".join(slots(frame)) + "\n" for frame in range(N_FRAMES))


def start(melisma, log, upstream):
    """A server on a free port, ready, and its address."""
    environment = {**os.environ, "MELISMA_API_KEY": KEY}
    command = [melisma, "serve", "--port", "0", "--max-streams", "4", "--device", "cpu"]
    command += ["--model", "builtin:mini24", "--upstream", upstream]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log.open("w"))
    for _ in range(600):
        time.sleep(0.1)
        lines = log.read_text().splitlines()
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}: {log.read_text()}")
        try:
            if lines and urllib.request.urlopen(lines[0] + "/ready").status == 200:
                return server, lines[0]
        except (urllib.error.URLError, ConnectionError):
            pass
    server.kill()
    raise SystemExit("the server is not ready after a minute")


def run_clients(protocol, folder, url, expected):
    """Runs each example below the heading `Clients`."""
    section = protocol.read_text().split("\n## Clients\n", 1)[1]
    examples = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert {language for language, _ in examples} == set(CLIENTS), "an example is missing"
    for language, text in examples:
        name, command = CLIENTS[language]
        if shutil.which(command[0]) is None:
            print(f"SKIPPED: the {language} client: {command[0]} is not installed")
            continue
        (folder / name).write_text(text)
        environment = {**os.environ, "URL": url, "MELISMA_API_KEY": KEY}
        with (folder / "tokens.txt").open() as given:
            ran = subprocess.run([*command, folder / name], stdin=given, env=environment, capture_output=True, timeout=60)
        assert ran.returncode == 0, f"{name} ended with {ran.returncode}: {ran.stderr.decode()}"
        assert ran.stdout == expected, f"{name}: {len(ran.stdout)} bytes of {len(expected)}, or other ones"
        print(f"{name}: the samples of `melisma decode`")


def run_requests(folder, url):
    """Requests made from the OpenAPI document: no 5xx but refusals, and every answer as the document says."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    program = Path(sys.executable).with_name("schemathesis")
    command = [program, "--config-file", settings, "run", url + "/openapi.json", "--max-examples", "100"]
    command += ["--header", f"Authorization: Bearer {KEY}", "--request-timeout", "60", "--generation-deterministic"]
    subprocess.run(command, cwd=folder, check=True)


def main():
    melisma, protocol, folder = (Path(path).resolve() for path in sys.argv[1:4])
    # A venv's interpreter is a link that must stay one.
    readers = Path(sys.argv[4]).absolute()
    (folder / "tokens.txt").write_text(tokens())
    decode = [melisma, "decode", folder / "tokens.txt", "-o", folder / "expected.wav", "--force", "--device", "cpu"]
    subprocess.run(decode, check=True)
    expected = (folder / "expected.wav").read_bytes()[44:]
    spoken = re.findall("<.*?>", tokens())
    upstream = speech.Upstream(spoken)
    server, url = start(melisma, folder / "server.log", upstream.url)
    try:
        run_clients(protocol, folder, url, expected)
        refusal.run(url, KEY)
        speech.run(url, KEY, upstream, spoken, folder)
        environment = {**os.environ, "MELISMA_API_KEY": KEY}
        subprocess.run([readers, "-u", folder / "readers.py", url, folder], env=environment, check=True, timeout=600)
        run_requests(folder, url)
    finally:
        server.terminate()
        code = server.wait(60)
    assert code == 0, f"the server ended with {code} after SIGTERM"


main()
