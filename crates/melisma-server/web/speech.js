// Text to speech: the field with its voices and its speed, and the events while the server speaks.
import { keep, number, settings } from "./address.js";
import { speechCommand } from "./command.js";
import { request } from "./connection.js";
import { figure, find, make, show } from "./element.js";

const MODEL = "melisma";
const S16_SCALE = 1 / 32768;

/** The text field, shown if the server has a language model. */
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
    const pace = find("pace");
    pace.value = number(settings().get("speed"), Number(pace.min), Number(pace.max)) ?? pace.value;
    pace.addEventListener("input", () => this.showPace());
    pace.addEventListener("change", () => keep({ speed: pace.value === "1" ? null : pace.value }));
    find("voice").addEventListener("change", () => keep({ voice: find("voice").value }));
    find("copy-speech").addEventListener("click", () => this.copy());
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
      if (this.isThere) {
        return;
      }
      this.isThere = voices.length > 0;
      find("voice").replaceChildren(...voices.map(({ id, name }) => make("option", { value: id }, name)));
      const asked = settings().get("voice");
      if (voices.some(({ id }) => id === asked)) {
        find("voice").value = asked;
      }
      find("say-field").hidden = !this.isThere;
      // Where the server speaks, tokens and files are behind a link.
      find("other").classList.toggle("folded", this.isThere);
      find("other").open = !this.isThere;
    } catch {
      // The status says that the server is gone; the next visit to this view asks again.
    }
  }

  /** What is to be said, and how. */
  said() {
    return { model: MODEL, input: find("text").value, voice: find("voice").value, speed: Number(find("pace").value) };
  }

  /** The request for the field's text. */
  request() {
    return { ...this.said(), response_format: "pcm", stream_format: "sse", picture: true };
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(speechCommand(this.said()));
      show(find("speech-copied"), "The command is copied.");
    } catch {
      show(find("speech-copied"), "The browser does not let the page copy.");
    }
  }

  showPace() {
    show(find("pace-value"), `${figure(Number(find("pace").value), 2)}x`);
  }
}

/**
 * The events of an answer, as they arrive.
 * @param {Response} reply
 */
export async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    yield* parts.map((part) => JSON.parse(part.slice("data: ".length)));
  }
}

/** Samples of `pcm` in base64. @param {string} text @returns {Float32Array<ArrayBuffer>} */
export function samples(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 1 }, (_, i) => view.getInt16(2 * i, true) * S16_SCALE);
}
