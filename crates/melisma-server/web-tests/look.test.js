// The look: every view in light, dark and narrow, for eyes, screen readers and slow machines.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { blank, loaded, open, pause, playing, until } from "./harness.js";
// With the text field.
import { browser, speaker as server } from "./setup.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  narrow: { colorScheme: "light", viewport: { width: 360, height: 740 } },
  phone: { colorScheme: "dark", viewport: { width: 390, height: 844 } },
};

mkdirSync("screenshots", { recursive: true });

/** Fills a view as it looks in use. */
const fill = {
  play: async (page) => {
    await page.click("#play");
    await playing(page);
    // Until what moves is not taken for an answer to the click.
    await pause(700);
    // As on a machine that is very late.
    await page.evaluate(async () => {
      document.querySelectorAll(".figs dd").forEach((figure) => (figure.textContent = "999.9 ms"));
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    });
  },
  speak: async (page) => {
    await page.click("#other summary");
    await page.click("#example");
    await until(async () => (await page.textContent("#ledger")).length > 0, "the example is decoded");
    await pause(200);
  },
  watch: async (page) => {
    await until(async () => (await page.textContent("#device")).includes("room for"), "the status comes");
  },
};

for (const [look, options] of Object.entries(LOOKS)) {
  test(`${look}: no serious finding, nothing beyond the edge, nothing moves`, async () => {
    const page = await open(browser, server, { ...options, bypassCSP: true, init: watchShifts });
    await page.evaluate(async () => (await import("/page/app.js")).views.speak.ready);
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

/** Contrasts of two colours each, from the styles that the browser computed. */
function contrasts() {
  const rgba = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = (text) => {
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgba(text).map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const behind = (element) => {
    const { backgroundColor } = getComputedStyle(element);
    return (rgba(backgroundColor)[3] ?? 1) === 0 ? behind(element.parentElement) : backgroundColor;
  };
  const style = (element) => getComputedStyle(element);
  const found = {};
  for (const on of document.querySelectorAll(".seg [aria-pressed=true], .plain[aria-pressed=true]")) {
    const name = `${on.id || on.textContent}`;
    found[`${name}: its fill`] = [contrast(behind(on), behind(on.parentElement)), 3];
    found[`${name}: its text`] = [contrast(style(on).color, behind(on)), 4.5];
  }
  const [on, off] = ["true", "false"].map((state) => document.querySelector(`.pills [aria-pressed=${state}]`));
  found["a toggle: on against off"] = [contrast(style(on).borderColor, style(off).borderColor), 3];
  for (const [name, pill] of Object.entries({ on, off })) {
    found[`a toggle that is ${name}: its edge`] = [contrast(style(pill).borderColor, behind(pill)), 3];
    found[`a toggle that is ${name}: its text`] = [contrast(style(pill).color, behind(pill)), 4.5];
  }
  const link = document.querySelector("nav [aria-current]");
  found["the view that is open"] = [contrast(style(link).borderBottomColor, behind(link)), 3];
  for (const mark of document.querySelectorAll(".legend i")) {
    found[`the colour of ${mark.className}`] = [contrast(behind(mark), behind(mark.parentElement)), 3];
  }
  for (const kind of ["white", "black"]) {
    const key = document.querySelector(`.keys .${kind}:not(.lit)`);
    const plain = behind(key);
    key.classList.add("lit");
    for (const part of ["melody", "chords", "bass"]) {
      key.dataset.part = part;
      found[`a ${kind} key of ${part}`] = [contrast(behind(key), plain), 3];
    }
  }
  const ticks = [on, off].map((pill) => getComputedStyle(pill, "::before").content);
  return { found, ticks };
}

for (const colorScheme of ["light", "dark"]) {
  test(`${colorScheme}: what is chosen differs from what is not by a contrast of 3`, async () => {
    const page = await open(browser, server, { colorScheme, hash: "?voices=melody" });
    await loaded(page);
    await page.click("#record");
    const { found, ticks } = await page.evaluate(contrasts);
    const low = Object.entries(found).filter(([, [value, least]]) => !(value >= least));
    assert.deepEqual(low, []);
    assert.ok(Object.keys(found).length >= 20, Object.keys(found).join("; "));
    assert.match(ticks[0], /\u2713/);
    assert.doesNotMatch(ticks[1], /\u2713/);
  });
}

test("Play's controls fit a small screen without scrolling", async () => {
  const page = await open(browser, server, { viewport: { width: 1280, height: 800 } });
  await page.click("#play");
  await playing(page);
  await page.click("#record");
  const ids = [
    "play", "gain", "meter", "roll", "keys", "presets", "key", "mode", "tempo", "intensity", "voices", "seed", "brightness",
    "reverb", "delay", "motion", "instrument", "record", "cancel", "copy-link", "copy-command", "save-midi", "command",
  ];
  const outside = await page.evaluate((all) => {
    const isInside = ({ top, bottom, left, right, height }) =>
      top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth && height > 0;
    return all.filter((id) => !isInside(document.getElementById(id).getBoundingClientRect()));
  }, ids);
  assert.deepEqual(outside, []);
  await page.screenshot({ path: "screenshots/play-1280x800.png" });
});

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

test("the page is small, comes from one host, and paints before the server says anything", async () => {
  const page = await blank(browser);
  const responses = [];
  page.on("response", (response) => responses.push(response));
  const place = (response) => new URL(response.url());
  const asked = [];
  // These wait for an answer that never comes.
  await page.route("**/v1/**", (route) => asked.push(route.request().url()));
  await page.routeWebSocket("**/v1/**", () => {});
  await page.goto(server.url, { waitUntil: "load" });
  const painted = () => page.evaluate(() => performance.getEntriesByName("first-contentful-paint").length > 0);
  await until(painted, "something is painted");
  const last = ["/page/live-worker.js", "/page/speak-worker.js"];
  await until(() => last.every((name) => responses.some((each) => place(each).pathname === name)), "the last files are there");
  await until(() => asked.some((url) => url.endsWith("/v1/presets")), "the presets are asked for");
  const files = responses.filter((each) => /^\/(page\/.*)?$/.test(place(each).pathname));
  const sizes = (await Promise.all(files.map((each) => each.body()))).map((body) => body.length);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`${sizes.length} files, ${bytes} bytes`);
  assert.deepEqual([...new Set(responses.map((each) => place(each).host))], [new URL(server.url).host]);
  assert.ok(bytes > 20_000 && bytes <= 200_000, `${bytes} bytes`);
});

test("everything works from the keyboard, also with less motion", async () => {
  const page = await open(browser, server, { reducedMotion: "reduce" });
  const reached = [];
  for (let i = 0; i < 44; i++) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement.id || document.activeElement.dataset.key || document.activeElement.dataset.preset));
  }
  const wanted = ["nav-speak", "play", "gain", "60", "focus", "tempo", "key", "reverb", "instrument", "seed"];
  for (const id of [...wanted, "record", "copy-link", "copy-command", "save-midi"]) {
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
