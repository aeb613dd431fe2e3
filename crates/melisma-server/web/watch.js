// The view Watch: the server's load, once a second.
import { Chart } from "./chart.js";
import { count, figure, find, make, milliseconds, show } from "./element.js";

const MEGABYTE = 1e6;
const shown = (seconds) => (seconds === null ? "–" : milliseconds(seconds));

export class WatchView {
  /** @param {import("./status.js").Status} status */
  constructor(status) {
    const place = find("charts");
    this.streams = new Chart(place, "streams open");
    this.batch = new Chart(place, "streams in a step");
    this.decode = new Chart(place, "decoding, p50 and p99", 2);
    this.queue = new Chart(place, "frames waiting");
    this.memory = new Chart(place, "memory");
    this.refused = new Chart(place, "refused so far");
    this.place = place;
    status.addEventListener("report", ({ detail }) => this.take(detail));
    status.addEventListener("refused", ({ detail }) => {
      show(find("device"), detail.kind === "key" ? "This server needs a key: enter it under Play." : "The server is gone. The charts go on when it is back.");
    });
  }

  show() {}

  hide() {}

  take(report) {
    const { streams, stages, capacity_streams: capacity } = report;
    const device = report.device ?? "a device that is still being prepared";
    show(find("device"), `On ${device}, with room for ${count(capacity, "stream")} of tokens.`);
    this.streams.add(String(streams.length), streams.length);
    this.batch.add(report.batch_size === null ? "–" : figure(report.batch_size, 0), report.batch_size);
    this.decode.add(shown(stages.decode.p50_seconds), stages.decode.p50_seconds, stages.decode.p99_seconds);
    this.queue.add(String(report.queue_depth), report.queue_depth);
    this.memory.add(`${figure(report.memory_bytes / MEGABYTE)} MB`, report.memory_bytes);
    this.refused.add(String(report.refused), report.refused);
    if (report.gpu) this.takeGpu(report.gpu);
    this.fill("stages", Object.entries(stages), ([name, { p50_seconds: p50, p99_seconds: p99 }]) => [name, shown(p50), shown(p99)]);
    this.fill("streams", streams, (stream) => [
      stream.id.slice(0, 8),
      stream.kind,
      `${figure(stream.seconds)} s`,
      `${figure(stream.buffer_seconds * 1e3)} ms`,
    ]);
    find("no-streams").hidden = streams.length > 0;
  }

  // What a GPU does not tell has no chart.
  takeGpu({ memory_bytes: bytes, busy_percent: busy, power_watts: power }) {
    const chart = (name, title) => (this[name] ??= new Chart(this.place, title));
    chart("gpuMemory", "memory of the GPU").add(`${figure(bytes / MEGABYTE)} MB`, bytes);
    if (busy !== null) chart("gpuBusy", "the GPU is busy").add(`${busy} %`, busy);
    if (power !== null) chart("gpuPower", "power of the GPU").add(`${figure(power)} W`, power);
  }

  fill(id, items, cells) {
    const row = (item) => make("tr", {}, ...cells(item).map((text, i) => make("td", i > 0 ? { class: "figure" } : {}, text)));
    find(id).replaceChildren(...items.map(row));
  }
}
