"""Refusals as real clients see them while they are still sending: http.client, asyncio, Node.js and curl."""

import asyncio
import http.client
import json
import shutil
import subprocess
import urllib.parse

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

LENGTHS = [100_000, 3_000_000]
ROUNDS = 3
NODE = """
import http from "node:http";
const [url, method, headers, length, chunked] = process.argv.slice(2);
const body = Buffer.alloc(Number(length), " ");
const framing = chunked === "1" ? { "transfer-encoding": "chunked" } : { "content-length": body.length };
const request = http.request(url, { method, headers: { ...JSON.parse(headers), ...framing } }, (answer) => {
  let text = "";
  answer.on("data", (piece) => (text += piece));
  answer.on("end", () => { console.log(answer.statusCode, JSON.parse(text).error.code); process.exit(0); });
});
request.on("error", (error) => { console.error(error); process.exit(1); });
request.end(body);
"""


def python_client(url, method, headers, length, is_chunked):
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    path = f"{address.path}?{address.query}" if address.query else address.path
    pieces = (b" " * 1000 for _ in range(length // 1000))
    body, more = (pieces, {"Transfer-Encoding": "chunked"}) if is_chunked else (b" " * length, {})
    connection.request(method, path, body, {**headers, **more}, encode_chunked=is_chunked)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())["error"]["code"]


def asyncio_client(url, method, headers, length, is_chunked):
    async def ask():
        address = urllib.parse.urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        target = f"{address.path}?{address.query}" if address.query else address.path
        lines = [f"{name}: {value}" for name, value in {"Host": address.netloc, **headers}.items()]
        lines.append("Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {length}")
        writer.write("\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode())
        for _ in range(length // 1000):
            writer.write(b"3e8\r\n" + b" " * 1000 + b"\r\n" if is_chunked else b" " * 1000)
            await writer.drain()
        writer.write(b"0\r\n\r\n" if is_chunked else b"")
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:-2])
        body = await reader.readexactly(int(fields["content-length"]))
        writer.close()
        return int(head.split()[1]), json.loads(body)["error"]["code"]

    return asyncio.run(asyncio.wait_for(ask(), 60))


def command(arguments, given=None):
    ran = subprocess.run(arguments, input=given, capture_output=True, timeout=60)
    assert ran.returncode == 0, f"{arguments[0]} ended with {ran.returncode}: {ran.stderr.decode()}"
    return ran.stdout.decode()


def node_client(url, method, headers, length, is_chunked):
    arguments = ["node", "--input-type=module", "-", url, method, json.dumps(headers), str(length), str(int(is_chunked))]
    status, code = command(arguments, NODE.encode()).split()
    return int(status), code


def curl_client(url, method, headers, length, is_chunked):
    fields = {**headers, "Expect": "", **({"Transfer-Encoding": "chunked"} if is_chunked else {})}
    arguments = ["curl", "-sS", "-X", method, "--data-binary", "@-", "-w", "\n%{http_code}", url]
    arguments += [part for name, value in fields.items() for part in ("-H", f"{name}: {value}" if value else f"{name}:")]
    body, status = command(arguments, b" " * length).rsplit("\n", 1)
    return int(status), json.loads(body)["error"]["code"]


CLIENTS = {"http.client": python_client, "asyncio": asyncio_client, "node": node_client, "curl": curl_client}


def check(clients, url, cases):
    for name, client in clients.items():
        n = 0
        for path, headers, lengths, expected in cases:
            for length, is_chunked in ((length, is_chunked) for length in lengths for is_chunked in (False, True)):
                for _ in range(ROUNDS):
                    seen = client(url + path, "POST", headers, length, is_chunked)
                    assert seen == expected, f"{name}, {path}, {length} bytes, chunked={is_chunked}: {seen}"
                    n += 1
        print(f"{name}: {n} refusals, each seen while it was sending")


def fill(url, headers):
    """Takes all places for streams, and returns what holds them."""
    held = []
    while True:
        try:
            held.append(connect(url.replace("http", "ws", 1) + "/v1/decode", additional_headers=headers))
        except InvalidStatus as refused:
            assert refused.response.status_code == 503, refused
            return held


def run(url, key):
    """Every refusal in every client that is installed."""
    known = {"Authorization": f"Bearer {key}"}
    missing = [name for name in ("node", "curl") if shutil.which(name) is None]
    for name in missing:
        print(f"SKIPPED: refusals in {name}: it is not installed")
    clients = {name: client for name, client in CLIENTS.items() if name not in missing}
    speech = {**known, "Content-Type": "application/json"}
    check(clients, url, [
        ("/v1/decode", {}, LENGTHS, (401, "invalid_api_key")),
        ("/v1/decode", {**known, "Origin": "http://evil.example"}, LENGTHS, (403, "foreign_origin")),
        ("/v1/nothing", known, LENGTHS, (404, "unknown_route")),
        ("/v1/audio/speech", speech, LENGTHS[1:], (413, "too_large")),
    ])
    held = fill(url, known)
    check(clients, url, [("/v1/decode", known, LENGTHS, (503, "full"))])
    for socket in held:
        socket.close()
