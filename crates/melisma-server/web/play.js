// The view Play: live music, its controls, its picture and its figures.
import { keyQuestion, request } from "./connection.js";
import { Controls } from "./controls.js";
import { figure, find, milliseconds, show, stillness } from "./element.js";
import { Keeper } from "./keeper.js";
import { Keyboard } from "./keyboard.js";
import { connect, hasMidi } from "./midi.js";
import { Notice } from "./notice.js";
import { obstacle, Player } from "./player.js";
import { FIELD } from "./ring.js";
import { partOf, Roll } from "./roll.js";
import { Transport } from "./transport.js";

/** Sound that waits, here and on its way: enough for a busy machine, and still quick under the fingers. */
const AHEAD_MS = 35;
/** Figures change this often, so that they can be read. */
const FIGURES_MS = 250;
/** With less motion, everything does. */
const STILL_MS = 500;
const INVITATION = "Press play: the server composes and renders music for you, live.";

export class PlayView {
  /** @param {import("./status.js").Status} status */
  constructor(status) {
    this.status = status;
    this.notice = new Notice(find("play-notice"));
    this.controls = new Controls();
    this.keyboard = new Keyboard(find("keys"));
    this.roll = new Roll(find("roll"));
    this.state = "idle";
    this.isVisible = false;
    this.figuresMs = 0;
    this.isOn = false;
    /** Whether the page asks for a key, and whether music was wanted when it began to. */
    this.isAsking = false;
    this.wasWanted = false;
    this.levelMs = 0;
    /** @type {Map<number, string>} the instrument of each key that is held */
    this.instruments = new Map();
    this.controls.showValues();
    this.showTitle();
    const reason = obstacle();
    if (reason) {
      this.notice.say(reason);
      find("play").disabled = true;
      return;
    }
    this.player = new Player({}, { targetSeconds: AHEAD_MS / 1e3, isLive: true });
    this.transport = new Transport(this.player.ring);
    this.keeper = new Keeper(this);
    this.listen();
    this.loadPresets();
  }

  show() {
    this.isVisible = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  hide() {
    this.isVisible = false;
  }

  listen() {
    const { controls, keyboard, transport } = this;
    find("play").addEventListener("click", () => (this.isOn ? this.stop() : this.start()));
    // The sound card takes a while to start: it begins when the button goes down.
    find("play").addEventListener("pointerdown", () => this.player.context.resume());
    controls.addEventListener("piece", () => this.change());
    controls.addEventListener("sound", ({ detail }) => {
      this.say({ type: "set", ...detail });
      this.keeper.showCommand();
    });
    keyboard.addEventListener("down", ({ detail }) => this.press(detail));
    keyboard.addEventListener("up", ({ detail }) => this.release(detail));
    transport.addEventListener("state", ({ detail }) => this.enter(detail));
    transport.addEventListener("begun", () => this.begin());
    transport.addEventListener("notes", ({ detail }) => this.roll.add(detail.notes));
    transport.addEventListener("level", ({ detail }) => this.showLevel(detail));
    transport.addEventListener("jitter", ({ detail }) => (this.jitterMs = detail.jitterMs));
    this.status.addEventListener("report", () => this.unlock());
    this.status.addEventListener("refused", ({ detail }) => detail.kind === "key" && !this.isOn && this.askKey());
    find("instrument").addEventListener("change", () => (keyboard.part = partOf(find("instrument").value)));
    find("midi").hidden = !hasMidi();
    show(find("midi-name"), hasMidi() ? "" : "not in this browser");
    find("midi").addEventListener("click", () => {
      const tell = (names) => show(find("midi-name"), names.join(", ") || "no device found");
      connect(keyboard, tell).catch(() => show(find("midi-name"), "the browser refused"));
    });
  }

  async loadPresets() {
    try {
      const reply = await request("/v1/presets");
      if (reply.ok) {
        this.controls.load(await reply.json());
        this.keyboard.part = partOf(find("instrument").value);
        this.showTitle();
        this.keeper.showCommand();
      }
    } catch {
      // The status says that the server is gone, and its next report tries again.
    }
  }

  /** The server reports, so the key is right, if it needs one. */
  async unlock() {
    if (!this.controls.preset) {
      await this.loadPresets();
    }
    if (this.isAsking) {
      this.isAsking = false;
      this.notice.say(INVITATION);
      if (this.wasWanted) {
        this.start();
      }
    }
  }

  path() {
    const query = this.controls.query();
    query.set("rate", String(this.player.rate));
    query.set("sample_format", "f32");
    query.set("ahead", String(Math.round(this.player.targetSeconds() * 1e3)));
    return `/v1/synth?${query}`;
  }

  async start() {
    // The server's answer to a key may come later, and must not replace what this attempt says.
    this.isAsking = false;
    this.enter({ name: "waiting" });
    this.roll.clear();
    this.player.ring.splice();
    const isAllowed = await this.player.resume();
    if (this.state !== "waiting") {
      return;
    }
    if (isAllowed) {
      this.transport.open(this.path());
    } else {
      this.stop();
      this.notice.say("The browser blocked the sound until you allow it.", {
        label: "Allow the sound",
        act: () => this.start(),
      });
    }
  }

  stop() {
    this.transport.stop();
    this.player.stop();
    this.keyboard.light(new Map());
    this.keeper.stop();
  }

  change() {
    this.showTitle();
    this.keeper.showCommand();
    if (this.isOn) {
      this.transport.open(this.path());
    }
  }

  /** The new stream is about to be heard. */
  begin() {
    this.roll.clear();
    Object.entries(this.controls.moved).forEach(([parameter, value]) => this.say({ type: "set", parameter, value }));
  }

  say(message) {
    if (this.state === "playing") {
      this.transport.say(message);
    }
  }

  press({ key, velocity }) {
    const instrument = find("instrument").value;
    this.instruments.set(key, instrument);
    this.say({ type: "note_on", instrument, key, velocity });
  }

  /** A key ends the note that it began, whatever instrument the keys play by then. */
  release({ key }) {
    this.say({ type: "note_off", instrument: this.instruments.get(key), key });
  }

  /** @param {import("./transport.js").State} state */
  enter(state) {
    this.state = state.name;
    this.isOn = !["idle", "key", "invalid"].includes(state.name);
    find("play").setAttribute("aria-pressed", String(this.isOn));
    find("play").setAttribute("aria-label", this.isOn ? "Stop" : "Play");
    const again = { label: "Try now", act: () => this.transport.again() };
    switch (state.name) {
      case "playing":
      case "waiting":
        this.notice.hide();
        break;
      case "idle":
        this.notice.say(INVITATION);
        break;
      case "full":
        this.notice.count((s) => `The server is busy: ${state.message}. Trying again in ${s} s.`, state.waitMs, again);
        break;
      case "gone":
        this.notice.count((s) => `The server is gone. Trying again in ${s} s.`, state.waitMs, again);
        break;
      case "key":
        this.askKey();
        break;
      default:
        this.notice.say(
          `The server refused: ${state.message}.`,
          state.mayHelp ? { label: "Start over", act: () => this.start() } : undefined,
        );
    }
  }

  askKey() {
    this.wasWanted = this.transport.isWanted;
    this.transport.isWanted = false;
    [this.state, this.isAsking] = ["idle", true];
    this.keeper.showCommand();
    this.notice.askKey(keyQuestion(), (key) => this.status.unlock(key));
  }

  showTitle(bar = 0) {
    const barText = bar > 0 ? `, bar ${bar}` : "";
    show(find("piece"), this.controls.title());
    show(find("place"), `${this.controls.tempo()} beats a minute, seed ${find("seed").value || "0"}${barText}`);
  }

  showLevel({ peak_dbtp: peak, momentary_lufs: lufs }) {
    const now = performance.now();
    if (stillness.matches && now - this.levelMs < STILL_MS) {
      return;
    }
    this.levelMs = now;
    show(find("lufs"), lufs === null ? "–" : figure(lufs, 1));
    show(find("peak"), peak === null ? "silent" : `${figure(peak, 1)} dBTP`);
    const level = Math.min(0, Math.max(-60, peak ?? -60));
    find("meter").style.setProperty("--level", `${(1 + level / 60) * 100}%`);
    find("meter").setAttribute("aria-valuenow", figure(level, 0).replace("\u2212", "-"));
  }

  frame(now) {
    if (!this.isVisible) {
      return;
    }
    requestAnimationFrame((next) => this.frame(next));
    const isDue = now - this.figuresMs > (stillness.matches ? STILL_MS : FIGURES_MS);
    if (this.state !== "playing" || (stillness.matches && !isDue)) {
      return;
    }
    const sample = this.player.ring.played();
    const beatSamples = (60 / this.controls.tempo()) * this.player.rate;
    this.roll.draw(sample, beatSamples);
    this.keyboard.light(this.roll.sounding(sample));
    if (isDue) {
      this.figuresMs = now;
      this.showFigures(Math.floor(sample / beatSamples / 4) + 1);
    }
  }

  showFigures(bar) {
    const { player } = this;
    this.showTitle(bar);
    show(find("latency"), milliseconds(player.latencySeconds()));
    show(find("jitter"), `${figure(this.jitterMs ?? 0, 1)} ms`);
    show(find("buffer"), `${figure(player.bufferSeconds() * 1e3)} ms`);
    show(find("underruns"), String(player.ring.get(FIELD.UNDERRUNS)));
  }
}
