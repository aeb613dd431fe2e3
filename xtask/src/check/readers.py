"""Every audio format of the server, with a known and an unknown length, as other programs read it.

What fails here is what the table of docs/protocol.md says.

Usage: readers.py URL FOLDER, with the tokens in FOLDER/tokens.txt and the key in MELISMA_API_KEY
"""

import base64
import http.server
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
import warnings
import wave
from pathlib import Path

import numpy

RATE = 24000
LOSSLESS = ("wav", "flac")
FORMATS = (*LOSSLESS, "mp3", "opus")
# Readers that refuse a file whose header has no length.
FAILS = {("soundfile", "flac"), ("librosa", "flac")}
# Encoders of MP3 add silence at both ends; without a frame about its length, nobody knows how much.
MARGIN = {"wav": 0.0, "flac": 0.0, "mp3": 0.15, "opus": 0.02}
# Readers that do not leave out this silence, even if the file tells how much it is.
KEEPS_SILENCE = {"sox"}
# Seconds that a file of known length may be longer: readers that resample round up.
KNOWN_MARGIN = {"wav": 0.0, "flac": 0.0, "mp3": 0.002, "opus": 0.02}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 180
PAGE = """<!doctype html><script>
const post = (found) => fetch("/found", { method: "POST", body: JSON.stringify(found) });
const play = (name) => new Promise((done) => {
  const audio = new Audio("/" + name);
  audio.oncanplay = () => done("plays");
  audio.onerror = () => done(audio.error.message || "fails");
});
(async () => {
  const found = {};
  for (const name of await (await fetch("/names")).json()) {
    try {
      const bytes = await (await fetch("/" + name)).arrayBuffer();
      const decoded = await new OfflineAudioContext(1, 1, 24000).decodeAudioData(bytes);
      const samples = new Uint8Array(decoded.getChannelData(0).buffer);
      let text = "";
      for (let i = 0; i < samples.length; i += 32768) text += String.fromCharCode(...samples.subarray(i, i + 32768));
      found[name] = [await play(name), btoa(text)];
    } catch (error) {
      found[name] = [String(error), ""];
    }
  }
  await post(found);
})().catch((error) => post({ error: String(error) }));
</script>"""


def answers(url, key, text, folder):
    """Writes each format twice: `known` of a body with its length, `unknown` of one that might go on."""
    headers = {"authorization": f"Bearer {key}", "content-type": "text/plain"}
    for suffix in (*FORMATS, "pcm"):
        for name, body in (("known", text), ("unknown", [text])):
            request = urllib.request.Request(f"{url}/v1/decode?format={suffix}", body, headers)
            with urllib.request.urlopen(request) as answer:
                (folder / f"{name}.{suffix}").write_bytes(answer.read())


def seconds_of_music(url, key, folder):
    """The pieces whose length is part of the request."""
    for suffix in FORMATS:
        address = f"{url}/v1/synth.{suffix}?preset=focus&seconds=1.5&rate=24000"
        request = urllib.request.Request(address, headers={"authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request) as answer:
            (folder / f"piece.{suffix}").write_bytes(answer.read())


def with_soundfile(path):
    import soundfile

    return soundfile.read(path, dtype="float32", always_2d=True)


def with_librosa(path):
    import librosa

    samples, rate = librosa.load(path, sr=None, mono=False)
    return numpy.atleast_2d(samples).T, rate


def with_scipy(path):
    from scipy.io import wavfile

    with warnings.catch_warnings():
        # It warns where the size is unknown.
        warnings.simplefilter("ignore", wavfile.WavFileWarning)
        rate, samples = wavfile.read(path)
    return samples.reshape(len(samples), -1) / 32768, rate


def with_wave(path):
    with wave.open(str(path)) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples.reshape(-1, file.getnchannels()) / 32768, file.getframerate()


def with_torchaudio(path):
    import torchaudio

    samples, rate = torchaudio.load(str(path))
    return samples.numpy().T, rate


def pcm(*command):
    ran = subprocess.run(command, capture_output=True)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.decode(errors="replace"))
    return numpy.frombuffer(ran.stdout, "<i2").reshape(-1, 1) / 32768, RATE


def with_sox(path):
    # Without dither, samples of 16 bits stay as they are.
    return pcm("sox", "-D", path, "-t", "raw", "-e", "signed", "-b", "16", "-r", str(RATE), "-c", "1", "-")


def with_ffmpeg(path):
    return pcm("ffmpeg", "-v", "error", "-i", path, "-f", "s16le", "-ar", str(RATE), "-ac", "1", "-")


def sox_reads(suffix):
    return suffix in subprocess.run(["sox", "--help"], capture_output=True, text=True).stdout.split()


def readers():
    """Yields the name of each reader, its function and its formats; says which are missing."""
    yield "wave", with_wave, ("wav",)
    for name, read, formats in (
        ("soundfile", with_soundfile, FORMATS), ("librosa", with_librosa, FORMATS), ("scipy", with_scipy, ("wav",)),
        ("torchaudio", with_torchaudio, FORMATS),
    ):
        try:
            # torchaudio leaves the files to torchcodec.
            importlib.import_module("torchcodec" if name == "torchaudio" else name)
            importlib.import_module(name)
        except (ImportError, OSError, RuntimeError) as error:
            print(f"SKIPPED: files in {name}: {str(error).strip().splitlines()[0]}")
            continue
        yield name, read, formats
    for name, read in (("sox", with_sox), ("ffmpeg", with_ffmpeg)):
        if shutil.which(name) is None:
            print(f"SKIPPED: files in {name}: it is not installed")
            continue
        formats = FORMATS if name != "sox" else tuple(suffix for suffix in FORMATS if sox_reads(suffix))
        for suffix in set(FORMATS) - set(formats):
            print(f"SKIPPED: {suffix} in {name}: this build has no reader of it")
        yield name, read, formats


def check_length(name, suffix, seconds, margin):
    assert -1e-6 <= seconds <= margin[suffix] + 1e-6, f"{name}: {seconds:+.4f} s longer than the samples"


def compare(name, suffix, samples, rate, expected):
    """The length is that of the samples, and so are the samples where the format stores them."""
    samples = numpy.asarray(samples, "f8")
    is_known = "unknown" not in name and name.split(",")[0] not in KEEPS_SILENCE
    margin = KNOWN_MARGIN if is_known else MARGIN
    check_length(name, suffix, len(samples) / rate - len(expected) / RATE, margin)
    if suffix in LOSSLESS:
        # Chromium divides positive samples by 32767.
        assert rate == RATE and numpy.abs(samples[:, 0] - expected).max() < 1.01 / 32768, f"{name}: other samples"
        return
    ratio = (samples[:, 0] ** 2).sum() / rate / ((expected**2).sum() / RATE)
    assert 0.8 < ratio < 1.2, f"{name}: {ratio:.2f} times the energy"


def check_programs(folder, expected):
    for reader, read, formats in readers():
        for suffix in formats:
            for length in ("known", "unknown"):
                name = f"{reader}, {suffix} of {length} length"
                try:
                    samples, rate = read(folder / f"{length}.{suffix}")
                except Exception as error:
                    assert length == "unknown" and (reader, suffix) in FAILS, f"{name}: {error}"
                    continue
                assert length == "known" or (reader, suffix) not in FAILS, f"{name} can be read: the docs say it fails"
                compare(name, suffix, samples, rate, expected)
            samples, rate = read(folder / f"piece.{suffix}")
            margin = MARGIN if reader in KEEPS_SILENCE else KNOWN_MARGIN
            check_length(f"{reader}, {suffix} of music", suffix, len(samples) / rate - 1.5, margin)
            assert suffix not in LOSSLESS or rate == RATE, f"{reader}: {suffix} of music at {rate} Hz"
        print(f"{reader}: {', '.join(formats)} of known and unknown length")


def check_browser(folder, expected):
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        print("SKIPPED: files in a browser: no Chromium")
        return
    names = [f"{length}.{suffix}" for suffix in FORMATS for length in ("known", "unknown")]
    found, has_come = {}, threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.strip("/")
            body = {"": PAGE.encode(), "names": json.dumps(names).encode()}.get(name)
            body = body if body is not None else (folder / name).read_bytes() if name in names else b""
            self.send_response(200)
            self.send_header("content-type", "text/html" if name == "" else "application/octet-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            found.update(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            has_come.set()
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        command += [f"http://127.0.0.1:{server.server_address[1]}/"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert has_come.wait(SECONDS), "the browser has not answered"
        finally:
            browser.terminate()
            browser.wait(60)
            server.shutdown()
    assert found.keys() == set(names), found
    for name, (played, text) in found.items():
        assert played == "plays", f"a browser, {name}: {played}"
        samples = numpy.frombuffer(base64.b64decode(text), "<f4").reshape(-1, 1)
        compare(f"a browser, {name}", name.split(".")[1], samples, RATE, expected)
    print(f"Chromium: {', '.join(FORMATS)} of known and unknown length")


def main():
    url, key, given = sys.argv[1], os.environ["MELISMA_API_KEY"], Path(sys.argv[2])
    folder = given / "readers"
    folder.mkdir(exist_ok=True)
    answers(url, key, (given / "tokens.txt").read_bytes(), folder)
    seconds_of_music(url, key, folder)
    expected = numpy.frombuffer((folder / "known.pcm").read_bytes(), "<i2") / 32768
    assert (folder / "unknown.pcm").read_bytes() == (folder / "known.pcm").read_bytes(), "other samples"
    check_programs(folder, expected)
    check_browser(folder, expected)


if __name__ == "__main__":
    main()
