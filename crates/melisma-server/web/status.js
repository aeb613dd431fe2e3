// The server's state, once a second, for the header and for whoever listens.
import { Backoff, probe, protocols, socketUrl, useKey } from "./connection.js";
import { show } from "./element.js";

const PATH = "/v1/status";

/** Sends `report` (detail: the server's message) and `refused` (detail: a Refusal). */
export class Status extends EventTarget {
  /** @param {HTMLElement} text @param {HTMLElement} dot */
  constructor(text, dot) {
    super();
    this.text = text;
    this.dot = dot;
    this.backoff = new Backoff();
    this.timer = 0;
  }

  /** Tries a key; `report` or `refused` follows. @param {string} key */
  unlock(key) {
    useKey(key);
    this.start();
  }

  start() {
    clearTimeout(this.timer);
    this.socket?.close();
    const socket = new WebSocket(socketUrl(PATH), protocols());
    this.socket = socket;
    socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    socket.onclose = () => {
      if (socket === this.socket) {
        this.lose();
      }
    };
  }

  take(report) {
    this.backoff.reset();
    show(this.text, ["connected", ...places(report.places)].join(" · "));
    this.dot.classList.add("fine");
    this.dispatchEvent(new CustomEvent("report", { detail: report }));
  }

  async lose() {
    this.dot.classList.remove("fine");
    const refusal = await probe(PATH);
    this.dispatchEvent(new CustomEvent("refused", { detail: refusal }));
    show(this.text, refusal.kind === "key" ? "needs a key" : "disconnected");
    if (refusal.kind !== "key") {
      this.timer = setTimeout(() => this.start(), this.backoff.nextMs());
    }
  }
}

/** Tokens and music have places of their own. */
function places({ decode, synth }) {
  const one = (name, { in_use: used, limit }) => `${name} ${used} of ${limit.toLocaleString("en")}`;
  return [decode && one("tokens", decode), synth && one("music", synth)].filter(Boolean);
}
