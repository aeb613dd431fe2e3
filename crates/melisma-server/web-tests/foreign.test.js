// What a page of another site can do with a server on its visitor's machine: link to it, and nothing else.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { blank, serve, until } from "./harness.js";
import { browser, server } from "./setup.js";

// Another name is another site; another port of the same name is the same site, but another origin.
const HOSTS = { "another site": "localhost", "the same site": "127.0.0.1" };
let pages;
let port;
/** A server that lists both pages. */
let listing;

before(async () => {
  pages = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<!doctype html><title>x</title>"));
  await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
  port = pages.address().port;
  const origins = Object.values(HOSTS).map((host) => `http://${host}:${port}`);
  listing = await serve({ args: origins.flatMap((origin) => ["--allow-origin", origin]) });
});

after(async () => {
  await listing?.stop();
  pages?.close();
});

/** How often a path was answered with each status, by the server's own count. */
async function counts(server, path) {
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  const found = metrics.matchAll(new RegExp(`requests_total\\{route="${path}",status="(\\d+)"\\} (\\d+)`, "g"));
  return Object.fromEntries([...found].map(([, status, n]) => [status, Number(n)]));
}

/** What becomes of each way to use the server at `url`. */
function attempt(url) {
  const element = (name, attributes, good) =>
    new Promise((resolve) => {
      const made = Object.assign(document.createElement(name), attributes);
      made.addEventListener(good, () => resolve("loaded"));
      made.addEventListener("error", () => resolve("refused"));
      document.body.append(made);
      made.load?.();
    });
  const asked = (mode) => fetch(`${url}/v1/presets`, { mode }).then(() => "loaded", () => "refused");
  const socket = new Promise((resolve) => {
    const opened = new WebSocket(`${url.replace("http", "ws")}/v1/status`);
    opened.onmessage = () => resolve("loaded");
    opened.onerror = () => resolve("refused");
  });
  const music = `${url}/v1/synth.wav?preset=focus&seconds=1`;
  const names = ["audio", "audio by CORS", "picture", "script", "fetch", "fetch by CORS", "socket"];
  return Promise.all([
    element("audio", { src: music, preload: "auto" }, "loadedmetadata"),
    element("audio", { crossOrigin: "anonymous", src: music, preload: "auto" }, "loadedmetadata"),
    element("img", { src: `${url}/page/icon.svg` }, "load"),
    element("script", { src: `${url}/page/wav.js`, type: "module" }, "load"),
    asked("no-cors"),
    asked("cors"),
    socket,
  ]).then((results) => Object.fromEntries(results.map((result, i) => [names[i], result])));
}

for (const [relation, host] of Object.entries(HOSTS)) {
  test(`a page of ${relation} cannot use the server`, async () => {
    const { 403: refusedBefore = 0, ...before } = await counts(server, "/v1/synth.wav");
    const page = await blank(browser);
    await page.goto(`http://${host}:${port}/`);
    const results = await page.evaluate(attempt, server.url);
    assert.deepEqual(new Set(Object.values(results)), new Set(["refused"]), JSON.stringify(results));
    const isCounted = async () => (await counts(server, "/v1/synth.wav"))[403] > refusedBefore;
    await until(isCounted, "a piece was asked for");
    const { 403: refused, ...after } = await counts(server, "/v1/synth.wav");
    assert.deepEqual(after, before, "no piece was rendered");
  });

  test(`a link on a page of ${relation} opens the page`, async () => {
    const page = await blank(browser);
    await page.goto(`http://${host}:${port}/`);
    await page.evaluate((url) => {
      const link = Object.assign(document.createElement("a"), { href: url, textContent: "listen" });
      document.body.append(link);
    }, server.url);
    await page.click("a");
    await until(async () => (await page.textContent("#status")).startsWith("connected"), "the page is connected");
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
  });

  test(`a listed page of ${relation} asks by CORS`, async () => {
    const page = await blank(browser);
    await page.goto(`http://${host}:${port}/`);
    const results = await page.evaluate(attempt, listing.url);
    for (const name of ["audio by CORS", "fetch by CORS", "socket"]) {
      assert.equal(results[name], "loaded", name);
    }
    for (const name of ["audio", "picture", "fetch"]) {
      assert.equal(results[name], "refused", `${name}: nobody can tell which page asks`);
    }
  });
}
