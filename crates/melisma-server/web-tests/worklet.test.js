// The reserve of live sound: it grows before a stream runs dry, and shrinks when the stream is punctual again.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { server } from "./setup.js";

const RATE = 48_000;
const QUANTUM = 128;
const BLOCK = 480;
const BLOCK_MS = 10;
/** From a message of the page to the blocks that it asks for. */
const REPLY_MS = 15;
let folder;
let RingPlayer;
let ring;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "melisma-worklet-"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  for (const name of ["worklet.js", "ring.js"]) {
    writeFileSync(join(folder, name), await (await fetch(`${server.url}/page/${name}`)).text());
  }
  globalThis.sampleRate = RATE;
  globalThis.currentTime = 0;
  globalThis.AudioWorkletProcessor = class {};
  globalThis.registerProcessor = (_name, processor) => (RingPlayer = processor);
  await import(pathToFileURL(join(folder, "worklet.js")).href);
  ring = await import(pathToFileURL(join(folder, "ring.js")).href);
});

after(() => rmSync(folder, { recursive: true }));

/** Plays a live stream with a block every `everyMs` that stalls at `stalls`, pairs of a time and a length in ms. */
function play(seconds, stalls, everyMs = BLOCK_MS) {
  const { FIELD, Ring } = ring;
  const memory = Ring.create(1 << 17);
  const leastMs = 35;
  memory.set(FIELD.TARGET, (leastMs / 1e3) * RATE);
  memory.set(FIELD.LIVE, 1);
  memory.set(FIELD.WANTED, 1);
  const player = new RingPlayer({ processorOptions: { memory: memory.memory } });
  const outputs = [[new Float32Array(QUANTUM), new Float32Array(QUANTUM)]];
  const block = new Float32Array(2 * BLOCK).fill(0.1);
  const targetMs = () => (memory.get(FIELD.TARGET) / RATE) * 1e3;
  const [targets, fills] = [[], []];
  let [sent, written] = [0, 0];
  for (let n = 0; n < (seconds * RATE) / QUANTUM; n++) {
    const nowMs = (n * QUANTUM * 1e3) / RATE;
    targets.push(targetMs());
    const asked = targets[Math.max(0, n - Math.round((REPLY_MS * RATE) / QUANTUM / 1e3))];
    while (sent * everyMs - asked <= nowMs) {
      sent += 1;
    }
    const isStalled = stalls.some(([at, length]) => nowMs >= at && nowMs < at + length);
    for (; !isStalled && written < sent; written++) {
      memory.write(block, 2);
    }
    fills.push(memory.fill());
    globalThis.currentTime = nowMs / 1e3;
    player.process([], outputs);
  }
  // Without the beginning, when more comes than is played.
  const fillMs = (Math.max(...fills.slice(fills.length / 2)) / RATE) * 1e3;
  return { underruns: memory.get(FIELD.UNDERRUNS), mostMs: Math.max(...targets), lastMs: targetMs(), fillMs };
}

test("a punctual stream has the least reserve", () => {
  const { underruns, mostMs, lastMs } = play(30, []);
  assert.deepEqual({ underruns, mostMs, lastMs }, { underruns: 0, mostMs: 35, lastMs: 35 });
});

test("the clock of the server may be slower or faster than that of the sound card", () => {
  for (const everyMs of [0.998 * BLOCK_MS, 1.002 * BLOCK_MS]) {
    const { underruns, mostMs, fillMs } = play(60, [], everyMs);
    assert.deepEqual({ underruns, mostMs }, { underruns: 0, mostMs: 35 }, `a block every ${everyMs} ms`);
    assert.ok(fillMs < 70, `${fillMs} ms wait, with a block every ${everyMs} ms`);
  }
});

test("the reserve grows before delays that grow", () => {
  const stalls = [22, 26, 31, 37, 45, 54, 65, 78, 94].map((lengthMs, i) => [2000 + 700 * i, lengthMs]);
  const { underruns, mostMs } = play(9, stalls);
  assert.equal(underruns, 0);
  assert.ok(mostMs >= 95 && mostMs <= 160, `${mostMs} ms`);
});

test("after one long delay, the same one does no harm", () => {
  assert.equal(play(5, [[2000, 90]]).underruns, 1);
  assert.equal(play(8, [[2000, 90], [4000, 90], [6000, 100]]).underruns, 1);
});

test("a reserve that is not needed any more is given up", () => {
  const { mostMs, lastMs } = play(300, [[2000, 30], [2500, 40]]);
  assert.ok(mostMs >= 50, `${mostMs} ms`);
  assert.equal(lastMs, 35);
});
