// Watch: places, axes, spans, refusals by reason, waiting requests, and what a locked page shows.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, playing, reload, serve, until } from "./harness.js";
import { browser, server } from "./setup.js";

const chart = (page, text) => page.locator(".chart", { hasText: text });

/** A page whose view Watch has had a report. */
async function watching(from, options) {
  const page = await open(browser, from, { hash: "#watch", ...options });
  await until(async () => (await page.textContent("#device")).includes("room for"), "the status comes");
  return page;
}

/** Gives the view a report with changes, which those of the server, once a second, replace no longer. */
const report = (page, changes, emptied) =>
  page.evaluate(async ([changed, name]) => {
    const { views } = await import("/page/app.js");
    views.watch.status.socket.onmessage = null;
    views.watch.charts[name]?.points.splice(0);
    const status = await (await fetch("/v1/status")).json();
    views.watch.take({ ...status, ...changed });
  }, [changes, emptied]);

test("places for tokens and for music are shown apart", async () => {
  const page = await watching(server);
  const other = await open(browser, server);
  await other.click("#play");
  await playing(other);
  await until(async () => {
    const { places } = await (await fetch(`${server.url}/v1/status`)).json();
    const text = ({ in_use: used, limit }) => `${used} of ${limit.toLocaleString("en")}`;
    const [tokens, music] = [text(places.decode), text(places.synth)];
    const shown = (kind) => chart(page, `places for ${kind}`).locator("b").textContent();
    const header = await page.textContent("#status");
    const isApart = (await shown("tokens")) === tokens && (await shown("music")) === music;
    return places.synth.in_use > 0 && isApart && header === `connected · tokens ${tokens} · music ${music}`;
  }, "chart and header have the places of each kind");
});

test("every chart has a scale, a span and its lines apart", async () => {
  const page = await watching(server);
  const times = { p50_seconds: 0.004, p99_seconds: 0.02 };
  await report(page, { stages: { decode: times }, frame_seconds: 0.0853 }, "time");
  const texts = await page.locator(".chart").allTextContents();
  assert.equal(texts.length, 10);
  assert.ok(texts.every((text) => text.includes("5 min ago") && text.includes("now")), texts.join(" | "));
  const time = chart(page, "decoding, p50");
  assert.match(await time.textContent(), /4\.0 msdecoding, p50p99 20 msframe 85 ms85 ms0/);
  const look = await time.evaluate((element) => {
    const [limit, p50, p99] = ["path.limit", "path.first", "path.second"].map((name) => element.querySelector(name));
    const stroke = (path) => getComputedStyle(path).stroke;
    const dash = getComputedStyle(limit).strokeDasharray;
    return { strokes: [stroke(p50), stroke(p99)], limit: limit.getAttribute("d"), dash };
  });
  assert.notEqual(look.strokes[0], look.strokes[1], "p50 and p99 have colours of their own");
  assert.match(look.limit, /^M0 \d+\.\dH300$/, "the deadline is a line");
  assert.notEqual(look.dash, "none");
  await page.click("#spans button:has-text('30 min')");
  assert.ok((await page.locator(".chart").allTextContents()).every((text) => text.includes("30 min ago")));
  const pressed = () => page.getAttribute("#spans button:has-text('30 min')", "aria-pressed");
  assert.equal(await pressed(), "true");
  const address = () => page.evaluate(() => location.search);
  assert.match(await address(), /[?&]span=30/);
  await reload(page);
  assert.equal(await pressed(), "true", "the span stays");
  await page.click("#spans button:has-text('5 min')");
  assert.doesNotMatch(await address(), /span/, "what is chosen anyway needs no place in the address");
  const other = await open(browser, server, { hash: "?span=7#watch" });
  assert.equal(await other.getAttribute("#spans button:has-text('5 min')", "aria-pressed"), "true");
});

test("refusals are told by reason, and missed deadlines are counted", async () => {
  const page = await watching(server);
  const before = (await (await fetch(`${server.url}/v1/status`)).json()).refusals.invalid_parameter ?? 0;
  assert.equal((await fetch(`${server.url}/v1/synth.wav?preset=techno`)).status, 400);
  const told = new RegExp(`invalid parameter ${before + 1}`);
  await until(async () => told.test(await chart(page, "refused").textContent()), "the reason is named");
  await report(page, { refusals: { full: 2, invalid_api_key: 1 }, missed_deadlines: 3 });
  assert.match(await chart(page, "refused").textContent(), /^3 refusedfull 2, wrong key 1/);
  assert.match(await chart(page, "missed").textContent(), /^3 missed/);
  const bars = await chart(page, "missed").locator("path.first").getAttribute("d");
  assert.match(bars, /^(M[\d.]+ [\d.]+V[\d.]+)*$/);
});

test("waiting requests have a chart where the server has a queue", async () => {
  const page = await watching(server);
  await report(page, { queue: undefined });
  const without = await chart(page, "wait for a place").count();
  await report(page, { queue: { waiting: 3 } });
  assert.match(await chart(page, "wait for a place").textContent(), /^3requests that wait for a place/);
  const { queue } = await (await fetch(`${server.url}/v1/status`)).json();
  assert.equal(without, queue ? 1 : 0);
  assert.deepEqual(Object.keys(queue.given_up).sort(), ["client_left", "draining", "refused", "timeout"]);
  const given = { refused: 2, timeout: 5, client_left: 1, draining: 0 };
  const times = { p50_seconds: 0.4, p99_seconds: 2.5, limit_seconds: 5 };
  await report(page, { queue: { waiting: 1, given_up: given, ...times } }, "wait");
  const said = await chart(page, "wait for a place").textContent();
  assert.match(said, /^1requests that wait for a place; gave up: waited too long 5, refused at once 2, left 1/);
  assert.match(await chart(page, "in the queue").textContent(), /^400 msin the queue, p50p99 2500 mslimit 5000 ms/);
  const bound = await chart(page, "in the queue").locator("path.limit").getAttribute("d");
  assert.match(bound, /^M0 \d+\.\dH300$/, "the limit is a line");
});

test("a voice model has a chart of its speakers and of the texts that wait for it", async () => {
  const page = await watching(server);
  assert.equal(await chart(page, "speakers of").count(), 0, "this server has no voice model");
  const one = (model, used, waiting) => ({ model, in_use: used, waiting, capacity: { speakers: 4 } });
  await report(page, { speakers: [one("voice", 4, 3), one("orpheus", 1, 0)], queue: { waiting: 3 } });
  assert.match(await chart(page, "speakers of voice").textContent(), /^4 of 4speakers of voicewaiting 3/);
  assert.match(await chart(page, "speakers of orpheus").textContent(), /^1 of 4speakers of orpheuswaiting 0/);
  assert.match(await chart(page, "wait for a place").textContent(), /^3requests/, "the queue counts them too");
  const paths = await chart(page, "speakers of voice").evaluate((element) =>
    ["limit", "first", "second"].map((name) => element.querySelector(`path.${name}`).getAttribute("d")));
  assert.ok(paths.every((path) => /^M/.test(path)), "speakers, their limit and those who wait have lines");
  assert.notEqual(paths[1], paths[2]);
});

test("a GPU has charts of what it tells, and they say when it falls silent", async () => {
  const page = await watching(server);
  // In one turn, because the server's own reports come every second.
  const shown = (gpu) =>
    page.evaluate(async (gpu) => {
      const { views } = await import("/page/app.js");
      const status = await (await fetch("/v1/status")).json();
      views.watch.take({ ...status, gpu });
      const charts = [...document.querySelectorAll(".chart")];
      const figure = (title) => charts.find((one) => one.textContent.includes(title))?.querySelector("b").textContent ?? null;
      return ["memory of the GPU", "the GPU is busy", "power of the GPU"].map(figure);
    }, gpu);
  const memory = { memory_bytes: 1.024e9, total_bytes: 4.096e9 };
  assert.deepEqual(await shown(null), [null, null, null], "a CPU has none");
  assert.deepEqual(await shown({ ...memory, busy_percent: null, power_watts: null }), ["1024 MB", null, null]);
  assert.deepEqual(await shown({ ...memory, busy_percent: 0, power_watts: 123.456 }), ["1024 MB", "0 %", "123 W"]);
  assert.match(await chart(page, "memory of the GPU").textContent(), /4096 MB/, "its scale ends at all of it");
  assert.deepEqual(await shown({ ...memory, busy_percent: 37, power_watts: null }), ["1024 MB", "37 %", "–"]);
  assert.deepEqual(await shown(null), ["–", "–", "–"], "it disappeared");
  assert.deepEqual(page.complaints, []);
});

test("a locked page shows what it knows, and any view unlocks it", async () => {
  const locked = await serve({ env: { MELISMA_API_KEY: "opensesame" } });
  const page = await open(browser, locked, { hash: "?preset=sleep&tempo=50#watch" });
  await until(async () => (await page.textContent("#device")).includes("is ready"), "it says that the server is ready");
  assert.equal(await page.isVisible("#charts"), false, "empty charts say nothing");
  await until(async () => (await page.textContent("#piece")) === "Sleep in E phrygian", "the piece is known");
  assert.equal(await page.inputValue("#tempo"), "50");
  assert.match(await page.textContent("#command"), /^melisma synth preset:sleep .* --tempo=50 /);
  await page.click("#nav-speak");
  assert.match(await page.textContent("#speak-notice"), /needs a key/);
  await page.click("#nav-watch");
  await page.fill("#watch-notice input", "wrong");
  await page.keyboard.press("Enter");
  await until(async () => (await page.textContent("#watch-notice")).includes("does not accept"), "it was wrong");
  assert.equal(await page.evaluate(() => document.activeElement.type), "password", "the focus stays in the field");
  await page.keyboard.type("opensesame");
  await page.keyboard.press("Enter");
  await until(() => page.isVisible("#charts"), "the charts appear");
  assert.equal(await page.isVisible("#watch-notice"), false);
  await page.click("#nav-play");
  await until(async () => /Press play/.test(await page.textContent("#play-notice")), "play is possible");
  await page.click("[data-voice=drums]");
  assert.doesNotMatch(await page.textContent("#command"), /opensesame/, "never the key itself");
  assert.doesNotMatch(await page.evaluate(() => location.href), /opensesame/);
  await locked.stop();
});
