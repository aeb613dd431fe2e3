// The audio side of a view: a context, the worklet that plays a ring, and the ring.
import { FIELD, Ring } from "./ring.js";

/** A browser that blocks the sound never says so. One that was touched blocks none, but may be slow to begin. */
const [PATIENCE_MS, TOUCHED_PATIENCE_MS] = [1000, 30_000];
/** Frames: more than a second at any common rate. */
const CAPACITY = 1 << 17;

/** Why this browser cannot play, or `null`. */
export function obstacle() {
  if (!globalThis.isSecureContext) {
    return "Browsers play live sound only over HTTPS or on localhost. Open this page at one of those addresses.";
  }
  if (!globalThis.AudioWorkletNode || !globalThis.SharedArrayBuffer) {
    return "This browser lacks AudioWorklet or shared memory. A current Chrome, Edge, Firefox or Safari has both.";
  }
  return null;
}

export class Player {
  /**
   * @param {AudioContextOptions} options
   * @param {{ targetSeconds: number, isLive: boolean }} pace the sound that waits before it begins, and see LIVE
   */
  constructor(options, { targetSeconds, isLive }) {
    this.context = new AudioContext({ latencyHint: "interactive", ...options });
    this.rate = this.context.sampleRate;
    this.ring = Ring.create(CAPACITY);
    this.ring.set(FIELD.TARGET, Math.round(targetSeconds * this.rate));
    this.ring.set(FIELD.LIVE, Number(isLive));
    this.ready = this.prepare();
  }

  async prepare() {
    await this.context.audioWorklet.addModule(new URL("./worklet.js", import.meta.url));
    this.node = new AudioWorkletNode(this.context, "ring-player", {
      numberOfInputs: 0,
      outputChannelCount: [2],
      processorOptions: { memory: this.ring.memory },
    });
    this.node.connect(this.context.destination);
  }

  /** Lets the sound begin as soon as there is some. Returns whether the browser allows it. */
  async resume() {
    await this.ready;
    const patienceMs = navigator.userActivation?.hasBeenActive ? TOUCHED_PATIENCE_MS : PATIENCE_MS;
    const timeout = new Promise((resolve) => setTimeout(resolve, patienceMs));
    await Promise.race([this.context.resume(), timeout]);
    const isRunning = this.context.state === "running";
    this.ring.set(FIELD.WANTED, Number(isRunning));
    return isRunning;
  }

  /** Fades out; what waits in the ring is dropped. */
  stop() {
    this.ring.set(FIELD.WANTED, 0);
    this.ring.set(FIELD.UNDERRUNS, 0);
  }

  /** Seconds of sound that wait. */
  bufferSeconds() {
    return Math.max(0, this.ring.fill()) / this.rate;
  }

  /** Seconds of sound that should wait. */
  targetSeconds() {
    return this.ring.get(FIELD.TARGET) / this.rate;
  }

  /** Seconds from the server's samples to the loudspeaker. */
  latencySeconds() {
    return this.bufferSeconds() + (this.context.outputLatency || this.context.baseLatency || 0);
  }
}
