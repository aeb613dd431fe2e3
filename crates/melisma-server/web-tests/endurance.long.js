// Play for minutes: no gap beside a busy core, and a heap that stays flat.
import assert from "node:assert/strict";
import { Worker } from "node:worker_threads";
import { test } from "node:test";
import { open, pause, playing } from "./harness.js";
import { browser, server } from "./setup.js";

const MINUTE_MS = 60_000;

const underruns = (page) =>
  page.evaluate(async () => (await import("/page/app.js")).views.play.player.ring.get(4));

// The player holds 35 ms. A plain timer that is late by most of that shows that the machine stalls all programs.
const TICK_MS = 5;
const STALL_MS = 20;

/** Waits, and returns how often a timer of this process was late by a stall. */
async function stalls(ms) {
  let [count, last] = [0, performance.now()];
  const timer = setInterval(() => {
    const now = performance.now();
    count += now - last > TICK_MS + STALL_MS;
    last = now;
  }, TICK_MS);
  await pause(ms);
  clearInterval(timer);
  return count;
}

async function assertSteady(page, ms) {
  const lateTicks = await stalls(ms);
  const n = await underruns(page);
  console.log(`${n} underruns; a plain timer stalled ${lateTicks} times`);
  assert.ok(n <= lateTicks, `${n} underruns, of which the machine explains ${lateTicks}`);
}

test("twenty seconds have no underrun", async () => {
  const page = await open(browser, server);
  await page.click("#play");
  await playing(page);
  await assertSteady(page, 20_000);
});

test("five minutes beside a busy core have no underrun", async () => {
  const page = await open(browser, server);
  const busy = new Worker("for (;;);", { eval: true });
  await page.click("#play");
  await playing(page);
  await assertSteady(page, 5 * MINUTE_MS);
  await busy.terminate();
});

test("ten minutes grow the heap by less than 1 MB", async () => {
  const page = await open(browser, server);
  const session = await page.context().newCDPSession(page);
  const heapBytes = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Runtime.getHeapUsage")).usedSize;
  };
  await page.click("#play");
  await playing(page);
  await pause(MINUTE_MS);
  const first = await heapBytes();
  await pause(9 * MINUTE_MS);
  const growth = (await heapBytes()) - first;
  console.log(`heap: ${first} bytes, and ${growth} more after nine minutes`);
  assert.ok(growth <= 1e6, `${growth} bytes`);
});
