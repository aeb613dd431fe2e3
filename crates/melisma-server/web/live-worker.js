// Receives live music and writes it into the ring, away from the page's own work.
import { Ring } from "./ring.js";

const HEAD_BYTES = 16;
const LAST = 2;
/** How often the page hears about the connection. */
const REPORT_MS = 200;
const BLOCK_MS = 10;

/** @type {Ring} */
let ring;
/** @type {WebSocket | null} the stream that is heard */
let current = null;
/** @type {WebSocket | null} the stream that will be heard */
let next = null;
/** @type {object[]} messages for a stream that is not open yet */
let waiting = [];
/** @type {Float32Array[] | null} everything written while a recording runs */
let recording = null;
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
      record(data.isOn);
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
        begin(socket);
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

function begin(socket) {
  current?.close();
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
  recording?.push(samples);
  if (now - reportedMs > REPORT_MS) {
    reportedMs = now;
    postMessage({ type: "jitter", jitterMs });
  }
  if (new DataView(block).getUint32(12, true) & LAST) {
    current?.close();
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

function record(isOn) {
  if (isOn) {
    recording = [];
  } else if (recording) {
    const n = recording.reduce((sum, block) => sum + block.length, 0);
    const samples = new Float32Array(n);
    recording.reduce((at, block) => (samples.set(block, at), at + block.length), 0);
    recording = null;
    postMessage({ type: "recorded", samples }, [samples.buffer]);
  }
}
