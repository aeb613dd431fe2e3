// What the page says when nothing can play: blocked, lost, full, and without a key.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { tap, tapped } from "./capture.js";
import { open, pause, playing, serve, until } from "./harness.js";
import { browser, server as shared } from "./setup.js";
import { gapEdges } from "./signal.js";

const noticed = (page, text) =>
  until(async () => (await page.textContent("#play-notice")).includes(text), 120_000, `the page says "${text}"`);

test("a browser that blocks the sound is asked once more", async () => {
  const streams = async () => (await (await fetch(`${shared.url}/v1/status`)).json()).streams;
  await until(async () => (await streams()).length === 0, 120_000, "the pages before this one have left");
  // Nobody has touched the page when this clicks, so the browser allows no sound. What a test asks the
  // page counts as a touch, so it waits.
  const init = () => addEventListener("load", () => document.getElementById("play").click());
  const page = await open(browser, shared, { init });
  await pause(2500);
  await noticed(page, "blocked the sound");
  assert.deepEqual(await streams(), [], "a blocked page holds no stream");
  await page.click("#play-notice button");
  await playing(page);
});

test("a lost connection comes back by itself, without a click", async () => {
  let server = await serve();
  const { port } = server;
  const page = await open(browser, server, { bypassCSP: true });
  await tap(page);
  await page.click("#play");
  await playing(page);
  await pause(800);
  await server.stop();
  await noticed(page, "Trying again in");
  await pause(500);
  server = await serve({ port });
  await playing(page);
  await pause(500);
  assert.equal(await page.isVisible("#play-notice"), false);
  const { edges, nGaps } = gapEdges(await tapped(page));
  assert.ok(nGaps >= 1, "the sound never stopped");
  assert.ok(edges.every((edge) => Math.abs(edge) < 0.01), `a click: ${edges}`);
  await server.stop();
});

test("a full server is named with its wait, and tried again", async () => {
  const server = await serve({ args: ["--max-streams", "1"] });
  const other = await open(browser, server);
  await other.click("#play");
  await playing(other);
  const page = await open(browser, server);
  await page.click("#play");
  await noticed(page, "1 of 1 listener slots are in use");
  await noticed(page, "Trying again in");
  await other.click("#play");
  await playing(page);
  await server.stop();
});

test("a key whose streams are in use is named with its wait, and tried again", async () => {
  const folder = mkdtempSync(join(tmpdir(), "melisma-keys-"));
  const file = join(folder, "keys");
  writeFileSync(file, "ann: opensesame streams=1\n");
  const server = await serve({ args: ["--api-key-file", file] });
  const unlocked = async () => {
    const page = await open(browser, server);
    await noticed(page, "needs a key");
    await page.fill("#play-notice [aria-label='API key']", "opensesame");
    await page.keyboard.press("Enter");
    const preset = () => page.evaluate(async () => (await import("/page/app.js")).views.play.controls.preset?.name);
    await until(async () => (await preset()) === "focus", 120_000, "the presets are there");
    await page.click("#play");
    return page;
  };
  const other = await unlocked();
  await playing(other);
  const page = await unlocked();
  await noticed(page, "the API key `ann` has 1 of 1 streams in use");
  await noticed(page, "Trying again in");
  await other.click("#play");
  await playing(page);
  await server.stop();
  rmSync(folder, { recursive: true });
});

test("a server with a key asks for it, and plays after it", async () => {
  const server = await serve({ env: { MELISMA_API_KEY: "wh&t a/key?".replaceAll(" ", "-") } });
  const page = await open(browser, server);
  await noticed(page, "needs a key");
  const locked = await page.textContent("#piece");
  await page.fill("#play-notice [aria-label='API key']", "wrong");
  await page.keyboard.press("Enter");
  await noticed(page, "does not accept that key");
  await page.fill("#play-notice [aria-label='API key']", "wh&t-a/key?");
  await page.keyboard.press("Enter");
  await until(async () => (await page.textContent("#status")).startsWith("connected"), 120_000, "the status connects");
  const preset = () => page.evaluate(async () => (await import("/page/app.js")).views.play.controls.preset?.name);
  await until(async () => (await preset()) === "focus", 120_000, "the presets are there");
  assert.equal(locked, "Focus in D dorian");
  assert.equal(await page.textContent("#piece"), locked, "the piece had another name before the key");
  await page.click("#play");
  await playing(page);
  const stored = await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length);
  assert.equal(stored, 0, "the key is in memory only");
  await server.stop();
});

test("a key that was given under Speak is good for Play", async () => {
  const server = await serve({ env: { MELISMA_API_KEY: "opensesame" } });
  const page = await open(browser, server, { hash: "#speak" });
  await until(async () => (await page.textContent("#speak-notice")).includes("needs a key"), 120_000, "it asks for the key");
  await page.fill("#speak-notice input", "opensesame");
  await page.keyboard.press("Enter");
  await page.click("#nav-play");
  const preset = () => page.evaluate(async () => (await import("/page/app.js")).views.play.controls.preset?.name);
  await until(async () => (await preset()) === "focus", 120_000, "the presets are there");
  await page.click("#play");
  await playing(page);
  await server.stop();
});

test("what time does not mend has no button that tries again", async () => {
  const page = await open(browser, shared);
  const found = await page.evaluate(async () => {
    const { mayHelp, refusal } = await import("/page/connection.js");
    const codes = ["transfer_encoding", "upstream_garbage", "upstream_no_audio", "upstream_broken", "upstream_slow", "full"];
    const can = codes.filter((code) => mayHelp({ code, type: "server_error" }));
    const error = { code: "transfer_encoding", type: "server_error", message: "no" };
    const { kind, mayHelp: canHelp } = await refusal(Response.json({ error }, { status: 501 }));
    return { can, kind, canHelp };
  });
  assert.deepEqual(found, { can: ["upstream_broken", "upstream_slow", "full"], kind: "invalid", canHelp: false });
});

test("after a refusal, one click on play tries again", async () => {
  const page = await open(browser, shared);
  await page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    views.play.enter({ name: "invalid", message: "for a test" });
  });
  await noticed(page, "for a test");
  assert.equal(await page.locator("#play-notice button").count(), 0, "the same request would be refused again");
  await page.click("#play");
  await playing(page);
});
