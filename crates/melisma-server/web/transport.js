// A stream of live music from the first connection to the last: opened, changed, lost and found again.
import { Backoff, probe, protocols, socketUrl } from "./connection.js";

/** A stream that lasted this long was a good one. */
const GOOD_MS = 5000;

/**
 * Sends `state` (detail: State), `begun`, and the server's messages by their type.
 * @typedef {object} State
 * @property {"idle" | "waiting" | "playing" | "key" | "full" | "gone" | "invalid"} name
 * @property {string} [message]
 * @property {number} [waitMs] until the next attempt
 * @property {boolean} [mayHelp] whether the same request may succeed later
 */
export class Transport extends EventTarget {
  /** @param {import("./ring.js").Ring} ring */
  constructor(ring) {
    super();
    this.worker = new Worker(new URL("./live-worker.js", import.meta.url), { type: "module" });
    this.worker.postMessage({ type: "ring", memory: ring.memory });
    this.worker.onmessage = ({ data }) => this.take(data);
    this.backoff = new Backoff();
    this.path = "";
    this.isWanted = false;
    this.begunMs = 0;
  }

  /** Opens the stream at `path`; one that plays goes on until the new one begins. @param {string} path */
  open(path) {
    this.path = path;
    this.isWanted = true;
    this.failure = null;
    this.worker.postMessage({ type: "open", url: socketUrl(path), protocols: protocols() });
  }

  /** Opens the same stream again. */
  again() {
    if (this.isWanted) {
      this.enter({ name: "waiting" });
      this.open(this.path);
    }
  }

  stop() {
    this.isWanted = false;
    this.worker.postMessage({ type: "close" });
    this.enter({ name: "idle" });
  }

  /** @param {object} message of docs/protocol.md */
  say(message) {
    this.worker.postMessage({ type: "say", message });
  }

  /** @param {"start" | "save" | "cancel"} what */
  record(what) {
    this.worker.postMessage({ type: "record", what });
  }

  /** @param {State} state */
  enter(state) {
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }

  take(data) {
    if (data.type === "begun") {
      this.begunMs = performance.now();
      this.enter({ name: "playing" });
    } else if (data.type === "closed") {
      this.lose(data.wasOpen);
    } else if (data.type === "error") {
      this.failure = data.error.message;
    }
    this.dispatchEvent(new CustomEvent(data.type, { detail: data }));
  }

  async lose(wasOpen) {
    if (!this.isWanted) {
      return;
    }
    if (this.failure) {
      this.isWanted = false;
      // It was open: a new stream begins without what went wrong in this one.
      this.enter({ name: "invalid", message: this.failure, mayHelp: true });
      return;
    }
    if (wasOpen && performance.now() - this.begunMs > GOOD_MS) {
      this.backoff.reset();
    }
    const path = this.path;
    const { kind, message, retrySeconds, mayHelp } = await probe(path);
    if (!this.isWanted || path !== this.path) {
      return;
    }
    if (kind === "key" || kind === "invalid") {
      this.enter({ name: kind, message, mayHelp });
    } else {
      const waitMs = Math.max(retrySeconds * 1e3, this.backoff.nextMs());
      this.enter({ name: kind === "full" ? "full" : "gone", message, waitMs });
    }
  }
}
