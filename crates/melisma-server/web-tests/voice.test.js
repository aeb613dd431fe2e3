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

test("its name is in the lists of models and voices, and is spoken", async () => {
  const list = async (path, key) => (await (await fetch(`${voice.url}${path}`)).json())[key];
  assert.equal((await list("/v1/models", "data"))[0].id, "voice");
  assert.deepEqual(await list("/v1/audio/voices", "voices"), [{ id: "voice", name: "voice" }]);
  const page = await open(browser, voice, { hash: "#speak" });
  await until(() => page.isVisible("#text"), "the text field is there");
  assert.deepEqual(await page.locator("#voice option").allTextContents(), ["voice"]);
  const headers = { "content-type": "application/json" };
  const said = async (name) => {
    const body = JSON.stringify({ input: "Good morning.", voice: name, response_format: "pcm" });
    const reply = await fetch(`${voice.url}/v1/audio/speech`, { method: "POST", headers, body });
    return [reply.status, Buffer.from(await reply.arrayBuffer()).toString("base64")];
  };
  const [status, samples] = await said("voice");
  assert.equal(status, 200);
  assert.deepEqual(await said("default"), [status, samples], "any first voice has this name too");
  assert.equal((await said("slt"))[0], 400);
});
