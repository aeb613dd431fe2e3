// A small chart: the figure of now in large type, and its past with a scale, a span and a limit.
import { round } from "./axis.js";
import { make, show } from "./element.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [300, 64];
/** The longest time that is kept. */
const KEPT_MS = 30 * 60e3;
/** Longer than this between two reports, the server was away: the line breaks. */
const GAP_MS = 5000;

/** @param {string} name @param {Record<string, string>} attributes */
function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  return made;
}

export class Chart {
  /**
   * @param {HTMLElement} place
   * @param {{ title: string, nLines?: number, isBars?: boolean, scale?: (value: number) => string }} options
   */
  constructor(place, { title, nLines = 1, isBars = false, scale = (value) => value.toLocaleString("en") }) {
    Object.assign(this, { title, isBars, scale });
    /** @type {{ ms: number, values: number[] }[]} */
    this.points = [];
    this.limit = 0;
    this.now = make("b", {}, "–");
    this.note = make("span", { class: "soft" }, title);
    this.most = make("span", { class: "most" });
    this.since = make("span", {});
    this.svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.bound = shape("path", { class: "limit" });
    this.lines = Array.from({ length: nLines }, (_, i) => shape("path", { class: ["first", "second"][i] }));
    this.svg.append(this.bound, ...this.lines);
    const plot = make("div", { class: "plot" }, this.most, this.svg, make("span", { class: "least" }, "0"));
    const span = make("div", { class: "span" }, this.since, make("span", {}, "now"));
    place.append(make("div", { class: "chart" }, this.now, this.note, plot, span));
  }

  /**
   * @param {string} text the figure of now
   * @param {(number | null)[]} values one of each line
   * @param {{ note?: (Node | string)[], limit?: number }} more the caption in place of the title, and the limit
   */
  add(text, values, { note, limit = 0 } = {}) {
    show(this.now, text);
    if (note) {
      this.note.replaceChildren(...note);
    }
    this.limit = limit;
    const ms = performance.now();
    this.points.push({ ms, values: values.map((value) => value ?? 0) });
    this.points = this.points.filter((point) => ms - point.ms <= KEPT_MS);
    this.svg.setAttribute("aria-label", `${this.title}: ${text}`);
  }

  /** @param {number} minutes that it shows */
  draw(minutes) {
    const end = this.points.at(-1)?.ms ?? 0;
    const shown = this.points.filter(({ ms }) => end - ms <= minutes * 60e3);
    const highest = Math.max(0, ...shown.flatMap(({ values }) => values));
    const most = highest > this.limit ? round(highest) : this.limit || 1;
    const x = (ms) => (WIDTH * (1 - (end - ms) / (minutes * 60e3))).toFixed(1);
    const y = (value) => (HEIGHT - 1 - (value / most) * (HEIGHT - 3)).toFixed(1);
    this.lines.forEach((line, i) => {
      const steps = shown.map(({ ms, values }, at) => {
        if (this.isBars) {
          return values[i] > 0 ? `M${x(ms)} ${y(0)}V${y(values[i])}` : "";
        }
        const isNew = at === 0 || ms - shown[at - 1].ms > GAP_MS;
        return `${isNew ? "M" : "L"}${x(ms)} ${y(values[i])}`;
      });
      line.setAttribute("d", steps.join(""));
    });
    this.bound.setAttribute("d", this.limit > 0 ? `M0 ${y(this.limit)}H${WIDTH}` : "");
    show(this.most, this.scale(most));
    show(this.since, `${minutes} min ago`);
  }
}
