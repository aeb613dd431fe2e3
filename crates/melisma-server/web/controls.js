// The controls of the music. Those of the piece open a new stream; those of the sound act on the one that plays.
import { keep, number, settings, visible } from "./address.js";
import { figure, find, make, show } from "./element.js";

const KEYS = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];
const VOICES = ["melody", "arpeggio", "drums", "swells"];
const SOUNDS = ["gain", "brightness", "motion", "reverb", "delay"];
const PIECE = ["preset", "seed", "key", "mode", "tempo", "intensity", "voices"];
const MAX_SEED = 64;
/** Brightness is a factor, 0.1 to 10; its slider is its logarithm. */
const toValue = { brightness: (position) => Math.round(10 ** position * 1e3) / 1e3 };
const toPosition = { brightness: (value) => Math.log10(value) };

/**
 * @typedef {object} Preset as `GET /v1/presets` lists it
 * @property {string} name
 * @property {string} key
 * @property {string} mode
 * @property {number} tempo
 * @property {number} intensity
 * @property {string[]} voices
 * @property {Record<string, number>} controls
 */

/** Sends `piece` when another stream is needed, and `sound` (detail: {parameter, value}). */
export class Controls extends EventTarget {
  constructor() {
    super();
    /** @type {Preset[]} */
    this.presets = [];
    /** @type {Preset | null} */
    this.preset = null;
    /** @type {Record<string, number>} sounds that the listener moved */
    this.moved = {};
    find("key").append(...KEYS.map((key) => make("option", { value: key }, key.replace("#", "\u266f"))));
    // Until the presets are there, everything is as in the preset focus.
    find("key").value = "D";
    find("presets").append(...["focus", "meditation", "sleep", "bright"].map((name) => this.presetButton(name)));
    find("voices").append(...VOICES.map((name) => this.voiceButton(name)));
    for (const id of ["tempo", "intensity"]) {
      find(id).addEventListener("input", () => this.showValues());
    }
    for (const id of ["tempo", "intensity", "key", "mode", "seed"]) {
      find(id).addEventListener("change", () => this.changePiece());
    }
    for (const name of SOUNDS) {
      find(name).addEventListener("input", () => this.move(name));
      find(name).addEventListener("change", () => this.keep());
    }
    find("instrument").addEventListener("change", () => this.keep());
  }

  changePiece() {
    find("seed").value = visible(find("seed").value);
    this.keep();
    this.send("piece");
  }

  /** Writes everything into the address. */
  keep() {
    const query = this.query();
    const names = Object.fromEntries([...PIECE, ...SOUNDS].map((name) => [name, query.get(name)]));
    const instrument = find("instrument");
    keep({ ...names, instrument: instrument.selectedIndex > 0 ? instrument.value : null });
  }

  /** Takes the settings of the address, and ignores those that no control could have. */
  restore() {
    const asked = settings();
    const seed = asked.get("seed");
    if (seed && seed.length <= MAX_SEED && visible(seed) === seed) {
      find("seed").value = seed;
    }
    for (const id of ["key", "mode", "instrument"]) {
      if ([...find(id).options].some((option) => option.value === asked.get(id))) {
        find(id).value = asked.get(id);
      }
    }
    for (const id of ["tempo", "intensity"]) {
      find(id).value = number(asked.get(id), Number(find(id).min), Number(find(id).max)) ?? find(id).value;
    }
    for (const name of SOUNDS) {
      const { min, max } = find(name);
      const [least, most] = [min, max].map((position) => toValue[name]?.(position) ?? Number(position));
      const value = number(asked.get(name), least, most);
      if (value !== null) {
        find(name).value = toPosition[name]?.(value) ?? value;
        this.moved[name] = this.value(name);
      }
    }
    const voices = asked.get("voices")?.split(",").filter(Boolean);
    if (voices?.every((voice) => VOICES.includes(voice))) {
      press("[data-voice]", (button) => voices.includes(button.dataset.voice));
    }
    this.showValues();
  }

  presetButton(name) {
    const button = make("button", { type: "button", "data-preset": name, "aria-pressed": String(name === "focus") });
    button.append(name === "meditation" ? "Meditate" : name[0].toUpperCase() + name.slice(1));
    button.addEventListener("click", () => {
      this.choose(name);
      this.changePiece();
    });
    return button;
  }

  voiceButton(name) {
    const button = make("button", { type: "button", "data-voice": name, "aria-pressed": "true" });
    button.append(name[0].toUpperCase() + name.slice(1));
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      this.changePiece();
    });
    return button;
  }

  /** @param {Preset[]} presets */
  load(presets) {
    this.presets = presets;
    const asked = settings().get("preset");
    this.choose(presets.some(({ name }) => name === asked) ? asked : "focus");
    this.restore();
  }

  choose(name) {
    this.preset = this.presets.find((preset) => preset.name === name) ?? null;
    if (!this.preset) {
      return;
    }
    this.moved = {};
    const { key, mode, tempo, intensity, controls } = this.preset;
    Object.entries({ key, mode, tempo, intensity }).forEach(([id, value]) => (find(id).value = value));
    SOUNDS.forEach((sound) => (find(sound).value = toPosition[sound]?.(controls[sound]) ?? controls[sound]));
    press("[data-preset]", (button) => button.dataset.preset === name);
    press("[data-voice]", (button) => this.preset.voices.includes(button.dataset.voice));
    this.showValues();
  }

  move(name) {
    this.moved[name] = this.value(name);
    this.showValues();
    this.send("sound", { parameter: name, value: this.moved[name] });
  }

  value(name) {
    const position = Number(find(name).value);
    return toValue[name]?.(position) ?? position;
  }

  send(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  showValues() {
    show(find("tempo-value"), String(this.tempo()));
    show(find("intensity-value"), figure(Number(find("intensity").value), 2));
    SOUNDS.forEach((name) => show(find(`${name}-value`), figure(this.value(name), name === "brightness" ? 1 : 2)));
  }

  /** Beats per minute. */
  tempo() {
    return Number(find("tempo").value);
  }

  /** The settings that differ from the preset's, as the server's routes take them. */
  query() {
    const preset = this.preset;
    const query = new URLSearchParams({ preset: preset?.name ?? "focus", seed: find("seed").value || "0" });
    if (preset) {
      const now = { key: find("key").value, mode: find("mode").value };
      const figures = { tempo: this.tempo(), intensity: Number(find("intensity").value) };
      const differing = Object.entries({ ...now, ...figures }).filter(([id, value]) => value !== preset[id]);
      differing.forEach(([id, value]) => query.set(id, String(value)));
      const voices = [...document.querySelectorAll("[data-voice][aria-pressed=true]")].map((it) => it.dataset.voice);
      if (voices.join() !== preset.voices.join()) {
        query.set("voices", voices.join());
      }
      const moved = Object.entries(this.moved).filter(([name, value]) => value !== preset.controls[name]);
      moved.forEach(([name, value]) => query.set(name, String(value)));
    }
    return query;
  }

  /** `Focus in D dorian` */
  title() {
    const name = this.preset?.name ?? "focus";
    const key = find("key").value.replace("#", "\u266f");
    return `${name[0].toUpperCase()}${name.slice(1)} in ${key} ${find("mode").value}`;
  }
}

function press(selector, isPressed) {
  document
    .querySelectorAll(selector)
    .forEach((button) => button.setAttribute("aria-pressed", String(isPressed(button))));
}
