// A server, a browser and the command line's render: what every test of the page needs.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const MELISMA = process.env.MELISMA;
/** The longest wait for anything: a machine may be slow, and no test says how fast it is. */
export const WAIT_MS = 120_000;
const servers = new Set();
process.on("exit", () => servers.forEach((child) => child.kill("SIGKILL")));

/** The caller's environment without its proxy and its settings of Melisma, and with a device that every machine has. */
export function environment() {
  const kept = Object.entries(process.env).filter(([name]) => !/^MELISMA_(?!CACHE)|_proxy$/i.test(name));
  return { ...Object.fromEntries(kept), MELISMA_CONFIG: "/dev/null", MELISMA_DEVICE: "cpu" };
}

/** Starts `melisma serve` and waits until it is ready. */
export async function serve({ args = [], env = {}, port = 0 } = {}) {
  // As many streams and speakers whatever the machine does while the server starts: nothing is measured.
  const child = spawn(MELISMA, ["serve", "--port", String(port), "--streams", "16", "--speakers", "2", ...args], {
    env: { ...environment(), ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  servers.add(child);
  child.on("exit", () => servers.delete(child));
  const lines = createInterface({ input: child.stderr });
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (line) => line.startsWith("http://") && resolve(line.trim()));
    child.on("exit", (code) => reject(new Error(`melisma serve ended with ${code}`)));
  });
  await until(async () => (await fetch(`${url}/ready`)).ok, "the server is ready");
  const stop = () =>
    new Promise((resolve) => {
      child.on("exit", resolve);
      child.kill("SIGKILL");
    });
  return { url, port: Number(new URL(url).port), stop };
}

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"], timeout: WAIT_MS });
}

/** An empty page. */
export async function blank(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(WAIT_MS);
  return context.newPage();
}

/** Opens the page; what the browser complains about is in `page.complaints`, and what the page logs in `page.logged`. */
export async function open(browser, server, { hash = "", init, ...options } = {}) {
  const page = await blank(browser, { viewport: { width: 1200, height: 820 }, ...options });
  [page.complaints, page.logged] = [[], []];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => {
    page.logged.push(message.text());
    if (/Content Security Policy|Refused to/.test(message.text())) {
      page.complaints.push(message.text());
    }
  });
  if (init) {
    await page.addInitScript(init);
  }
  await page.goto(`${server.url}/${hash}`);
  return page;
}

/** Waits until something is true, and returns it. */
export async function until(isTrue, what) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const value = await Promise.resolve()
      .then(isTrue)
      .catch(() => false);
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${WAIT_MS} ms until ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until the page has the server's presets. */
export async function loaded(page) {
  const preset = () => page.evaluate(async () => (await import("/page/app.js")).views.play.controls.preset?.name);
  await until(preset, "the presets are there");
}

/** Waits until the worklet plays the page's stream, and returns the time since the call. */
export function playing(page) {
  return page.evaluate(async (waitMs) => {
    const { views } = await import("/page/app.js");
    const start = performance.now();
    while (views.play.state !== "playing" || views.play.player.ring.get(5) !== 1) {
      if (performance.now() - start > waitMs) {
        throw new Error(`nothing plays; the page says: ${document.getElementById("play-notice").textContent}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return performance.now() - start;
  }, WAIT_MS);
}

/** Waits until that many seconds more of the present stream are there: a busy machine takes longer than they last. */
export function streamed(page, seconds) {
  return page.evaluate(async ([length, waitMs]) => {
    const { views } = await import("/page/app.js");
    const { FIELD } = await import("/page/ring.js");
    const { ring, rate } = views.play.player;
    const [start, from] = [performance.now(), ring.get(FIELD.WRITTEN)];
    while ((ring.get(FIELD.WRITTEN) - from) >>> 0 < length * rate) {
      if (performance.now() - start > waitMs) throw new Error("the stream stands still");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }, [seconds, WAIT_MS]);
}

/** Reloads the address that the page shows, once the browser has it too: a reload may overtake a change of it. */
export async function reload(page) {
  const session = await page.context().newCDPSession(page);
  await until(async () => {
    const { entries, currentIndex } = await session.send("Page.getNavigationHistory");
    return entries[currentIndex].url === (await page.evaluate(() => location.href));
  }, "the browser has the address of the page");
  await session.detach();
  await page.reload();
}

/** The interleaved samples of `melisma synth --endless`. */
export function render({ preset, seed, rate, seconds }) {
  const folder = mkdtempSync(join(tmpdir(), "melisma-page-"));
  const file = join(folder, "piece.wav");
  const args = ["synth", `preset:${preset}`, "-o", file, "--seed", String(seed), "--rate", String(rate)];
  const more = ["--seconds", String(seconds), "--endless", "--sample-format", "f32"];
  const ended = spawnSync(MELISMA, [...args, ...more], { env: environment() });
  if (ended.status !== 0) {
    throw new Error(`melisma synth: ${ended.stderr}`);
  }
  const bytes = readFileSync(file);
  rmSync(folder, { recursive: true });
  const at = bytes.indexOf("data") + 8;
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + bytes.length));
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
