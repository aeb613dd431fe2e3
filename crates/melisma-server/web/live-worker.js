// Receives live music and writes it into the ring, away from the page's own work.
import { FIELD, Ring } from "./ring.js";

const HEAD_BYTES = 16;
const LAST = 2;
/** How often the page hears about the connection. */
const REPORT_MS = 200;
const BLOCK_MS = 10;
/** What the server allows. */
const [MIN_AHEAD_MS, MAX_AHEAD_MS] = [10, 500];
/** Blocks of a recording before the browser takes them over. */
const MAX_PARTS = 1000;
/** The longest recording, in frames: an hour and a half at 48 kHz, 2 GB. */
const MAX_RECORDED = 1 << 28;

/** @type {Ring} */
let ring;
/** @type {WebSocket | null} the stream that is heard */
let current = null;
/** @type {WebSocket | null} the stream that will be heard */
let next = null;
/** @type {object[]} messages for a stream that is not open yet */
let waiting = [];
/** @type {{ parts: (Float32Array | Blob)[], nFrames: number } | null} everything written while a recording runs */
let recording = null;
/** How early the present stream's blocks leave the server, and the ring's target that this suits; in ms. */
let lead = { rate: 0, aheadMs: 0, targetMs: 0 };
let jitterMs = 0;
let arrivedMs = 0;
let reportedMs = 0;

onmessage = ({ data }) => {
  switch (data.type) {
    case "ring":
      ring = new Ring(data.memory);
      break;
    case "open":
      open(data.url, data.protocols);
      break;
    case "say":
      say(data.message);
      break;
    case "close":
      close();
      break;
    case "record":
      record(data.what);
      break;
  }
};

/** The present stream goes on until the new one has its first block. */
function open(url, protocols) {
  next?.close();
  waiting = [];
  const socket = new WebSocket(url, protocols);
  next = socket;
  let wasOpen = false;
  /** What the stream says before its first block belongs to it, and not to the one that is heard. */
  const early = [];
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    wasOpen = true;
    waiting.splice(0).forEach((message) => socket.send(JSON.stringify(message)));
  };
  socket.onmessage = ({ data }) => {
    if (socket !== next && socket !== current) {
      return;
    }
    if (typeof data !== "string") {
      if (socket === next) {
        begin(socket, new URL(url).searchParams);
        early.splice(0).forEach((message) => postMessage(message));
      }
      take(data);
    } else if (socket === next) {
      early.push(JSON.parse(data));
    } else {
      postMessage(JSON.parse(data));
    }
  };
  socket.onclose = ({ code }) => {
    if (socket === next || socket === current) {
      next = socket === next ? null : next;
      current = socket === current ? null : current;
      early.forEach((message) => postMessage(message));
      postMessage({ type: "closed", wasOpen, code });
    }
  };
}

/** @param {WebSocket} socket @param {URLSearchParams} query */
function begin(socket, query) {
  current?.close();
  const [rate, aheadMs] = [Number(query.get("rate")), Number(query.get("ahead"))];
  lead = { rate, aheadMs, targetMs: aheadMs };
  current = socket;
  next = null;
  arrivedMs = 0;
  jitterMs = 0;
  ring.splice();
  postMessage({ type: "begun" });
}

/** @param {ArrayBuffer} block */
function take(block) {
  const now = performance.now();
  if (arrivedMs > 0) {
    // As RTP does (RFC 3550, section 6.4.1).
    jitterMs += (Math.abs(now - arrivedMs - BLOCK_MS) - jitterMs) / 16;
  }
  arrivedMs = now;
  const samples = new Float32Array(block, HEAD_BYTES);
  ring.write(samples, 2);
  follow();
  keep(samples);
  if (now - reportedMs > REPORT_MS) {
    reportedMs = now;
    postMessage({ type: "jitter", jitterMs, recordedFrames: recording?.nFrames ?? 0 });
  }
  if (new DataView(block).getUint32(12, true) & LAST) {
    current?.close();
  }
}

/** Where the ring wants more sound in reserve, or less, blocks leave the server earlier or later. */
function follow() {
  const targetMs = Math.round((ring.get(FIELD.TARGET) / lead.rate) * 1e3);
  const aheadMs = Math.min(MAX_AHEAD_MS, Math.max(MIN_AHEAD_MS, lead.aheadMs + targetMs - lead.targetMs));
  if (aheadMs !== lead.aheadMs && current?.readyState === WebSocket.OPEN) {
    lead = { ...lead, aheadMs, targetMs };
    current.send(JSON.stringify({ type: "ahead", milliseconds: aheadMs }));
  }
}

function say(message) {
  const socket = next ?? current;
  if (socket?.readyState === WebSocket.OPEN) {
    socket.send(JSON.stringify(message));
  } else {
    waiting.push(message);
  }
}

function close() {
  const sockets = [next, current];
  next = null;
  current = null;
  sockets.forEach((socket) => socket?.close());
}

/** Adds to the recording. The browser holds its older parts, on disk where there are many. */
function keep(samples) {
  if (recording) {
    recording.parts.push(samples);
    recording.nFrames += samples.length / 2;
    if (recording.parts.length > MAX_PARTS) {
      recording.parts = [new Blob(recording.parts)];
    }
    if (recording.nFrames >= MAX_RECORDED) {
      record("save");
    }
  }
}

function record(what) {
  if (what === "save" && recording) {
    postMessage({ type: "recorded", samples: new Blob(recording.parts), nFrames: recording.nFrames });
  }
  recording = what === "start" ? { parts: [], nFrames: 0 } : null;
}
