// The look: every view in light, dark and narrow, for eyes, screen readers and slow machines.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { attempts, open, pause, playing, until } from "./harness.js";
// With the text field.
import { browser, speaker as server } from "./setup.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  narrow: { colorScheme: "light", viewport: { width: 360, height: 740 } },
};

mkdirSync("screenshots", { recursive: true });

/** Fills a view as it looks in use. */
const fill = {
  play: async (page) => {
    await page.click("#play");
    await playing(page);
    await pause(700);
  },
  speak: async (page) => {
    await page.click("#example");
    await until(async () => (await page.textContent("#ledger")).length > 0, 30_000, "the example is decoded");
    await pause(200);
  },
  watch: async (page) => {
    await until(async () => (await page.textContent("#device")).includes("room for"), 10_000, "the status comes");
  },
};

for (const [look, options] of Object.entries(LOOKS)) {
  test(`${look}: no serious finding, nothing beyond the edge, nothing moves`, async () => {
    const page = await open(browser, server, { ...options, bypassCSP: true, init: watchShifts });
    for (const view of Object.keys(fill)) {
      await page.click(`#nav-${view}`);
      for (const state of ["empty", "filled"]) {
        if (state === "filled") {
          await fill[view](page);
        }
        await page.screenshot({ path: `screenshots/${view}-${look}-${state}.png`, fullPage: true });
        const { violations } = await page.evaluate(`(() => { ${axe} })(); axe.run()`);
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        const shown = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
        assert.deepEqual(shown, [], `${view}, ${state}`);
        const width = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
        assert.ok(width <= 0, `${view}, ${state}: ${width} pixels too wide`);
      }
      if (view === "play") {
        await page.click("#play");
      }
    }
    assert.deepEqual(await page.evaluate(() => globalThis.shifts), []);
  });
}

/** Elements that moved although nobody touched anything. */
function watchShifts() {
  globalThis.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (!entry.hadRecentInput && entry.value > 0.001) {
        globalThis.shifts.push(`${entry.value}: ${entry.sources.map(({ node }) => node?.id || node?.className)}`);
      }
    }
  }).observe({ type: "layout-shift", buffered: true });
}

test("the page is small, comes from one host, and paints soon", () =>
  attempts(12, async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    const sizes = [];
    page.on("response", async (response) => {
      assert.equal(new URL(response.url()).host, new URL(server.url).host);
      if (/\/(page\/.*)?$/.test(new URL(response.url()).pathname)) {
        sizes.push((await response.body().catch(() => "")).length);
      }
    });
    await page.goto(server.url, { waitUntil: "load" });
    await pause(300);
    const paintMs = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    await context.close();
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    console.log(`first paint: ${paintMs?.toFixed(0)} ms; ${sizes.length} files, ${bytes} bytes`);
    assert.ok(bytes > 20_000 && bytes <= 200_000, `${bytes} bytes`);
    return paintMs <= 300 ? null : `painted after ${paintMs} ms`;
  }));

test("everything works from the keyboard, also with less motion", async () => {
  const page = await open(browser, server, { reducedMotion: "reduce" });
  const reached = [];
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement.id || document.activeElement.dataset.key || document.activeElement.dataset.preset));
  }
  for (const id of ["nav-speak", "play", "60", "focus", "tempo", "key", "reverb", "instrument", "seed", "record"]) {
    assert.ok(reached.includes(id), `${id} is not reached: ${reached}`);
  }
  await page.focus("#play");
  await page.keyboard.press("Enter");
  await playing(page);
  await page.focus("[data-key='60']");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.down("Space");
  assert.equal(await page.evaluate(() => document.querySelector("[data-key='61']").classList.contains("lit")), true);
  await page.keyboard.up("Space");
});
