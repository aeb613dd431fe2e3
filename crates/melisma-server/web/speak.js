// The view Speak: text, tokens or an audio file in, the sound and its picture out.
import { protocols, probe, refusal, request, socketUrl, useKey } from "./connection.js";
import { count, figure, find, milliseconds, show, stillness } from "./element.js";
import { Notice } from "./notice.js";
import { Picture } from "./picture.js";
import { obstacle, Player } from "./player.js";
import { FIELD, STATE } from "./ring.js";
import { messages, samples, SpeechField } from "./speech.js";
import { wav } from "./wav.js";

const PATH = "/v1/decode?sample_format=f32&picture=1";
const TARGET_SECONDS = 0.08;
/** The rate of 24 kHz models; another rate takes effect with the server's first message. */
const RATE = 24_000;
const EXAMPLE = "/v1/synth.wav?preset=bright&seed=7&seconds=8&rate=24000";
const EMPTY = "Paste tokens, or drop a file: the sound and its picture appear here while they are decoded.";

export class SpeakView {
  /** @param {import("./status.js").Status} status */
  constructor(status) {
    this.status = status;
    this.notice = new Notice(find("speak-notice"));
    this.picture = new Picture(find("wave"), find("spec"));
    /** Settled once it is known whether the server can speak. */
    this.ready = Promise.resolve();
    this.isVisible = false;
    this.isOn = false;
    this.base = 0;
    this.nSamples = 0;
    const reason = obstacle();
    if (reason) {
      this.notice.say(reason);
      return;
    }
    this.speech = new SpeechField();
    this.ready = this.speech.load();
    this.worker = new Worker(new URL("./speak-worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => this.take(data);
    this.listen();
  }

  show() {
    this.isVisible = true;
    this.speech?.load();
    requestAnimationFrame(() => this.frame());
  }

  hide() {
    this.isVisible = false;
    this.pause();
  }

  listen() {
    const drop = find("drop");
    drop.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      this.run(() => this.file(event.dataTransfer.files[0]));
    });
    find("file").addEventListener("change", ({ target }) => this.run(() => this.file(target.files[0])));
    this.speech.addEventListener("speak", () => this.run(() => this.say()));
    find("speak").addEventListener("click", () => this.run(() => this.tokens(find("tokens").value)));
    find("example").addEventListener("click", () => this.run(() => this.example()));
    find("speak-play").addEventListener("click", () => (this.isOn ? this.pause() : this.replay()));
    find("picture").addEventListener("click", (event) => {
      const { left, width } = find("picture").getBoundingClientRect();
      this.seek(Math.floor(((event.clientX - left) / width) * this.nSamples));
    });
  }

  /** Runs one job; its failure is shown. @param {() => Promise<void>} job */
  async run(job) {
    this.job = job;
    this.spoken?.abort();
    try {
      await job();
    } catch (error) {
      if (job === this.job) {
        this.fail({ kind: "gone", message: String(error.message ?? error), retrySeconds: 0 });
      }
    }
  }

  /** Text to speech, heard while it is spoken. */
  async say() {
    const asked = this.speech.request();
    if (!asked.input.trim()) {
      this.notice.say("There is no text in the field yet.");
      return;
    }
    this.spoken = new AbortController();
    const [startMs, { signal }] = [performance.now(), this.spoken];
    const headers = { "content-type": "application/json" };
    const reply = await request("/v1/audio/speech", { method: "POST", headers, body: JSON.stringify(asked), signal });
    if (!reply.ok) {
      this.fail(await refusal(reply));
      return;
    }
    const rate = Number(reply.headers.get("x-melisma-sample-rate-hz")) || RATE;
    const begun = this.begin(asked.input, rate);
    this.openedMs = startMs;
    this.worker.postMessage({ type: "begin" });
    await begun;
    const pieces = [];
    for await (const piece of samples(reply)) {
      pieces.push(piece);
      this.worker.postMessage({ type: "samples", samples: piece });
    }
    this.worker.postMessage({ type: "whole" });
    const ledger = await request(`/v1/ledger/${reply.headers.get("x-request-id")}`, { signal });
    if (ledger.ok) {
      this.finish(await ledger.json());
    }
    await this.draw(wav(new Blob(pieces), rate, 1), signal);
  }

  /** The picture of a whole sound. @param {Blob} blob @param {AbortSignal} signal */
  async draw(blob, signal) {
    const reply = await request("/v1/mel", { method: "POST", body: blob, signal });
    if (reply.ok) {
      for await (const message of messages(reply)) {
        this.take(message);
      }
    }
  }

  async file(file) {
    if (!file) {
      return;
    }
    const start = new Uint8Array(await file.slice(0, 512).arrayBuffer());
    // Text has no bytes below 9; every audio format has some within its first lines.
    if (start.every((byte) => byte >= 9)) {
      await this.tokens(await file.text());
    } else {
      await this.encode(file, file.name);
    }
  }

  async example() {
    const reply = await request(EXAMPLE);
    await (reply.ok ? this.encode(await reply.blob(), "eight seconds of music") : this.fail(await refusal(reply)));
  }

  async tokens(text) {
    if (!text.trim()) {
      this.notice.say("There are no tokens in the field yet.", { label: "Try it with music", act: () => this.run(() => this.example()) });
      return;
    }
    await this.open("Tokens");
    this.worker.postMessage({ type: "tokens", text });
    this.worker.postMessage({ type: "end" });
  }

  /** An audio file to tokens, which are decoded while they come. @param {Blob} blob @param {string} name */
  async encode(blob, name) {
    const reply = await request("/v1/encode", { method: "POST", body: blob });
    if (!reply.ok) {
      this.fail(await refusal(reply));
      return;
    }
    await this.open(`${name[0].toUpperCase()}${name.slice(1)}, through tokens`);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let shown = "";
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      this.worker.postMessage({ type: "tokens", text: value });
      shown = shown.length < 4000 ? shown + value : shown;
    }
    find("tokens").value = shown;
    this.worker.postMessage({ type: "end" });
  }

  /** Tokens to sound. @param {string} title */
  async open(title) {
    const begun = this.begin(title, RATE);
    this.worker.postMessage({ type: "open", url: socketUrl(PATH), protocols: protocols() });
    await begun;
  }

  /** An empty picture, and a player that waits for samples. @param {string} title @param {number} rate */
  async begin(title, rate) {
    this.prepare(rate);
    this.picture.clear();
    [this.base, this.nSamples, this.firstMs, this.failure] = [0, 0, 0, null];
    this.openedMs = performance.now();
    show(find("speak-title"), title);
    show(find("ledger"), "");
    ["speed", "first", "length"].forEach((id) => show(find(id), "–"));
    this.player.ring.splice();
    this.notice.hide();
    await this.resume();
  }

  prepare(rate) {
    if (this.player?.rate !== rate) {
      this.player?.context.close();
      this.player = new Player({ sampleRate: rate }, { targetSeconds: TARGET_SECONDS, isLive: false });
      this.worker.postMessage({ type: "ring", memory: this.player.ring.memory });
    }
  }

  async resume() {
    this.turn(true);
    if (!(await this.player.resume())) {
      this.turn(false);
      this.notice.say("The browser blocked the sound until you allow it.", { label: "Allow the sound", act: () => this.replay() });
    }
  }

  async replay() {
    if (this.nSamples === 0) {
      this.run(() => this.tokens(find("tokens").value));
      return;
    }
    this.notice.hide();
    this.seek(this.position() >= this.nSamples - 1 ? 0 : this.position());
    await this.resume();
  }

  pause() {
    if (this.isOn) {
      this.base = this.position();
      this.player.stop();
      this.worker.postMessage({ type: "seek", sample: this.base });
      this.turn(false);
    }
  }

  seek(sample) {
    if (this.nSamples > 0) {
      this.base = sample;
      this.worker.postMessage({ type: "seek", sample });
    }
  }

  turn(isOn) {
    this.isOn = isOn;
    find("speak-play").setAttribute("aria-pressed", String(isOn));
    find("speak-play").setAttribute("aria-label", isOn ? "Pause" : "Play");
  }

  position() {
    return Math.min(this.nSamples, this.base + (this.isOn ? this.player.ring.played() : 0));
  }

  take(data) {
    switch (data.type) {
      case "decoded":
        this.firstMs ||= performance.now() - this.openedMs;
        this.nSamples = data.nSamples;
        break;
      case "wave":
        this.picture.addWave(data);
        break;
      case "mel":
        this.picture.addMel(data);
        break;
      case "ledger":
        this.finish(data);
        break;
      case "error":
        this.failure = data.error.message;
        break;
      case "closed":
        this.close(data);
        break;
    }
  }

  finish(ledger) {
    const seconds = this.nSamples / this.player.rate;
    const took = (performance.now() - this.openedMs) / 1e3;
    show(find("speed"), `${figure(seconds / took, seconds / took < 10 ? 1 : 0)}x`);
    show(find("first"), milliseconds(this.firstMs / 1e3));
    show(find("length"), `${figure(seconds, 1)} s`);
    show(find("ledger"), inWords(ledger));
  }

  async close({ isWhole }) {
    if (isWhole) {
      return;
    }
    this.turn(false);
    this.fail(this.failure ? { kind: "invalid", message: this.failure } : await probe(PATH));
  }

  /** @param {Partial<import("./connection.js").Refusal>} refused */
  fail({ kind, message, retrySeconds }) {
    this.turn(false);
    const again = { label: "Try now", act: () => this.run(this.job) };
    if (kind === "key") {
      this.notice.askKey("This server needs a key. The page forgets it when you close it.", (key) => {
        useKey(key);
        this.status.start();
        this.speech.load();
        this.notice.say(EMPTY);
      });
    } else if (kind === "full") {
      const waitMs = Math.max(1, retrySeconds) * 1e3;
      this.notice.count((s) => `The server is busy: ${message}. Trying again in ${s} s.`, waitMs, again);
    } else if (kind === "invalid") {
      this.notice.say(`The server could not do this: ${message}.`, again);
    } else {
      this.notice.say("The connection was lost before the end.", again);
    }
  }

  frame() {
    if (!this.isVisible) {
      return;
    }
    const again = () => requestAnimationFrame(() => this.frame());
    stillness.matches ? setTimeout(again, 500) : again();
    this.picture.draw();
    const share = this.nSamples > 0 ? this.position() / this.nSamples : 0;
    find("cursor").style.left = `${share * 100}%`;
    const { ring } = this.player ?? {};
    if (this.isOn && ring.get(FIELD.ENDED) === 1 && ring.fill() <= 0 && ring.get(FIELD.STATE) === STATE.WAITING) {
      this.base = this.nSamples;
      this.turn(false);
    }
  }
}

/** The account of the tokens as a sentence. */
function inWords({ accepted, rejected, resyncs, frames, concealed_frames: concealed, dropped_frames: dropped }) {
  const total = accepted + rejected;
  const first =
    rejected === 0
      ? `All ${count(total, "token")} were accepted and made ${count(frames, "frame")}.`
      : `${count(accepted, "token")} of ${total.toLocaleString("en")} were accepted, ${rejected.toLocaleString("en")} rejected; they made ${count(frames, "frame")}.`;
  const faults = [
    resyncs > 0 && `the stream lost its place ${count(resyncs, "time")}`,
    concealed > 0 && `${count(concealed, "frame")} were completed from the one before`,
    dropped > 0 && `${count(dropped, "frame")} had too few tokens and were dropped`,
  ].filter(Boolean);
  const rest = faults.join("; ");
  return faults.length === 0 ? `${first} Nothing was resynchronised or concealed.` : `${first} ${rest[0].toUpperCase()}${rest.slice(1)}.`;
}
