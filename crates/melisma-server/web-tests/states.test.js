// What the page says when nothing can play: blocked, lost, full, and without a key.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { tap, tapped } from "./capture.js";
import { loaded, open, playing, serve, streamed, until } from "./harness.js";
import { browser, server as shared } from "./setup.js";
import { gapEdges } from "./signal.js";

const noticed = async (page, text) => {
  let said;
  const isSaid = async () => (said = await page.textContent("#play-notice")).includes(text);
  await until(isSaid, `the page says "${text}"`).catch((error) => Promise.reject(new Error(`${error.message}: "${said}"`)));
};

test("a browser that blocks the sound is asked once more", async () => {
  const streams = async () => (await (await fetch(`${shared.url}/v1/status`)).json()).streams;
  await until(async () => (await streams()).length === 0, "the pages before this one have left");
  // Nobody has touched the page when this clicks, so the browser allows no sound. What a test asks the
  // page counts as a touch, so the page says by itself what it shows.
  const init = () =>
    addEventListener("load", () => {
      const notice = document.getElementById("play-notice");
      new MutationObserver(() => console.info(notice.textContent)).observe(notice, { childList: true });
      document.getElementById("play").click();
    });
  const page = await open(browser, shared, { init });
  await until(() => page.logged.some((text) => text.includes("blocked the sound")), "the page says that the sound is blocked");
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
  const sounds = async () => (await tapped(page)).some((sample) => sample !== 0);
  await until(sounds, "there is sound");
  await streamed(page, 0.5);
  await server.stop();
  await noticed(page, "Trying again in");
  const isDry = () => page.evaluate(async () => (await import("/page/app.js")).views.play.player.ring.get(5) === 0);
  await until(isDry, "the sound has stopped");
  server = await until(() => serve({ port }), "the port is free again");
  await playing(page);
  const gaps = async () => gapEdges(await tapped(page));
  await until(async () => (await gaps()).nGaps >= 1, "the sound comes back after a gap");
  assert.equal(await page.isVisible("#play-notice"), false);
  const { edges } = await gaps();
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
    await loaded(page);
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
  await until(async () => (await page.textContent("#status")).startsWith("connected"), "the status connects");
  await loaded(page);
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
  await until(async () => (await page.textContent("#speak-notice")).includes("needs a key"), "it asks for the key");
  await page.fill("#speak-notice input", "opensesame");
  await page.keyboard.press("Enter");
  await page.click("#nav-play");
  await loaded(page);
  await page.click("#play");
  await playing(page);
  await server.stop();
});

test("music that was started beside the question for a key stays visible when the key is accepted", async () => {
  const page = await open(browser, shared);
  const view = (name) => page.evaluate(async (call) => void (await import("/page/app.js")).views.play[call](), name);
  await view("askKey");
  await page.click("#play");
  await playing(page);
  await view("unlock");
  assert.equal(await page.isVisible("#play-notice"), false);
});

test("a browser whose sound is slow to begin blocks nothing", async () => {
  const init = () => {
    const resume = AudioContext.prototype.resume;
    AudioContext.prototype.resume = async function () {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return resume.call(this);
    };
  };
  const page = await open(browser, shared, { init });
  await page.click("#play");
  await playing(page);
  assert.equal(await page.isVisible("#play-notice"), false);
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
