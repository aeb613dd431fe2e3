// Four octaves of keys: by pointer, by focus and arrows, and by the letters of the computer's keyboard.
import { make } from "./element.js";

const FIRST_KEY = 36;
const OCTAVES = 4;
const WHITE = [0, 2, 4, 5, 7, 9, 11];
const NAMES = ["C", "C sharp", "D", "D sharp", "E", "F", "F sharp", "G", "G sharp", "A", "A sharp", "B"];
/** By place on the keyboard, not by letter, so that every layout has the same piano. */
const CODES = [
  "KeyA", "KeyW", "KeyS", "KeyE", "KeyD", "KeyF", "KeyT", "KeyG", "KeyY", "KeyH", "KeyU", "KeyJ", "KeyK", "KeyO",
  "KeyL", "KeyP", "Semicolon",
];
const VELOCITY = 0.8;

/** Sends `down` and `up` (detail: {key, velocity}). */
export class Keyboard extends EventTarget {
  /** @param {HTMLElement} place */
  constructor(place) {
    super();
    this.place = place;
    this.octave = 4;
    /** The part whose colour the listener's own keys have. */
    this.part = "melody";
    /** @type {Map<string, number>} the key that each pointer or letter holds */
    this.held = new Map();
    /** @type {Map<number, HTMLElement>} */
    this.buttons = new Map();
    /** @type {Map<number, string>} the part of each key that is lit */
    this.lit = new Map();
    this.build();
    place.addEventListener("pointerdown", (event) => this.point(event));
    place.addEventListener("pointermove", (event) => this.held.has(`pointer ${event.pointerId}`) && this.point(event));
    for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) {
      addEventListener(type, (event) => this.release(`pointer ${event.pointerId}`));
    }
    addEventListener("keydown", (event) => this.type(event));
    addEventListener("keyup", (event) => this.release(event.code));
    addEventListener("blur", () => this.releaseAll(""));
  }

  /** Releases the keys of every holder whose name begins so. @param {string} holders */
  releaseAll(holders) {
    [...this.held.keys()].filter((holder) => holder.startsWith(holders)).forEach((holder) => this.release(holder));
  }

  build() {
    for (let i = 0; i < 12 * OCTAVES; i++) {
      const [octave, step] = [Math.floor(i / 12), i % 12];
      const isWhite = WHITE.includes(step);
      const at = 7 * octave + WHITE.findLastIndex((white) => white <= step);
      const button = make("button", {
        type: "button",
        tabindex: i === 24 ? "0" : "-1",
        "aria-label": `${NAMES[step]} ${octave + 2}`,
        class: `${isWhite ? "white" : "black"}${octave === 0 || octave === OCTAVES - 1 ? " outer" : ""}`,
      });
      button.dataset.key = String(FIRST_KEY + i);
      button.style.setProperty("--at", String(at));
      this.buttons.set(FIRST_KEY + i, button);
      this.place.append(button);
    }
  }

  hold(holder, key, velocity = VELOCITY) {
    if (this.held.get(holder) !== key) {
      this.release(holder);
      this.held.set(holder, key);
      this.dispatchEvent(new CustomEvent("down", { detail: { key, velocity } }));
      this.paint();
    }
  }

  release(holder) {
    const key = this.held.get(holder);
    if (key !== undefined) {
      this.held.delete(holder);
      if (![...this.held.values()].includes(key)) {
        this.dispatchEvent(new CustomEvent("up", { detail: { key } }));
      }
      this.paint();
    }
  }

  point(event) {
    const under = document.elementFromPoint(event.clientX, event.clientY);
    const button = under?.closest("[data-key]");
    if (button) {
      this.place.setPointerCapture(event.pointerId);
      this.hold(`pointer ${event.pointerId}`, Number(button.dataset.key));
    }
  }

  type(event) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const focused = event.target.closest?.("[data-key]");
    if (focused && this.walk(event, focused)) {
      event.preventDefault();
      return;
    }
    if (event.target.matches?.("input:not([type=range]), textarea, select") || this.place.closest("[hidden]")) {
      return;
    }
    const step = CODES.indexOf(event.code);
    if (step >= 0) {
      this.hold(event.code, 12 * (this.octave + 1) + step);
    } else if (event.code === "KeyZ" || event.code === "KeyX") {
      this.octave = Math.min(6, Math.max(1, this.octave + (event.code === "KeyX" ? 1 : -1)));
    }
  }

  /** Arrows move between keys; the space bar and Enter play one. */
  walk(event, focused) {
    const key = Number(focused.dataset.key);
    if (event.code === "Space" || event.code === "Enter") {
      this.hold(event.code, key);
      return true;
    }
    const to = this.buttons.get(key + ({ ArrowRight: 1, ArrowLeft: -1 }[event.code] ?? 0));
    if (!to || to === focused) {
      return false;
    }
    focused.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    return true;
  }

  /** Lights the keys of notes that sound. @param {Map<number, string>} sounding the part of each */
  light(sounding) {
    this.sounding = sounding;
    this.paint();
  }

  paint() {
    const held = [...this.held.values()].map((key) => [key, this.part]);
    const lit = new Map([...(this.sounding ?? []), ...held]);
    for (const key of new Set([...lit.keys(), ...this.lit.keys()])) {
      const button = this.buttons.get(key);
      if (button && lit.get(key) !== this.lit.get(key)) {
        button.classList.toggle("lit", lit.has(key));
        button.dataset.part = lit.get(key) ?? "";
      }
    }
    this.lit = lit;
  }
}
