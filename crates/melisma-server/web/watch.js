// The view Watch: the server's load, once a second.
import { keep, settings } from "./address.js";
import { Chart } from "./chart.js";
import { keyQuestion, request } from "./connection.js";
import { count, figure, find, make, milliseconds, show } from "./element.js";
import { Notice } from "./notice.js";

const MEGABYTE = 1e6;
/** Minutes that the charts can show, and those that they show first. */
const SPANS = [1, 5, 30];
const SPAN = 5;
/** Words for the reasons why requests left the queue without a place. */
const GIVEN_UP = { refused: "refused at once", timeout: "waited too long", client_left: "left", draining: "server stopped" };
/** Words for the reasons of refusals; others are the server's codes. */
const REASONS = {
  full: "full",
  key_streams: "too many streams of one key",
  connections: "too many connections",
  invalid_api_key: "wrong key",
  key_scope: "outside of a key's scope",
  too_long: "too long",
  too_large: "too large",
  no_voice: "no voice",
};
/** Counts by reason, the most frequent first, without zeros. @param {Record<string, number>} reasons */
function counts(reasons, names) {
  const found = Object.entries(reasons).filter(([, n]) => n > 0).sort(([, a], [, b]) => b - a);
  return found.map(([code, n]) => `${names[code] ?? code.replaceAll("_", " ")} ${n.toLocaleString("en")}`).join(", ");
}
const shown = (seconds) => (seconds === null ? "–" : milliseconds(seconds));
const megabytes = (bytes) => `${figure(bytes / MEGABYTE)} MB`;
/** The caption of a line, with a mark of its colour. */
const mark = (line, text) => make("span", {}, make("i", { class: line }), text);

export class WatchView {
  /** @param {import("./status.js").Status} status */
  constructor(status) {
    this.place = find("charts");
    this.notice = new Notice(find("watch-notice"));
    this.status = status;
    this.isVisible = false;
    this.minutes = SPANS.find((minutes) => String(minutes) === settings().get("span")) ?? SPAN;
    /** @type {Record<string, Chart>} */
    this.charts = {};
    /** @type {Record<string, number>} counters of the last report */
    this.before = {};
    find("spans").append(...SPANS.map((minutes) => this.spanButton(minutes)));
    status.addEventListener("report", ({ detail }) => this.take(detail));
    status.addEventListener("refused", ({ detail }) => this.lock(detail));
  }

  show() {
    this.isVisible = true;
    this.draw();
  }

  hide() {
    this.isVisible = false;
  }

  spanButton(minutes) {
    const isChosen = minutes === this.minutes;
    const button = make("button", { type: "button", "aria-pressed": String(isChosen) }, `${minutes} min`);
    button.addEventListener("click", () => {
      this.minutes = minutes;
      keep({ span: minutes === SPAN ? null : String(minutes) });
      [...find("spans").children].forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
      this.draw();
    });
    return button;
  }

  draw() {
    if (this.isVisible) {
      Object.values(this.charts).forEach((chart) => chart.draw(this.minutes));
    }
  }

  /** Without a key, the page shows what everybody may know. @param {import("./connection.js").Refusal} refused */
  async lock({ kind }) {
    if (kind !== "key") {
      show(find("device"), "The server is gone. The charts go on when it is back.");
      return;
    }
    find("figures").hidden = true;
    find("spans").hidden = true;
    this.notice.askKey(keyQuestion(), (key) => this.status.unlock(key));
    const [health, ready] = await Promise.all(["/health", "/ready"].map((path) => request(path).catch(() => null)));
    const { version } = (await health?.json().catch(() => null)) ?? {};
    const name = typeof version === "string" ? ` Melisma ${version}` : "";
    const state = ready?.ok ? "is ready" : "is not ready yet";
    show(find("device"), `The server runs${name} and ${state}. Its figures need a key.`);
  }

  take(report) {
    const { streams, stages, places, queue, queue_depth: depth } = report;
    find("figures").hidden = false;
    find("spans").hidden = false;
    this.notice.hide();
    const device = report.device ?? "a device that is still being prepared";
    const music = places.synth ? ` and ${count(places.synth.limit, "listener")} of music` : "";
    show(find("device"), `On ${device}, with room for ${count(report.capacity_streams, "stream")} of tokens${music}.`);
    this.takePlaces("decode", "places for tokens", places.decode);
    this.takePlaces("synth", "places for music", places.synth);
    (report.speakers ?? []).forEach((one) => this.takeSpeakers(one));
    this.takeDecode(stages.decode, report.frame_seconds);
    if (queue) {
      this.takeQueue(queue);
    }
    this.chart("frames", { title: "frames that wait for their step" }).add(String(depth), [depth]);
    const batch = report.batch_size;
    this.chart("batch", { title: "streams in a step, median" }).add(batch === null ? "–" : figure(batch), [batch]);
    this.takeRefusals(report.refusals);
    this.takeMissed(report.missed_deadlines);
    const memory = this.chart("memory", { title: "memory", scale: megabytes });
    memory.add(megabytes(report.memory_bytes), [report.memory_bytes]);
    this.takeGpu(report.gpu ?? {});
    this.draw();
    this.fill("stages", Object.entries(stages), ([name, { p50_seconds: p50, p99_seconds: p99 }]) => [name, shown(p50), shown(p99)]);
    this.fill("streams", streams, (stream) => [
      stream.id.slice(0, 8),
      stream.kind,
      `${figure(stream.seconds)} s`,
      `${figure(stream.buffer_seconds * 1e3)} ms`,
    ]);
    find("no-streams").hidden = streams.length > 0;
  }

  /** The chart of that name, made when it is first needed. */
  chart(name, options) {
    return (this.charts[name] ??= new Chart(this.place, options));
  }

  takePlaces(name, title, places) {
    if (places) {
      const text = `${places.in_use} of ${places.limit.toLocaleString("en")}`;
      this.chart(name, { title }).add(text, [places.in_use], { limit: places.limit });
    }
  }

  /** The texts that a voice model speaks, and those that wait for it. */
  takeSpeakers({ model, in_use: used, waiting, capacity: { speakers: limit } }) {
    const chart = this.chart(`speakers-${model}`, { title: `speakers of ${model}, and texts that wait`, nLines: 2 });
    const note = [mark("first", `speakers of ${model}`), mark("second", `waiting ${waiting}`)];
    chart.add(`${used} of ${limit.toLocaleString("en")}`, [used, waiting], { note, limit });
  }

  takeDecode(times, frameSeconds) {
    this.takeTimes("time", "decoding", times, frameSeconds && ["frame", frameSeconds]);
  }

  /** Who waits, who gave up and why, and how long places took. */
  takeQueue({ waiting, given_up: reasons = {}, limit_seconds: limit, ...times }) {
    const words = counts(reasons, GIVEN_UP);
    const note = [`requests that wait for a place${words ? `; gave up: ${words}` : ""}`];
    this.chart("waiting", { title: "requests that wait for a place" }).add(String(waiting), [waiting], { note });
    this.takeTimes("wait", "in the queue", times, limit && ["limit", limit]);
  }

  /** A chart of two quantiles, and of what bounds them: its name and its seconds. */
  takeTimes(name, title, { p50_seconds: p50 = null, p99_seconds: p99 = null }, bound) {
    const note = [mark("first", `${title}, p50`), mark("second", `p99 ${shown(p99)}`)];
    const [limitName, limit] = bound || ["", 0];
    if (limit > 0) {
      note.push(mark("limit", `${limitName} ${milliseconds(limit)}`));
    }
    const chart = this.chart(name, { title: `${title}, p50 and p99`, nLines: 2, scale: milliseconds });
    chart.add(shown(p50), [p50, p99], { note, limit });
  }

  /** Refusals by reason, the most frequent first. @param {Record<string, number>} refusals */
  takeRefusals(refusals) {
    const total = Object.values(refusals).reduce((sum, n) => sum + n, 0);
    const chart = this.chart("refused", { title: "requests refused, a second", isBars: true });
    const note = [counts(refusals, REASONS) || "no request so far"];
    chart.add(`${total.toLocaleString("en")} refused`, [this.growth("refused", total)], { note });
  }

  takeMissed(missed) {
    const chart = this.chart("missed", { title: "missed deadlines, a second", isBars: true });
    const note = ["frames whose sound was not decoded in time"];
    chart.add(`${missed.toLocaleString("en")} missed`, [this.growth("missed", missed)], { note });
  }

  /** What a counter gained since the last report. */
  growth(name, total) {
    const before = this.before[name] ?? total;
    this.before[name] = total;
    return Math.max(0, total - before);
  }

  // What a GPU never told has no chart; what it tells no longer, as one that disappeared, has a line that ends.
  takeGpu({ memory_bytes: bytes, total_bytes: total, busy_percent: busy, power_watts: power }) {
    const add = (name, title, { value, limit, scale }) => {
      if (typeof value === "number") this.chart(name, { title, scale }).add(scale(value), [value], { limit });
      else if (this.charts[name]) show(this.charts[name].now, "–");
    };
    const percent = (value) => `${value} %`;
    const watts = (value) => `${figure(value)} W`;
    add("gpuMemory", "memory of the GPU", { value: bytes, limit: total, scale: megabytes });
    add("gpuBusy", "the GPU is busy", { value: busy, limit: 100, scale: percent });
    add("gpuPower", "power of the GPU", { value: power, scale: watts });
  }

  fill(id, items, cells) {
    const row = (item) => make("tr", {}, ...cells(item).map((text, i) => make("td", i > 0 ? { class: "figure" } : {}, text)));
    find(id).replaceChildren(...items.map(row));
  }
}
