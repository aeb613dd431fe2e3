// The built-in voice in the page: a server without any option speaks.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { open, serve, until } from "./harness.js";
import { browser } from "./setup.js";

const voice = await serve();
after(() => voice.stop());

test("the example is spoken without an option, and its samples are those of the server", async () => {
  const page = await open(browser, voice, { hash: "#speak" });
  await until(() => page.isVisible("#text"), "the text field is there");
  const input = await page.inputValue("#text");
  assert.match(input, /^Good morning/);
  await page.click("#say");
  await until(async () => (await page.textContent("#ledger")).includes("tokens were accepted"), "the ledger is there");
  const body = JSON.stringify({ input, response_format: "pcm" });
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`${voice.url}/v1/audio/speech`, { method: "POST", headers, body });
  const expected = new Int16Array(await reply.arrayBuffer());
  assert.ok(expected.length > 24_000, `${expected.length} samples`);
  const has = () => page.evaluate(async () => (await import("/page/app.js")).views.speak.nSamples);
  await until(async () => (await has()) === expected.length, `there are ${expected.length} samples`);
  assert.deepEqual(page.complaints, []);
});

test("its name is in the lists of models and voices", async () => {
  const ids = async (path, key) => (await (await fetch(`${voice.url}${path}`)).json())[key].map(({ id }) => id);
  assert.ok((await ids("/v1/models", "data")).includes("voice"));
  assert.equal((await ids("/v1/audio/voices", "voices")).length, 1);
});
