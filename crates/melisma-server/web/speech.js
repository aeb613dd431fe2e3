// Text to speech: the field with its voices and its speed, and the samples while the server speaks them.
import { request } from "./connection.js";
import { figure, find, make, show } from "./element.js";

const MODEL = "melisma";
const S16_SCALE = 1 / 32768;

/** The text field, which is there where the server can speak. */
export class SpeechField extends EventTarget {
  constructor() {
    super();
    this.isThere = false;
    const send = () => this.dispatchEvent(new Event("speak"));
    find("say").addEventListener("click", send);
    find("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        send();
      }
    });
    find("pace").addEventListener("input", () => this.showPace());
    this.showPace();
  }

  /** Asks the server for its voices; without any, the field stays away. */
  async load() {
    if (this.isThere) {
      return;
    }
    try {
      const reply = await request("/v1/audio/voices");
      const { voices } = reply.ok ? await reply.json() : { voices: [] };
      this.isThere = voices.length > 0;
      find("voice").replaceChildren(...voices.map(({ id, name }) => make("option", { value: id }, name)));
      find("say-field").hidden = !this.isThere;
    } catch {
      // The status says that the server is gone; the next visit to this view asks again.
    }
  }

  /** The request for the field's text. */
  request() {
    const speed = Number(find("pace").value);
    return { model: MODEL, input: find("text").value, voice: find("voice").value, speed, response_format: "pcm" };
  }

  showPace() {
    show(find("pace-value"), `${figure(Number(find("pace").value), 2)}x`);
  }
}

/**
 * The samples of an answer in `pcm`, as they arrive.
 * @param {Response} reply
 * @returns {AsyncGenerator<Float32Array<ArrayBuffer>>}
 */
export async function* samples(reply) {
  const reader = reply.body.getReader();
  let rest = new Uint8Array(0);
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    const bytes = new Uint8Array(rest.length + value.length);
    bytes.set(rest);
    bytes.set(value, rest.length);
    const view = new DataView(bytes.buffer);
    const n = bytes.length >> 1;
    rest = bytes.slice(2 * n);
    if (n > 0) {
      yield Float32Array.from({ length: n }, (_, i) => view.getInt16(2 * i, true) * S16_SCALE);
    }
  }
}

/**
 * The messages of an answer in `application/x-ndjson`, as they arrive.
 * @param {Response} reply
 */
export async function* messages(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.filter(Boolean).map((line) => JSON.parse(line));
  }
}
