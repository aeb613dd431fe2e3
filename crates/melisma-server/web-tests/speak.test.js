// Speak: tokens and files to sound, pictures and a sentence about the tokens. Watch: what the server does meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, pause, playing, until } from "./harness.js";
import { browser, clip, decoded, server, tokens } from "./setup.js";

const ledger = (page, text) =>
  until(async () => (await page.textContent("#ledger")).includes(text), `the ledger says "${text}"`);

const notice = (page, text) =>
  until(async () => (await page.textContent("#speak-notice")).includes(text), `the page says "${text}"`);

/** Samples of the ring from the beginning of the sound. */
const inRing = (page, n) =>
  page.evaluate(async (count) => {
    const { views } = await import("/page/app.js");
    const { FIELD } = await import("/page/ring.js");
    const { ring } = views.speak.player;
    const start = ring.get(FIELD.SPLICE);
    return Array.from({ length: count }, (_, i) => ring.samples[2 * ((start + i) & ring.mask)]);
  }, n);

test("pasted tokens are heard, drawn and accounted for", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.evaluate(() => {
    const cursor = document.getElementById("cursor");
    globalThis.places = new Set();
    new MutationObserver(() => places.add(cursor.style.left)).observe(cursor, { attributes: true });
  });
  await page.fill("#tokens", tokens);
  await page.click("#decode");
  const n = tokens.match(/custom_token/g).length;
  await ledger(page, `All ${n} tokens were accepted and made ${n / 7} frames.`);
  const samples = await inRing(page, decoded.length);
  const wrong = samples.findIndex((sample, i) => Math.abs(sample - decoded[i] / 32768) > 1.1 / 32768);
  assert.equal(wrong, -1, `sample ${wrong} differs from POST /v1/decode`);
  const pictured = await page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    const { mel, outline } = views.speak.picture;
    return { mel: mel.n, outline: outline.n };
  });
  const frames = Math.ceil(decoded.length / 256);
  assert.ok(Math.abs(pictured.mel - frames) <= 1 && Math.abs(pictured.outline - frames) <= 1, JSON.stringify(pictured));
  const hasEnded = async () => (await page.getAttribute("#speak-play", "aria-label")) === "Play";
  await until(hasEnded, "the sound ends");
  // A machine that draws nothing for two seconds sees the beginning and the end only; then the sound plays again.
  const follows = () => page.evaluate(() => globalThis.places.size > 2);
  await until(async () => (await follows()) || ((await hasEnded()) && page.click("#speak-play")), "the cursor follows the sound");
  assert.deepEqual(page.complaints, []);
});

test("audio files become tokens, and what is neither is explained", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.setInputFiles("#file", { name: "piece.wav", mimeType: "audio/wav", buffer: Buffer.from(clip) });
  await ledger(page, "tokens were accepted");
  assert.equal(await page.textContent("#speak-title"), "piece.wav");

  await page.fill("#tokens", "these are no tokens");
  await page.click("#decode");
  await notice(page, "no whole frame");
  await page.fill("#tokens", "<custom_token_10>");
  await page.click("#decode");
  await notice(page, "no whole frame in 1 token.");
  assert.equal(await page.locator("#speak-notice button").count(), 0, "the same tokens would fail again");
  await page.fill("#tokens", `${tokens}<custom_token_5>`);
  await page.click("#decode");
  await ledger(page, "1 rejected");
});

test("another rate replaces the timer that feeds the sound", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  const worker = await until(() => page.workers().find((each) => each.url().includes("speak-worker")), "the worker is there");
  await worker.evaluate(() => {
    const [set, clear] = [setInterval, clearInterval];
    globalThis.timers = new Set();
    globalThis.begun = 0;
    globalThis.setInterval = (...args) => (timers.add(set(...args)), begun++, [...timers].at(-1));
    globalThis.clearInterval = (timer) => (timers.delete(timer), clear(timer));
  });
  await page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    [24_000, 48_000, 24_000].forEach((rate) => views.speak.prepare(rate));
  });
  await until(() => worker.evaluate(() => begun === 3), "each rate has begun a timer");
  assert.equal(await worker.evaluate(() => timers.size), 1);
});

test("what is asked last is heard, whatever was asked before", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.evaluate(() => document.getElementById("example").click());
  await page.fill("#tokens", tokens);
  await page.click("#decode");
  const n = tokens.match(/custom_token/g).length;
  await ledger(page, `All ${n} tokens were accepted`);
  await pause(1500);
  assert.match(await page.textContent("#ledger"), new RegExp(`All ${n} tokens`));
  assert.equal(await page.textContent("#speak-title"), "Tokens");
});

test("the place in the sound is chosen with the keyboard", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.fill("#tokens", tokens);
  await page.click("#decode");
  await ledger(page, "tokens were accepted");
  await until(async () => (await page.getAttribute("#speak-play", "aria-label")) === "Play", "the sound ends");
  const value = () => page.getAttribute("#picture", "aria-valuetext");
  await until(async () => (await value()) === "2 of 2 seconds", "the place is the end");
  await page.focus("#picture");
  await page.keyboard.press("ArrowLeft");
  await until(async () => (await value()) === "1 of 2 seconds", "an arrow moves the place");
  await page.keyboard.press("Home");
  await until(async () => (await value()) === "0 of 2 seconds", "Home leads to the beginning");
});

test("dropped text is decoded, and a file dropped elsewhere does not replace the page", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.evaluate((text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.setData("text", text);
    document.getElementById("view-speak").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, tokens);
  await ledger(page, "tokens were accepted");
  const isIgnored = await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["x"], "x.wav"));
    const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
    return !document.querySelector("header").dispatchEvent(event);
  });
  assert.equal(isIgnored, true);
});

test("the picture has axes of time and of frequency", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.fill("#tokens", tokens);
  await page.click("#decode");
  await ledger(page, "tokens were accepted");
  // The picture is drawn more than once while it grows.
  const times = () => page.locator("#seconds span").allTextContents();
  await until(async () => (await times()).slice(0, 3).join() === "0.0 s,0.2 s,0.4 s", "the axis of time has steps of 0.2 s");
  assert.deepEqual(await page.locator("#hz span").allTextContents(), ["200 Hz", "500 Hz", "1 kHz", "2 kHz", "4 kHz", "8 kHz"]);
  // A sine of 1 kHz is bright where the axis says so.
  const at = await page.evaluate(async () => {
    const { melShare } = await import("/page/axis.js");
    const rate = 24_000;
    const samples = Int16Array.from({ length: rate }, (_, i) => 16_000 * Math.sin((2 * Math.PI * 1000 * i) / rate));
    const { wav, INTEGERS } = await import("/page/wav.js");
    const body = wav(new Blob([samples]), { rate, channels: 1, kind: INTEGERS });
    const text = await (await fetch("/v1/mel", { method: "POST", body })).text();
    const lines = text.trim().split("\n").map((line) => JSON.parse(line));
    const mels = lines.filter(({ type }) => type === "mel");
    const [{ n_mels: n }] = mels;
    const letters = mels.map(({ data }) => atob(data)).join("");
    const frame = Uint8Array.from(letters, (letter) => letter.charCodeAt(0)).slice(20 * n, 21 * n);
    // The route resamples to the preset's own rate.
    return { brightest: (frame.indexOf(Math.max(...frame)) + 0.5) / n, named: melShare(1000, 22_050, n), row: 1 / n };
  });
  assert.ok(Math.abs(at.brightest - at.named) <= at.row, JSON.stringify(at));
});

test("a fault that stays offers no second attempt", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  const error = { message: "the server has no voice", type: "server_error", code: "no_voice", param: null };
  const answer = { status: 503, contentType: "application/json", body: JSON.stringify({ error }) };
  await page.route("**/v1/encode", (route) => route.fulfill(answer));
  await page.setInputFiles("#file", { name: "piece.wav", mimeType: "audio/wav", buffer: Buffer.from(clip) });
  await notice(page, "no voice");
  assert.equal(await page.locator("#speak-notice button").count(), 0);
  const unreadable = new DOMException("The file is gone", "NotReadableError").message;
  await page.evaluate(async (message) => {
    const { views } = await import("/page/app.js");
    views.speak.run(() => Promise.reject(new DOMException(message, "NotReadableError")));
  }, unreadable);
  await notice(page, "The file is gone");
  assert.equal(await page.locator("#speak-notice button").count(), 0);
  await page.evaluate(async () => (await import("/page/app.js")).views.speak.run(() => Promise.reject(new TypeError("x"))));
  await notice(page, "connection was lost");
  assert.equal(await page.locator("#speak-notice button").count(), 1, "a connection may come back");
});

test("the streams that play are listed under Watch", async () => {
  const page = await open(browser, server);
  await page.click("#play");
  await playing(page);
  await page.click("#nav-watch");
  await until(async () => (await page.textContent("#streams")).includes("synth"), "the stream is listed");
  await until(async () => (await page.textContent("#status")).includes("music 1 of"), "the header counts it");
  assert.match(await page.textContent("#device"), /room for \d+ streams?/);
  assert.match(await page.textContent("#stages"), /decode/);
});
