// Play for minutes: no gap beside a busy core, and a heap that stays flat.
import assert from "node:assert/strict";
import { Worker } from "node:worker_threads";
import { test } from "node:test";
import { open, pause, playing } from "./harness.js";
import { browser, server } from "./setup.js";

const MINUTE_MS = 60_000;

const underruns = (page) =>
  page.evaluate(async () => (await import("/page/app.js")).views.play.player.ring.get(4));

test("twenty seconds have no underrun", async () => {
  const page = await open(browser, server);
  await page.click("#play");
  await playing(page);
  await pause(20_000);
  assert.equal(await underruns(page), 0);
});

test("five minutes beside a busy core have no underrun", async () => {
  const page = await open(browser, server);
  const busy = new Worker("for (;;);", { eval: true });
  await page.click("#play");
  await playing(page);
  await pause(5 * MINUTE_MS);
  await busy.terminate();
  assert.equal(await underruns(page), 0);
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
