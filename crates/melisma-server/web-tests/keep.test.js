// What a listener keeps: settings in the address, a link, a command, MIDI, speech and recordings.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { captured, listen } from "./capture.js";
import { environment, loaded, open, pause, playing, reload, streamed, until } from "./harness.js";
import { browser, decoded, server, speaker, tokens, upstream } from "./setup.js";
import { difference } from "./signal.js";

const CHANGED =
  "?preset=sleep&seed=good+night&key=F%23&mode=lydian&tempo=90&intensity=0.8&voices=melody,swells" +
  "&reverb=0.6&brightness=1.585&instrument=pad";
/** A seed that would do harm in a shell, or in a page, if anything took it for more than text. */
const NASTY = `'; touch harm; echo "$(touch harm)" <b>\`x\``;
const permissions = ["clipboard-read", "clipboard-write"];

/** The settings that the controls show. */
const shown = (page) =>
  page.evaluate(() => {
    const ids = ["seed", "key", "mode", "tempo", "intensity", "reverb", "brightness", "instrument"];
    const values = Object.fromEntries(ids.map((id) => [id, document.getElementById(id).value]));
    const all = (name) => [...document.querySelectorAll(`[data-${name}][aria-pressed=true]`)];
    const pressed = (name) => all(name).map((button) => button.dataset[name]).join();
    return { ...values, preset: pressed("preset"), voices: pressed("voice") };
  });

/** Runs a line of a shell in an empty folder, and returns the files that it leaves there. */
async function shell(line) {
  const folder = mkdtempSync(join(tmpdir(), "melisma-page-"));
  const options = { cwd: folder, env: environment() };
  await promisify(execFile)("bash", ["-c", `melisma() { "$MELISMA" "$@"; }; ${line}`], options);
  const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  rmSync(folder, { recursive: true });
  return files;
}

const copied = async (page, button, status = "#copied") => {
  await page.click(button);
  await until(async () => (await page.textContent(status)).includes("copied"), "it is copied");
  return page.evaluate(() => navigator.clipboard.readText());
};

test("settings are in the address, and a reload and a link keep them", async () => {
  const page = await open(browser, server, { permissions });
  await loaded(page);
  assert.equal(await page.evaluate(() => location.search), "", "nothing was chosen yet");
  await page.click("[data-preset=bright]");
  await page.selectOption("#key", "A#");
  await page.fill("#seed", NASTY);
  await page.locator("#seed").blur();
  await page.click("[data-voice=drums]");
  await page.locator("#tempo").fill("101");
  await page.locator("#motion").fill("0.77");
  const chosen = await shown(page);
  await page.click("#nav-watch");
  // A reload that overtakes the link would load the address before it.
  await until(() => page.isVisible("#charts"), "the view is there");
  await reload(page);
  await loaded(page);
  await until(() => page.isVisible("#charts"), "the view stays too");
  assert.deepEqual(await shown(page), chosen);
  await page.click("#nav-play");
  const link = await copied(page, "#copy-link");
  const other = await open(browser, server, { hash: link.slice(server.url.length + 1) });
  await loaded(other);
  assert.deepEqual(await shown(other), chosen);
  assert.equal(await other.inputValue("#motion"), "0.77");
  assert.equal(await other.textContent("#piece"), "Bright in A♯ lydian");
  assert.deepEqual([...page.complaints, ...other.complaints], []);
});

test("voice and speed are in the address", async () => {
  const page = await open(browser, speaker, { hash: "?voice=leo&speed=1.5#speak" });
  await until(() => page.isVisible("#text"), "the text field is there");
  assert.deepEqual([await page.inputValue("#voice"), await page.textContent("#pace-value")], ["leo", "1.50x"]);
  await page.selectOption("#voice", "mia");
  await reload(page);
  await until(() => page.isVisible("#text"), "the text field is there");
  assert.equal(await page.inputValue("#voice"), "mia");
});

test("the command of a text is what the page asks for", async () => {
  upstream.answer(tokens);
  const page = await open(browser, speaker, { permissions, hash: "?voice=leo&speed=1.5#speak" });
  await until(() => page.isVisible("#text"), "the text field is there");
  const text = "It's \"quoted\" $(touch no) `id`; fine\u202e.";
  await page.fill("#text", text);
  const line = await copied(page, "#copy-speech", "#speech-copied");
  assert.match(line, /^curl -sS --fail -o speech\.mp3 -H 'content-type: application\/json' -d /);
  assert.ok(line.endsWith("/v1/audio/speech"), line);
  const files = await shell(line);
  assert.deepEqual(Object.keys(files), ["speech.mp3"], "the text is text, and no command");
  const [{ body }] = upstream.turn().requests;
  assert.ok(body.prompt.includes(text.replace("\u202e", "")) && body.prompt.includes("leo"), body.prompt);
});

test("unknown and hostile values of an address are ignored", async () => {
  const plain = await open(browser, server);
  await loaded(plain);
  const wrong = [
    "?preset=techno&key=H&mode=ionian&tempo=1e9&intensity=-1&voices=melody,bass&reverb=NaN&brightness=0&instrument=x",
    "?preset[]=focus&tempo=0x50&tempo=&seed=&key=&foo=bar&__proto__=1&constructor=2",
    `?seed=${"x".repeat(65)}&preset=%00&voices=${"melody,".repeat(9)}x&gain=Infinity`,
    `?seed=${encodeURIComponent("a\u001b[2Jb")}&mode=%3Cscript%3E&speed=99&voice=nobody`,
  ];
  for (const hash of wrong) {
    const page = await open(browser, server, { hash });
    await loaded(page);
    assert.deepEqual(await shown(page), await shown(plain), hash);
    await page.click("[data-voice=drums]");
    const search = await page.evaluate(() => location.search);
    assert.doesNotMatch(search, /foo|proto|constructor|techno|script/, "what is wrong is not kept");
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
});

test("the command of a preset makes the samples that are heard, whatever the seed is", async () => {
  const page = await open(browser, server, { permissions, hash: `?seed=${encodeURIComponent(NASTY)}` });
  await loaded(page);
  assert.equal(await page.inputValue("#seed"), NASTY);
  const line = await copied(page, "#copy-command");
  assert.equal(line, await page.textContent("#command"), "the line that is shown");
  assert.match(line, /^melisma synth preset:focus -o focus\.wav .* --seconds 60 --endless/);
  await page.click("#record");
  await page.click("#play");
  await playing(page);
  await streamed(page, 1.2);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#play")]);
  const heard = readFileSync(await download.path()).subarray(44);
  const samples = new Float32Array(heard.buffer.slice(heard.byteOffset, heard.byteOffset + heard.length));
  assert.ok(samples.length > 20_000, `${samples.length} samples`);
  const files = await shell(line.replace("--seconds 60", "--seconds 4 --sample-format f32"));
  assert.deepEqual(Object.keys(files), ["focus.wav"], "the seed is text, and no command");
  const bytes = files["focus.wav"];
  const at = bytes.indexOf("data") + 8;
  const made = new Float32Array(bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + bytes.length));
  assert.equal(difference(samples, made), -1);
});

test("the command of a changed piece makes what is heard", async () => {
  const page = await listen(browser, server, { hash: CHANGED });
  await streamed(page, 1.2);
  const heard = await captured(page);
  const line = await page.textContent("#command");
  assert.match(line, /^melisma synth preset:sleep -o sleep\.wav '--seed=good night' '--key=F#' --mode=lydian --tempo=90 /);
  assert.match(line, / --intensity=0\.8 --brightness=1\.585 --reverb=0\.6 --seconds 60 --endless/);
  const { "sleep.wav": bytes } = await shell(line.replace("--seconds 60", "--seconds 6"));
  const at = bytes.indexOf("data") + 8;
  const made = new Int16Array(bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + bytes.length));
  // A stream begins with the silence of the limiter's look-ahead, which a file leaves out.
  const samples = heard.samples.subarray(0, heard.rate * 2);
  assert.ok(samples.length > heard.rate && samples.some((sample) => Math.abs(sample) > 0.01), "nothing was heard");
  const isNear = (sample, other) => Math.abs(sample * 32768 - other) < 1.1;
  const isSame = (shift) => samples.every((sample, i) => i < 2 * shift || isNear(sample, made[i - 2 * shift]));
  const shifts = Array.from({ length: Math.round(0.003 * heard.rate) }, (_, i) => i);
  assert.ok(shifts.some(isSame), "the file has other samples");
});

test("the notes are those of the command line's MIDI file", async () => {
  const page = await open(browser, server, { hash: "?preset=bright&seed=a+tune" });
  await loaded(page);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save-midi")]);
  assert.equal(download.suggestedFilename(), "melisma-bright.mid");
  const piece = "melisma synth preset:bright --seed 'a tune' --seconds 60 --rate 8000 --loudness off";
  const files = await shell(`${piece} -o x.wav --midi x.mid`);
  assert.deepEqual(readFileSync(await download.path()), files["x.mid"]);
});

test("decoded sound is saved under the name of its file", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  assert.equal(await page.isDisabled("#save-speech"), true);
  const name = "Crème brûlée, take 2 <b>.final.wav";
  await page.fill("#tokens", tokens);
  await page.click("#decode");
  await until(async () => (await page.textContent("#ledger")).length > 0, "the tokens are decoded");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save-speech")]);
  assert.equal(download.suggestedFilename(), "tokens.wav");
  const bytes = readFileSync(await download.path());
  const head = [20, 22, 34].map((at) => bytes.readUInt16LE(at));
  assert.deepEqual([...head, bytes.readUInt32LE(24)], [1, 1, 16, 24_000]);
  const samples = new Int16Array(bytes.buffer.slice(bytes.byteOffset + 44, bytes.byteOffset + bytes.length));
  assert.equal(samples.length, decoded.length);
  assert.ok(samples.every((sample, i) => Math.abs(sample - decoded[i]) <= 1), "its samples are those of POST /v1/decode");
  await page.setInputFiles("#file", { name, mimeType: "audio/wav", buffer: bytes });
  await until(async () => (await page.textContent("#speak-title")) === name, "the file has its own name");
  assert.equal(await page.textContent("#speak-way"), "Through tokens and back.");
});

test("a recording shows its time, and can be cancelled", async () => {
  const page = await open(browser, server);
  const downloads = [];
  page.on("download", (download) => downloads.push(download));
  await page.click("#record");
  assert.equal(await page.textContent("#recorded"), "It begins with the music.");
  await page.click("#play");
  await playing(page);
  const isTimed = async () => /^Recording \d:(?!00)\d\d$/.test(await page.textContent("#recorded"));
  await until(isTimed, "the time is shown");
  await page.click("#cancel");
  assert.equal(await page.textContent("#recorded"), "Nothing was saved.");
  assert.deepEqual([await page.isVisible("#cancel"), await page.textContent("#record")], [false, "Record"]);
  assert.equal(await page.evaluate(() => document.activeElement.id), "record", "the focus is not lost");
  await page.click("#play");
  await pause(300);
  assert.deepEqual(downloads, []);
});
