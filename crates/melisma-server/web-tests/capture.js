// What goes into the ring and what comes out of the worklet, seen from inside the page.
import { loaded, open, playing } from "./harness.js";

/** Begins to copy the present stream's samples as they are written into the ring. */
export function captureRing(page) {
  return page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    const { FIELD } = await import("/page/ring.js");
    const { ring } = views.play.player;
    clearInterval(globalThis.capture?.timer);
    const capture = { pieces: [], marks: [], at: ring.get(FIELD.SPLICE), splice: ring.get(FIELD.SPLICE) };
    globalThis.capture = capture;
    capture.copy = () => {
      if (ring.get(FIELD.SPLICE) !== capture.splice) {
        capture.splice = ring.get(FIELD.SPLICE);
        capture.at = capture.splice;
        capture.pieces = [];
      }
      const written = ring.get(FIELD.WRITTEN);
      const piece = new Float32Array(2 * ((written - capture.at) >>> 0));
      for (let i = 0; i < piece.length; i++) {
        piece[i] = ring.samples[(2 * (capture.at & ring.mask) + i) % ring.samples.length];
      }
      capture.pieces.push(piece);
      capture.at = written;
    };
    capture.timer = setInterval(capture.copy, 20);
    const mark = () => capture.marks.push({ played: ring.played(), fill: ring.fill() });
    addEventListener("keydown", mark, { capture: true });
  });
}

/** The samples since the stream began, and at each key the frames that had been played and those that waited. */
export async function captured(page) {
  const { text, marks, rate } = await page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    const { capture } = globalThis;
    capture.copy();
    const bytes = new Uint8Array(await new Blob(capture.pieces).arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) {
      text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    }
    return { text: btoa(text), marks: capture.marks, rate: views.play.player.rate };
  });
  const bytes = Buffer.from(text, "base64");
  const samples = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return { samples, marks, rate };
}

const TAP = `registerProcessor("tap", class extends AudioWorkletProcessor {
  process([input]) {
    if (input.length) this.port.postMessage(input[0].slice());
    return true;
  }
});`;

/** Hears what the worklet plays, sample by sample; the page must be open with `bypassCSP`. */
export async function tap(page) {
  await page.evaluate(async (code) => {
    const { views } = await import("/page/app.js");
    const { player } = views.play;
    await player.ready;
    await player.context.audioWorklet.addModule(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    const node = new AudioWorkletNode(player.context, "tap", { numberOfOutputs: 1 });
    globalThis.tapped = [];
    node.port.onmessage = ({ data }) => globalThis.tapped.push(data);
    player.node.connect(node);
    node.connect(player.context.destination);
  }, TAP);
}

/** The left channel that was played, as numbers. */
export async function tapped(page) {
  const text = await page.evaluate(async () => {
    const bytes = new Uint8Array(await new Blob(globalThis.tapped).arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) {
      text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    }
    return btoa(text);
  });
  const bytes = Buffer.from(text, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

/** A page that plays, and whose ring is captured. */
export async function listen(browser, server, options) {
  const page = await open(browser, server, options);
  await loaded(page);
  await captureRing(page);
  await page.evaluate(() => {
    const note = () => (globalThis.clickedMs = performance.now());
    document.getElementById("play").addEventListener("click", note, { capture: true });
  });
  await page.click("#play");
  await playing(page);
  return page;
}
