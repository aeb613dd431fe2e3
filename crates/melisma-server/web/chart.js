// A small chart: the figure of now in large type, and the last five minutes as a line.
import { make, show } from "./element.js";

const POINTS = 300;
const SVG = "http://www.w3.org/2000/svg";

export class Chart {
  /**
   * @param {HTMLElement} place
   * @param {string} title
   * @param {number} nLines
   */
  constructor(place, title, nLines = 1) {
    this.now = make("b", {}, "–");
    this.note = make("span", { class: "soft" }, title);
    this.title = title;
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 64`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.lines = Array.from({ length: nLines }, (_, i) => {
      const line = document.createElementNS(SVG, "polyline");
      line.setAttribute("class", i === 0 ? "first" : "second");
      this.svg.append(line);
      return { line, values: [] };
    });
    place.append(make("div", { class: "chart" }, this.now, this.note, this.svg));
  }

  /** @param {string} text the figure of now @param {(number | null)[]} values one of each line */
  add(text, ...values) {
    show(this.now, text);
    this.lines.forEach(({ values: list }, i) => {
      list.push(values[i] ?? 0);
      list.splice(0, list.length - POINTS);
    });
    const most = Math.max(1e-9, ...this.lines.flatMap(({ values: list }) => list));
    for (const { line, values: list } of this.lines) {
      const first = POINTS - list.length;
      const points = list.map((value, i) => `${first + i},${(62 - (value / most) * 60).toFixed(1)}`);
      line.setAttribute("points", points.join(" "));
    }
    this.svg.setAttribute("aria-label", `${this.title}: ${text}, the last five minutes`);
  }
}
