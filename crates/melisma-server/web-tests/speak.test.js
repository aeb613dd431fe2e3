// Speak: tokens and files to sound, pictures and a sentence about the tokens. Watch: what the server does meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, pause, playing, until } from "./harness.js";
import { browser, clip, decoded, server, tokens } from "./setup.js";

const ledger = (page, text) =>
  until(async () => (await page.textContent("#ledger")).includes(text), 30_000, `the ledger says "${text}"`);

const notice = (page, text) =>
  until(async () => (await page.textContent("#speak-notice")).includes(text), 30_000, `the page says "${text}"`);

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
  await page.click("#speak");
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
  await until(async () => (await page.getAttribute("#speak-play", "aria-label")) === "Play", 15_000, "the sound ends");
  const places = await page.evaluate(() => [...globalThis.places]);
  assert.ok(places.length > 2, `the cursor does not follow the sound: ${places}`);
  assert.deepEqual(page.complaints, []);
});

test("audio files become tokens, and what is neither is explained", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.setInputFiles("#file", { name: "piece.wav", mimeType: "audio/wav", buffer: Buffer.from(clip) });
  await ledger(page, "tokens were accepted");
  assert.equal(await page.textContent("#speak-title"), "piece.wav, through tokens");
  await page.fill("#tokens", "these are no tokens");
  await page.click("#speak");
  await notice(page, "no whole frame");
  await page.fill("#tokens", "<custom_token_10>");
  await page.click("#speak");
  await notice(page, "no whole frame in 1 token.");
  assert.equal(await page.locator("#speak-notice button").count(), 0, "the same tokens would fail again");
  await page.fill("#tokens", `${tokens}<custom_token_5>`);
  await page.click("#speak");
  await ledger(page, "1 rejected");
});

test("another rate replaces the timer that feeds the sound", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  const worker = await until(() => page.workers().find((each) => each.url().includes("speak-worker")), 5000, "the worker is there");
  await worker.evaluate(() => {
    const [set, clear] = [setInterval, clearInterval];
    globalThis.timers = new Set();
    globalThis.setInterval = (...args) => (timers.add(set(...args)), [...timers].at(-1));
    globalThis.clearInterval = (timer) => (timers.delete(timer), clear(timer));
  });
  await page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    [24_000, 48_000, 24_000].forEach((rate) => views.speak.prepare(rate));
  });
  await until(() => worker.evaluate(() => timers.size > 0), 5000, "a timer runs");
  await pause(100);
  assert.equal(await worker.evaluate(() => timers.size), 1);
});

test("what is asked last is heard, whatever was asked before", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.evaluate(() => document.getElementById("example").click());
  await page.fill("#tokens", tokens);
  await page.click("#speak");
  await ledger(page, "tokens were accepted");
  await pause(1500);
  const n = tokens.match(/custom_token/g).length;
  assert.match(await page.textContent("#ledger"), new RegExp(`All ${n} tokens`));
  assert.equal(await page.textContent("#speak-title"), "Tokens");
});

test("the place in the sound is chosen with the keyboard", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await page.fill("#tokens", tokens);
  await page.click("#speak");
  await ledger(page, "tokens were accepted");
  await until(async () => (await page.getAttribute("#speak-play", "aria-label")) === "Play", 15_000, "the sound ends");
  const value = () => page.getAttribute("#picture", "aria-valuetext");
  assert.equal(await value(), "2 of 2 seconds");
  await page.focus("#picture");
  await page.keyboard.press("ArrowLeft");
  await until(async () => (await value()) === "1 of 2 seconds", 2000, "an arrow moves the place");
  await page.keyboard.press("Home");
  await until(async () => (await value()) === "0 of 2 seconds", 2000, "Home leads to the beginning");
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

test("the streams that play are listed under Watch", async () => {
  const page = await open(browser, server);
  await page.click("#play");
  await playing(page);
  await page.click("#nav-watch");
  await until(async () => (await page.textContent("#streams")).includes("synth"), 10_000, "the stream is listed");
  assert.equal(await page.locator("#charts .chart").count(), 6);
  await until(async () => (await page.textContent("#status")) === "connected, 1 stream", 10_000, "the header counts it");
  assert.match(await page.textContent("#device"), /room for \d+ streams?/);
  assert.match(await page.textContent("#stages"), /decode/);
});
