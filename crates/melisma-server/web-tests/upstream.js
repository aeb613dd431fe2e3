// A stand-in for the language model behind the server: it streams given tokens at a given pace.
import { createServer } from "node:http";

export async function standIn() {
  // A request that is still answered when the next test begins belongs to the turn before.
  let turn;
  const server = createServer(async (request, reply) => {
    // The server asks now and then whether this one is there.
    if (request.method === "GET") {
      reply.end("{}");
      return;
    }
    const chunks = [];
    for await (const chunk of request) {
      chunks.push(chunk);
    }
    const state = turn;
    state.requests.push({ path: request.url, body: JSON.parse(Buffer.concat(chunks).toString()) });
    state.sentFrames = 0;
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (const text of state.frames) {
      if (state.sentFrames === state.dieAfter) {
        reply.destroy();
        return;
      }
      if (state.sentFrames === state.frames.length - 1) {
        await state.mayEnd;
      }
      reply.write(`data: ${JSON.stringify({ choices: [{ index: 0, text, finish_reason: null }] })}\n\n`);
      state.sentFrames += 1;
      await new Promise((resolve) => setTimeout(resolve, state.paceMs));
    }
    reply.write(`data: ${JSON.stringify({ choices: [{ index: 0, text: "", finish_reason: "stop" }] })}\n\n`);
    reply.end("data: [DONE]\n\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  /**
   * Forgets the requests before.
   * @param {string} tokens what it answers from now on
   * @param {{ paceMs?: number, dieAfter?: number, mayEnd?: Promise<void> }} options time between two frames,
   *   frames before it breaks off, what the last frame waits for
   */
  const answer = (tokens, { paceMs = 0, dieAfter = Infinity, mayEnd } = {}) => {
    const frames = tokens.match(/(?:<custom_token_\d+>\s*){7}/g);
    turn = { frames, paceMs, dieAfter, mayEnd, requests: [], sentFrames: 0 };
  };
  answer("<custom_token_0>".repeat(7));
  return { url: `http://127.0.0.1:${server.address().port}`, turn: () => turn, answer, stop };
}
