// The piano roll: four bars of notes, those that were played and those that follow.
import { colour, surface } from "./element.js";

const BEATS = 16;
const LOWEST = 30;
const HIGHEST = 96;
const DRUMS = ["kick", "hat"];
const PARTS = { lead: "melody", pluck: "melody", pad: "chords" };

/** The part that an instrument belongs to, which has a colour in the legend. @param {string} instrument */
export function partOf(instrument) {
  return PARTS[instrument] ?? "bass";
}

/**
 * @typedef {object} Note as the server plans it
 * @property {number} start_sample
 * @property {number} duration_samples
 * @property {number} key
 * @property {string} instrument
 */
export class Roll {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    /** @type {Note[]} */
    this.notes = [];
    this.colours = {};
    this.readColours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readColours());
  }

  readColours() {
    for (const name of ["line", "sound", "melody", "chords", "bass"]) {
      this.colours[name] = colour(name);
    }
  }

  clear() {
    this.notes = [];
  }

  /** @param {Note[]} notes */
  add(notes) {
    this.notes.push(...notes);
  }

  /** Keys of the notes that sound at `sample`, each with its part; the melody wins. @param {number} sample */
  sounding(sample) {
    const isSounding = (note) =>
      note.start_sample <= sample && sample < note.start_sample + note.duration_samples && !DRUMS.includes(note.instrument);
    const notes = this.notes.filter(isSounding).map((note) => [note.key, partOf(note.instrument)]);
    return new Map(notes.sort(([, a], [, b]) => a.localeCompare(b)));
  }

  /**
   * @param {number} sample the one that is heard
   * @param {number} beatSamples
   */
  draw(sample, beatSamples) {
    const pageSamples = BEATS * beatSamples;
    const first = Math.floor(sample / pageSamples) * pageSamples;
    this.notes = this.notes.filter((note) => note.start_sample + note.duration_samples > first - pageSamples);
    const { context, width, height } = surface(this.canvas);
    const beat = width / BEATS;
    context.fillStyle = this.colours.line;
    for (let i = 1; i < BEATS; i++) {
      context.fillRect(i * beat, 0, i % 4 ? 0.5 : 1, height);
    }
    const x = (at) => ((at - first) / pageSamples) * width;
    for (const note of this.notes) {
      const [left, right] = [x(note.start_sample), x(note.start_sample + note.duration_samples)];
      if (right > 0 && left < width) {
        this.drawNote(context, note, { left, right, height, isHeard: note.start_sample <= sample });
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = this.colours.sound;
    context.fillRect(x(sample) - 0.75, 0, 1.5, height);
  }

  drawNote(context, note, { left, right, height, isHeard }) {
    const isDrum = DRUMS.includes(note.instrument);
    const share = Math.min(1, Math.max(0, (note.key - LOWEST) / (HIGHEST - LOWEST)));
    const y = isDrum ? height - (note.instrument === "kick" ? 10 : 18) : (height - 40) * (1 - share) + 12;
    context.fillStyle = this.colours[partOf(note.instrument)];
    context.globalAlpha = isHeard ? 1 : 0.45;
    context.beginPath();
    context.roundRect(left + 2, y, isDrum ? 5 : Math.max(3, right - left - 4), 5, 2);
    context.fill();
  }
}
