// The view Speak: text, tokens or an audio file in, the sound and its picture out.
// More than 400 lines because speech, tokens and files share one player, one picture and one summary.
import { keyQuestion, mayHelp, probe, protocols, refusal, request, socketUrl } from "./connection.js";
import { figure, find, milliseconds, show, stillness } from "./element.js";
import { listenForFiles } from "./intake.js";
import { inWords } from "./token-summary.js";
import { Notice } from "./notice.js";
import { Picture } from "./picture.js";
import { obstacle, Player } from "./player.js";
import { FIELD, STATE } from "./ring.js";
import { events, samples, SpeechField } from "./speech.js";
import { INTEGERS, save, wav } from "./wav.js";

const PATH = "/v1/decode?sample_format=f32&picture=1";
const TARGET_SECONDS = 0.08;
/** The rate of 24 kHz models; another rate takes effect with the server's first message. */
const RATE = 24_000;
const EXAMPLE = "/v1/synth.wav?preset=bright&seed=7&seconds=8&rate=24000";
const APPEAR = "the sound and its picture appear here while they are made.";
const EMPTY = `Paste tokens, or drop a file: ${APPEAR}`;
const EMPTY_SPEAKER = `Press Speak, paste tokens, or drop a file: ${APPEAR}`;

export class SpeakView {
  /** @param {import("./status.js").Status} status */
  constructor(status) {
    this.status = status;
    this.notice = new Notice(find("speak-notice"));
    this.picture = new Picture(
      { wave: find("wave"), spectrogram: find("spec") },
      { hz: find("hz"), seconds: find("seconds") },
    );
    /** Settled once it is known whether the server can speak. */
    this.ready = Promise.resolve();
    this.isVisible = false;
    this.isOn = false;
    this.base = 0;
    this.nSamples = 0;
    /** What the saved sound is called. */
    this.name = "";
    const reason = obstacle();
    if (reason) {
      this.notice.say(reason);
      return;
    }
    this.speech = new SpeechField();
    this.ready = this.prepareField();
    this.worker = new Worker(new URL("./speak-worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => this.take(data);
    this.listen();
  }

  show() {
    this.isVisible = true;
    this.prepareField();
    requestAnimationFrame(() => this.frame());
  }

  hide() {
    this.isVisible = false;
    this.pause();
  }

  listen() {
    listenForFiles({
      file: (file) => this.run((signal) => this.file(file, signal)),
      text: (text) => this.run(() => this.tokens(text)),
    });
    this.speech.addEventListener("speak", () => this.run((signal) => this.say(signal)));
    this.status.addEventListener("refused", ({ detail }) => detail.kind === "key" && this.askKey());
    this.status.addEventListener("report", ({ detail }) => {
      this.unlock();
      // A page that was opened before the server was ready gets its field when the voice is there.
      if (detail.speakers?.length > 0 && this.isVisible) {
        this.prepareField();
      }
    });
    find("save-speech").addEventListener("click", () => this.worker.postMessage({ type: "save" }));
    find("decode").addEventListener("click", () => this.run(() => this.tokens(find("tokens").value)));
    find("example").addEventListener("click", () => this.run((signal) => this.example(signal)));
    find("speak-play").addEventListener("click", () => (this.isOn ? this.pause() : this.replay()));
    const picture = find("picture");
    picture.addEventListener("click", (event) => {
      const { left, width } = picture.getBoundingClientRect();
      this.seek(((event.clientX - left) / width) * this.nSamples);
    });
    picture.addEventListener("keydown", (event) => {
      const to = this.target(event.key);
      if (to !== undefined && this.nSamples > 0) {
        event.preventDefault();
        this.seek(to);
      }
    });
  }

  /** Where a key leads on the picture. @param {string} key */
  target(key) {
    const step = this.player ? this.player.rate : 0;
    const at = this.position();
    const steps = { ArrowLeft: at - step, ArrowRight: at + step, PageDown: at - 10 * step, PageUp: at + 10 * step };
    return { ...steps, Home: 0, End: this.nSamples }[key];
  }

  /** Runs one job and ends the one before; its failure is shown. @param {(signal: AbortSignal) => Promise<void>} job */
  async run(job) {
    this.running?.abort();
    const running = new AbortController();
    [this.job, this.running] = [job, running];
    try {
      await job(running.signal);
    } catch (error) {
      if (!running.signal.aborted) {
        this.fail(broken(error));
      }
    }
  }

  /** Text to speech, heard while it is spoken. @param {AbortSignal} signal */
  async say(signal) {
    const asked = this.speech.request();
    if (!asked.input.trim()) {
      this.notice.say("There is no text in the field yet.");
      return;
    }
    const startMs = performance.now();
    const headers = { "content-type": "application/json" };
    const reply = await request("/v1/audio/speech", { method: "POST", headers, body: JSON.stringify(asked), signal });
    if (!reply.ok) {
      this.fail(await refusal(reply));
      return;
    }
    const rate = Number(reply.headers.get("x-melisma-sample-rate-hz")) || RATE;
    const begun = this.begin({ title: asked.input, way: "", name: asked.voice }, rate);
    this.openedMs = startMs;
    this.worker.postMessage({ type: "begin" });
    await begun;
    for await (const event of events(reply)) {
      this.hear(event);
    }
    if (this.failure) {
      this.worker.postMessage({ type: "whole" });
      this.fail(told(this.failure));
    } else {
      const ledger = await request(`/v1/ledger/${reply.headers.get("x-request-id")}`, { signal });
      this.finish(ledger.ok ? await ledger.json() : null);
    }
  }

  /** An event of `/v1/audio/speech`. */
  hear(event) {
    if (event.type === "speech.audio.delta") {
      this.worker.postMessage({ type: "samples", samples: samples(event.audio) });
    } else if (event.type === "speech.audio.done") {
      this.worker.postMessage({ type: "whole" });
    } else {
      this.take(event);
    }
  }

  /** @param {File} file @param {AbortSignal} signal */
  async file(file, signal) {
    const start = new Uint8Array(await file.slice(0, 512).arrayBuffer());
    // Text has no bytes below 9; every audio format has some within its first lines.
    if (start.every((byte) => byte >= 9)) {
      const text = await file.text();
      signal.throwIfAborted();
      await this.tokens(text);
    } else {
      await this.encode(file, file.name, signal);
    }
  }

  /** @param {AbortSignal} signal */
  async example(signal) {
    const reply = await request(EXAMPLE, { signal });
    if (reply.ok) {
      await this.encode(await reply.blob(), "Eight seconds of music", signal);
    } else {
      this.fail(await refusal(reply));
    }
  }

  async tokens(text) {
    if (!text.trim()) {
      this.notice.say("There are no tokens in the field yet.", { label: "Try it with music", act: () => this.run((signal) => this.example(signal)) });
      return;
    }
    await this.open({ title: "Tokens", way: "", name: "tokens" });
    this.worker.postMessage({ type: "tokens", text });
    this.worker.postMessage({ type: "end" });
  }

  /**
   * An audio file to tokens, which are decoded while they come.
   * @param {Blob} blob
   * @param {string} name
   * @param {AbortSignal} signal
   */
  async encode(blob, name, signal) {
    const reply = await request("/v1/encode", { method: "POST", body: blob, signal });
    if (!reply.ok) {
      this.fail(await refusal(reply));
      return;
    }
    await this.open({ title: name, way: "Through tokens and back.", name: name.replace(/\.[^.]*$/, "") });
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let shown = "";
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      this.worker.postMessage({ type: "tokens", text: value });
      shown = shown.length < 4000 ? shown + value : shown;
    }
    find("tokens").value = shown;
    this.worker.postMessage({ type: "end" });
  }

  /** Tokens to sound. @param {Caption} caption */
  async open(caption) {
    const begun = this.begin(caption, RATE);
    this.worker.postMessage({ type: "open", url: socketUrl(PATH), protocols: protocols() });
    await begun;
  }

  /** An empty picture, and a player that waits for samples. @param {Caption} caption @param {number} rate */
  async begin({ title, way, name }, rate) {
    this.prepare(rate);
    this.picture.clear(rate);
    this.name = name;
    find("save-speech").disabled = true;
    [this.base, this.nSamples, this.firstMs, this.failure] = [0, 0, 0, null];
    this.openedMs = performance.now();
    show(find("speak-title"), title);
    find("speak-title").title = title;
    show(find("speak-way"), way);
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
      const isSpoken = this.speech.isThere && !find("tokens").value.trim();
      this.run((signal) => (isSpoken ? this.say(signal) : this.tokens(find("tokens").value)));
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
      this.base = Math.floor(Math.min(this.nSamples, Math.max(0, sample)));
      this.worker.postMessage({ type: "seek", sample: this.base });
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
        find("save-speech").disabled = false;
        break;
      case "sound":
        save(wav(data.samples, { rate: this.player.rate, channels: 1, kind: INTEGERS }), `${this.name}.wav`);
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
        this.failure = data.error;
        break;
      case "closed":
        this.close(data);
        break;
    }
  }

  /** @param {any} ledger `null` where the server has forgotten it */
  finish(ledger) {
    const seconds = (ledger?.samples ?? this.nSamples) / this.player.rate;
    const took = (performance.now() - this.openedMs) / 1e3;
    show(find("speed"), `${figure(seconds / took, seconds / took < 10 ? 1 : 0)}x`);
    show(find("first"), milliseconds(this.firstMs / 1e3));
    show(find("length"), `${figure(seconds, 1)} s`);
    show(find("ledger"), ledger ? inWords(ledger) : "");
  }

  async close({ isWhole }) {
    if (isWhole) {
      return;
    }
    this.turn(false);
    this.fail(this.failure ? told(this.failure) : await probe(PATH));
  }

  /** @param {Partial<import("./connection.js").Refusal>} refused */
  fail({ kind, message, retrySeconds, mayHelp: canHelp }) {
    this.turn(false);
    const again = { label: "Try now", act: () => this.run(this.job) };
    if (kind === "key") {
      this.askKey();
    } else if (kind === "full") {
      const waitMs = Math.max(1, retrySeconds) * 1e3;
      this.notice.count((s) => `The server is busy: ${message}. Trying again in ${s} s.`, waitMs, again);
    } else if (kind === "invalid") {
      this.notice.say(`The server could not do this: ${message}.`, canHelp ? again : undefined);
    } else if (kind === "unreadable") {
      this.notice.say(message);
    } else {
      this.notice.say("The connection was lost before the end.", again);
    }
  }

  askKey() {
    this.isAsking = true;
    this.notice.askKey(keyQuestion(), (key) => this.status.unlock(key));
  }

  /** The server reports, so the key is right, if it needs one. */
  unlock() {
    if (this.isAsking) {
      this.isAsking = false;
      this.notice.say(EMPTY);
      this.prepareField();
    }
  }

  /** Shows the text field where the server speaks. */
  async prepareField() {
    await this.speech?.load();
    const said = this.notice.place.querySelector("p");
    if (this.speech?.isThere && said?.textContent === EMPTY) {
      this.notice.say(EMPTY_SPEAKER);
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
    this.showPlace();
    const { ring } = this.player ?? {};
    if (this.isOn && ring.get(FIELD.ENDED) === 1 && ring.fill() <= 0 && ring.get(FIELD.STATE) === STATE.WAITING) {
      this.base = this.nSamples;
      this.turn(false);
    }
  }

  /** The place in the sound, for those who do not see the cursor. */
  showPlace() {
    const { rate } = this.player ?? { rate: RATE };
    const [at, all] = [this.position(), this.nSamples].map((n) => figure(n / rate, 0));
    const picture = find("picture");
    if (picture.getAttribute("aria-valuenow") !== at || picture.getAttribute("aria-valuemax") !== all) {
      picture.setAttribute("aria-valuenow", at);
      picture.setAttribute("aria-valuemax", all);
      picture.setAttribute("aria-valuetext", `${at} of ${all} seconds`);
    }
  }
}

/**
 * @typedef {object} Caption of a sound
 * @property {string} title a file's own name, or what is said
 * @property {string} way how it came here
 * @property {string} name of the file that is saved, without its ending
 */

/**
 * The server's `error` as a refusal: what is wrong with the request stays wrong.
 * @param {{ message: string, type: string, code: string }} error
 * @returns {Partial<import("./connection.js").Refusal>}
 */
function told(error) {
  return { kind: "invalid", message: error.message, mayHelp: mayHelp(error) };
}

/**
 * What went wrong in the browser: a connection may come back, a file that cannot be read stays so.
 * @param {Error} error
 * @returns {Partial<import("./connection.js").Refusal>}
 */
function broken(error) {
  return error instanceof TypeError
    ? { kind: "gone" }
    : { kind: "unreadable", message: `The browser cannot read this: ${error.message}` };
}
