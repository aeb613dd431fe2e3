// Text to speech in the page, with a stand-in for the language model.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, until } from "./harness.js";
import { browser, decoded, server, speaker, tokens, upstream } from "./setup.js";

const TEXT = "Good morning. This is a test.";

/** A page whose server speaks with the stand-in. */
async function speaking(options) {
  upstream.answer(tokens, options);
  const page = await open(browser, speaker, { hash: "#speak" });
  await until(() => page.isVisible("#text"), "the text field is there");
  return page;
}

const spoken = (page) =>
  page.evaluate(async () => {
    const { views } = await import("/page/app.js");
    const { FIELD } = await import("/page/ring.js");
    const { player, nSamples } = views.speak;
    const start = player.ring.get(FIELD.SPLICE);
    const at = (i) => player.ring.samples[2 * ((start + i) & player.ring.mask)];
    return Array.from({ length: Math.min(nSamples, player.ring.capacity) }, (_, i) => at(i));
  });

/** Waits until the page has so many samples: the last ones may come after the ledger. */
const complete = (page, n) =>
  until(() => page.evaluate(async () => (await import("/page/app.js")).views.speak.nSamples).then((has) => has === n), `there are ${n} samples`);

const whole = (page) =>
  until(async () => (await page.textContent("#ledger")).includes("tokens were accepted"), "the ledger is there");

test("text is heard while it is spoken, and its samples are those of its tokens", async () => {
  let end;
  const page = await speaking({ mayEnd: new Promise((resolve) => (end = resolve)) });
  assert.equal(await page.locator("#voice option").count(), 8);
  await page.fill("#text", TEXT);
  await page.selectOption("#voice", "leo");
  await page.click("#say");
  const columns = () => page.evaluate(async () => (await import("/page/app.js")).views.speak.picture.mel.n);
  const played = () => page.evaluate(async () => (await import("/page/app.js")).views.speak.player?.ring.played() ?? 0);
  await until(async () => (await played()) > 0 && (await columns()) > 0, "it is heard and drawn before the last token");
  end();
  await whole(page);
  await complete(page, decoded.length);
  const samples = await spoken(page);
  assert.equal(samples.length, decoded.length);
  const wrong = samples.findIndex((sample, i) => sample !== decoded[i] / 32768);
  assert.equal(wrong, -1, `sample ${wrong} differs from POST /v1/decode`);
  const { body } = upstream.turn().requests[0];
  assert.ok(body.prompt.includes(TEXT) && body.prompt.includes("leo"), body.prompt);
  assert.ok(Math.abs((await columns()) - decoded.length / 256) <= 1, `${await columns()} columns`);
  assert.equal(await page.textContent("#speak-title"), TEXT);
  assert.deepEqual(page.complaints, []);
});

test("the speed changes the length", async () => {
  const page = await speaking();
  await page.fill("#text", TEXT);
  await page.locator("#pace").fill("2");
  assert.equal(await page.textContent("#pace-value"), "2.00x");
  await page.keyboard.press("Tab");
  await page.focus("#text");
  await page.keyboard.press("Control+Enter");
  await whole(page);
  await complete(page, Math.round(decoded.length / 2));
});

test("the button beside an empty picture speaks the example", async () => {
  const page = await speaking();
  assert.match(await page.textContent("#speak-notice"), /^Press Speak/);
  assert.equal(await page.isVisible("#tokens"), false, "tokens are behind a link");
  await page.click("#speak-play");
  await whole(page);
  assert.equal(await page.textContent("#speak-title"), await page.inputValue("#text"));
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save-speech")]);
  assert.equal(download.suggestedFilename(), "tara.wav");
});

test("a model that breaks off is explained", async () => {
  const page = await speaking({ dieAfter: 0 });
  const hasButton = () => page.isVisible("#speak-notice button");
  await page.fill("#text", "");
  await page.click("#say");
  await until(async () => (await page.textContent("#speak-notice")).includes("no text"), "the page asks for text");
  assert.equal(await hasButton(), false);
  await page.fill("#text", TEXT);
  await page.click("#say");
  const said = () => page.textContent("#speak-notice");
  await until(async () => (await said()).includes("could not do this"), "the page explains it");
  assert.equal(await hasButton(), true, "the model may speak the next time");
});

test("a model that breaks off after its first words is explained too", async () => {
  const page = await speaking({ paceMs: 70, dieAfter: 16 });
  await page.fill("#text", TEXT);
  await page.click("#say");
  const said = () => page.textContent("#speak-notice");
  await until(async () => (await said()).includes("could not do this"), "the page explains it");
});

test("a server that cannot speak has no text field", async () => {
  const page = await open(browser, server, { hash: "#speak" });
  await until(() => page.isVisible("#tokens"), "the view is there");
  assert.equal(await page.isVisible("#text"), false);
  assert.deepEqual(page.complaints, []);
});
