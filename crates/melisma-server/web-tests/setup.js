// One browser, a server and one that speaks, for all tests of the page.
import { after, afterEach } from "node:test";
import { launch, serve } from "./harness.js";
import { standIn } from "./upstream.js";

/** A stand-in for a language model, behind the speaker. */
export const upstream = await standIn();
const args = ["--upstream", upstream.url, "--model", "builtin:mini24"];
const mute = ["--voice-model", "none"];
export const [server, speaker, browser] = await Promise.all([serve({ args: mute }), serve({ args }), launch()]);

// A file of two seconds, its tokens, and the samples that they make.
const post = (path, body) => fetch(`${server.url}${path}`, { method: "POST", body });
const music = await fetch(`${server.url}/v1/synth.wav?preset=bright&seed=7&seconds=2&rate=24000`);
export const clip = await music.arrayBuffer();
export const tokens = await (await post("/v1/encode", clip)).text();
export const decoded = new Int16Array(await (await post("/v1/decode?format=pcm", tokens)).arrayBuffer());

afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));

after(async () => {
  await browser.close();
  await Promise.all([server.stop(), speaker.stop()]);
  upstream.stop();
});
