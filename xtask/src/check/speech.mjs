// OpenAI's client in Node.js: every format, as audio and in events. The arguments are the formats; the bytes to expect
// lie in expected.FORMAT.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const said = { model: "tts-1-hd", voice: "nova", input: "Good morning!" };

for (const response_format of process.argv.slice(2)) {
  const expected = readFileSync(`expected.${response_format}`);
  const answer = await client.audio.speech.create({ ...said, response_format });
  assert.ok(Buffer.from(await answer.arrayBuffer()).equals(expected), `${response_format}: other bytes`);
  const streamed = await client.audio.speech.create({ ...said, response_format, stream_format: "sse" });
  const lines = (await streamed.text()).split("\n").filter((line) => line);
  const events = lines.map((line) => JSON.parse(line.replace(/^data: /, "")));
  const audio = Buffer.concat(events.slice(0, -1).map((event) => Buffer.from(event.audio, "base64")));
  assert.ok(audio.equals(expected), `${response_format} in events: other bytes`);
  assert.equal(events.at(-1).type, "speech.audio.done");
}
await assert.rejects(client.audio.speech.create({ ...said, model: "tts-9" }), OpenAI.NotFoundError);
await assert.rejects(client.audio.speech.create({ ...said, voice: "bob" }), OpenAI.BadRequestError);
console.log("the openai client in Node.js: every format, as audio and in events");
