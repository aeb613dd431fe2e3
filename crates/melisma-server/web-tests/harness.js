// A server, a browser and the command line's render: what every test of the page needs.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const MELISMA = process.env.MELISMA;

/** Starts `melisma serve` and waits until it is ready. */
export async function serve({ args = [], env = {}, port = 0 } = {}) {
  const child = spawn(MELISMA, ["serve", "--port", String(port), ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines = createInterface({ input: child.stderr });
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (line) => line.startsWith("http://") && resolve(line.trim()));
    child.on("exit", (code) => reject(new Error(`melisma serve ended with ${code}`)));
  });
  await until(async () => (await fetch(`${url}/ready`)).ok, 60_000, "the server is ready");
  const stop = () =>
    new Promise((resolve) => {
      child.on("exit", resolve);
      child.kill("SIGKILL");
    });
  return { url, port: Number(new URL(url).port), stop };
}

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
}

/** Opens the page; what the browser complains about is in `page.complaints`. */
export async function open(browser, server, { hash = "", init, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 }, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => {
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

export async function until(isTrue, timeoutMs, what) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await Promise.resolve()
      .then(isTrue)
      .catch(() => false);
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${timeoutMs} ms until ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until the worklet plays, and returns the time since the call. */
export function playing(page) {
  return page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    const start = performance.now();
    while (views.play.player.ring.get(5) !== 1) {
      if (performance.now() - start > 120_000) throw new Error("nothing plays");
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return performance.now() - start;
  });
}

/** The interleaved samples of `melisma synth --endless`. */
export function render({ preset, seed, rate, seconds }) {
  const folder = mkdtempSync(join(tmpdir(), "melisma-page-"));
  const file = join(folder, "piece.wav");
  const args = ["synth", `preset:${preset}`, "-o", file, "--seed", String(seed), "--rate", String(rate)];
  const ended = spawnSync(MELISMA, [...args, "--seconds", String(seconds), "--endless", "--sample-format", "f32"]);
  if (ended.status !== 0) {
    throw new Error(`melisma synth: ${ended.stderr}`);
  }
  const bytes = readFileSync(file);
  rmSync(folder, { recursive: true });
  const at = bytes.indexOf("data") + 8;
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + bytes.length));
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Times depend on what else the machine does: one of `n` attempts must meet them. */
export async function attempts(n, attempt) {
  const found = [];
  for (let i = 0; i < n; i++) {
    const problem = await attempt();
    if (problem === null) {
      return;
    }
    found.push(problem);
  }
  throw new Error(`in each of ${n} attempts: ${found.join("; ")}`);
}
