// Waveform and mel spectrogram from the server's messages, while they come.
import { label, marks, melShare } from "./axis.js";
import { colour, figure, surface } from "./element.js";
import { MAGMA } from "./magma.js";

/** Columns of a picture; a longer sound has several frames to a column. */
const MAX_COLUMNS = 4096;
/** A byte of the server is (dB + 100) / 0.4; the picture shows -90 to -10 dB. */
const [DARK, BRIGHT] = [25, 225];
/** Frequencies that the axis names, in Hz. */
const PITCHES = [200, 500, 1000, 2000, 4000, 8000, 16_000];
/** Pixels between two marks of time, at least. */
const MARK_PX = 56;

/** A list of columns that merges neighbours when it is full. */
class Columns {
  /** @param {(a: any, b: any) => any} merge */
  constructor(merge) {
    this.merge = merge;
    this.clear();
  }

  clear() {
    this.list = [];
    this.stride = 1;
    this.n = 0;
  }

  push(column) {
    const isNew = this.n % this.stride === 0;
    this.n += 1;
    if (isNew) {
      this.list.push(column);
    } else {
      this.list.push(this.merge(this.list.pop(), column));
    }
    if (this.list.length > MAX_COLUMNS) {
      this.list = Array.from({ length: Math.ceil(this.list.length / 2) }, (_, i) => {
        const pair = this.list.slice(2 * i, 2 * i + 2);
        return pair.length === 2 ? this.merge(...pair) : pair[0];
      });
      this.stride *= 2;
    }
  }
}

export class Picture {
  /**
   * @param {{ wave: HTMLCanvasElement, spectrogram: HTMLCanvasElement }} canvases
   * @param {{ hz: HTMLElement, seconds: HTMLElement }} axes
   */
  constructor({ wave, spectrogram }, axes) {
    this.wave = wave;
    this.spectrogram = spectrogram;
    this.axes = axes;
    this.rate = 0;
    this.hop = 0;
    this.outline = new Columns(([a, b], [c, d]) => [Math.min(a, c), Math.max(b, d)]);
    this.mel = new Columns((a, b) => a.map((value, i) => Math.max(value, b[i])));
    this.isStale = true;
    const stale = () => (this.isStale = true);
    addEventListener("resize", stale);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", stale);
  }

  /** Empties the picture for a sound of another rate. @param {number} rate */
  clear(rate) {
    this.rate = rate;
    this.outline.clear();
    this.mel.clear();
    this.isStale = true;
  }

  /** @param {{ min: number[], max: number[] }} message */
  addWave({ min, max }) {
    min.forEach((low, i) => this.outline.push([low, max[i]]));
    this.isStale = true;
  }

  /** @param {{ n_mels: number, hop_samples: number, data: string }} message */
  addMel({ n_mels: n, hop_samples: hop, data }) {
    this.hop = hop;
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    for (let at = 0; at < bytes.length; at += n) {
      this.mel.push(bytes.slice(at, at + n));
    }
    this.isStale = true;
  }

  /** Draws what has changed. */
  draw() {
    if (this.isStale) {
      this.isStale = false;
      this.drawWave();
      this.drawMel();
      this.drawAxes();
    }
  }

  drawAxes() {
    const { list, n } = this.mel;
    const seconds = (n * this.hop) / this.rate;
    if (list.length === 0 || seconds === 0) {
      Object.values(this.axes).forEach((axis) => axis.replaceChildren());
      return;
    }
    const places = marks(seconds, Math.max(1, Math.floor(this.wave.clientWidth / MARK_PX)));
    const digits = places[1] < 1 ? 1 : 0;
    label(this.axes.seconds, "left", places.map((at) => ({ at: at / seconds, text: `${figure(at, digits)} s` })));
    const pitches = PITCHES.filter((hz) => hz < 0.45 * this.rate);
    const text = (hz) => (hz < 1000 ? `${hz} Hz` : `${hz / 1000} kHz`);
    const share = (hz) => melShare(hz, this.rate, list[0].length);
    label(this.axes.hz, "bottom", pitches.map((hz) => ({ at: share(hz), text: text(hz) })));
  }

  drawWave() {
    const { context, width, height } = surface(this.wave);
    const { list } = this.outline;
    // Quiet sounds fill the picture too.
    const peak = list.reduce((most, [min, max]) => Math.max(most, -min, max), 1e-4) / 0.95;
    context.fillStyle = colour("data");
    for (let x = 0; x < width && list.length > 0; x++) {
      const from = Math.floor((x / width) * list.length);
      const to = Math.max(from + 1, Math.floor(((x + 1) / width) * list.length));
      const part = list.slice(from, to);
      const low = Math.min(...part.map(([min]) => min));
      const high = Math.max(...part.map(([, max]) => max));
      context.fillRect(x, (height / 2) * (1 - high / peak), 1, Math.max(1, (height / 2) * ((high - low) / peak)));
    }
  }

  drawMel() {
    const { context, width, height } = surface(this.spectrogram);
    const { list } = this.mel;
    if (list.length === 0) {
      return;
    }
    const n = list[0].length;
    const image = new ImageData(list.length, n);
    list.forEach((column, x) => {
      for (let y = 0; y < n; y++) {
        const level = Math.round(((column[n - 1 - y] - DARK) / (BRIGHT - DARK)) * 255);
        image.data.set([...MAGMA[Math.max(0, Math.min(255, level))], 255], 4 * (y * list.length + x));
      }
    });
    const canvas = new OffscreenCanvas(list.length, n);
    canvas.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(canvas, 0, 0, width, height);
  }
}
