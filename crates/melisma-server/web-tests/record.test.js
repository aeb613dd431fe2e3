// Recordings, changes of the piece while it plays, and MIDI.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { loaded, open, playing, render, streamed, until } from "./harness.js";
import { browser, server } from "./setup.js";
import { difference } from "./signal.js";

test("a recording from the beginning is the command line's file", async () => {
  const page = await open(browser, server);
  await loaded(page);
  await page.click("[data-preset=sleep]");
  await page.fill("#seed", "good night");
  await page.locator("#seed").blur();
  await page.click("#record");
  await page.click("#play");
  await playing(page);
  await streamed(page, 1.2);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#play")]);
  assert.equal(download.suggestedFilename(), "melisma-sleep.wav");
  const bytes = readFileSync(await download.path());
  assert.deepEqual([bytes.readUInt32LE(4), bytes.readUInt32LE(40)], [bytes.length - 8, bytes.length - 44], "its sizes");
  const rate = bytes.readUInt32LE(24);
  const samples = new Float32Array(bytes.buffer.slice(bytes.byteOffset + 44, bytes.byteOffset + bytes.length));
  const expected = render({ preset: "sleep", seed: "good night", rate, seconds: samples.length / 2 / rate + 0.1 });
  assert.ok(samples.length / 2 > rate, `${samples.length} samples`);
  assert.equal(difference(samples, expected), -1);
});

test("a change of key is heard without a stop", async () => {
  const page = await open(browser, server);
  await loaded(page);
  await page.click("#play");
  await playing(page);
  await streamed(page, 0.3);
  const splice = () => page.evaluate(async () => (await import("/page/app.js")).views.play.player.ring.get(2));
  const before = await splice();
  await page.selectOption("#key", "A");
  await until(async () => (await splice()) !== before, "the new stream begins");
  await playing(page);
  assert.equal(await page.textContent("#piece"), "Focus in A dorian");
  const { streams } = await until(async () => {
    const status = await (await fetch(`${server.url}/v1/status`)).json();
    return status.streams.length === 1 && status;
  }, "the old stream is closed");
  assert.equal(streams[0].kind, "synth");
});

test("a key ends the note that it began, also after a change of the instrument", async () => {
  const page = await open(browser, server);
  await page.click("#play");
  await playing(page);
  await page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    globalThis.said = [];
    views.play.say = (message) => globalThis.said.push(message);
  });
  await page.keyboard.down("h");
  await page.selectOption("#instrument", "lead");
  await page.keyboard.up("h");
  const said = await page.evaluate(() => globalThis.said);
  assert.deepEqual(said.map(({ type, instrument, key }) => [type, instrument, key]), [
    ["note_on", "pluck", 69],
    ["note_off", "pluck", 69],
  ]);
});

test("a MIDI keyboard plays notes", async () => {
  const init = () => {
    const input = { name: "Little Piano", onmidimessage: null };
    globalThis.midi = input;
    globalThis.access = { inputs: new Map([["1", input]]), onstatechange: null };
    navigator.requestMIDIAccess = async () => globalThis.access;
  };
  const page = await open(browser, server, { init });
  await page.click("#midi");
  await until(async () => (await page.textContent("#midi-name")) === "Little Piano", "the device is named");
  const lit = (key) => page.evaluate((k) => document.querySelector(`[data-key='${k}']`).classList.contains("lit"), key);
  await page.evaluate(() => globalThis.midi.onmidimessage({ data: [0x90, 64, 100] }));
  assert.equal(await lit(64), true);
  await page.evaluate(() => globalThis.midi.onmidimessage({ data: [0x80, 64, 0] }));
  assert.equal(await lit(64), false);
  await page.evaluate(() => globalThis.midi.onmidimessage({ data: [0x90, 64, 100] }));
  await page.evaluate(() => {
    globalThis.access.inputs.clear();
    globalThis.access.onstatechange();
  });
  assert.equal(await lit(64), false, "a device that is gone holds no key");
  assert.equal(await page.textContent("#midi-name"), "no device found");
});
