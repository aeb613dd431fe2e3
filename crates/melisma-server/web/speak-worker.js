// Sends tokens, stores the samples that come back or are spoken, and feeds the ring from any place in them.
import { FIELD, Ring } from "./ring.js";

const HEAD_BYTES = 16;
const PUMP_MS = 20;
/** Characters of one message. */
const MESSAGE = 1 << 18;

/** @type {Ring} */
let ring;
let timer = 0;
/** @type {WebSocket | null} */
let socket = null;
/** @type {Float32Array[]} everything that was decoded */
let blocks = [];
let nSamples = 0;
let isWhole = false;
/** The next block to be played, and the sample inside it. */
let [block, offset] = [0, 0];
/** @type {string[]} messages for a socket that is not open yet */
let waiting = [];

onmessage = ({ data }) => {
  switch (data.type) {
    case "ring":
      ring = new Ring(data.memory);
      clearInterval(timer);
      timer = setInterval(pump, PUMP_MS);
      break;
    case "open":
      open(data.url, data.protocols);
      break;
    case "begin":
      begin();
      break;
    case "samples":
      store(data.samples);
      break;
    case "whole":
      isWhole = true;
      pump();
      break;
    case "tokens":
      for (let at = 0; at < data.text.length; at += MESSAGE) {
        send(data.text.slice(at, at + MESSAGE));
      }
      break;
    case "end":
      send(JSON.stringify({ type: "end" }));
      break;
    case "seek":
      seek(data.sample);
      break;
    case "save":
      save();
      break;
    case "close":
      close();
      break;
  }
};

function begin() {
  close();
  [blocks, nSamples, isWhole, waiting] = [[], 0, false, []];
  seek(0);
}

function open(url, protocols) {
  begin();
  const opened = new WebSocket(url, protocols);
  socket = opened;
  let wasOpen = false;
  opened.binaryType = "arraybuffer";
  opened.onopen = () => {
    wasOpen = true;
    waiting.splice(0).forEach((text) => opened.send(text));
  };
  opened.onmessage = ({ data }) => {
    if (opened === socket) {
      typeof data === "string" ? hear(JSON.parse(data)) : store(new Float32Array(data, HEAD_BYTES));
    }
  };
  opened.onclose = ({ code }) => {
    if (opened === socket) {
      socket = null;
      postMessage({ type: "closed", wasOpen, code, isWhole });
    }
  };
}

function hear(message) {
  isWhole ||= message.type === "ledger";
  postMessage(message);
}

/** @param {Float32Array} samples */
function store(samples) {
  blocks.push(samples);
  nSamples += samples.length;
  pump();
  postMessage({ type: "decoded", nSamples });
}

function pump() {
  while (block < blocks.length && ring.room() > 0) {
    const rest = blocks[block].subarray(offset);
    const n = ring.write(rest, 1);
    [block, offset] = n === rest.length ? [block + 1, 0] : [block, offset + n];
  }
  if (isWhole && block === blocks.length) {
    ring.set(FIELD.ENDED, 1);
  }
}

/** Sends the sound so far as samples of 16 bits. */
function save() {
  const whole = (sample) => Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
  const parts = blocks.map((samples) => Int16Array.from(samples, whole));
  postMessage({ type: "sound", samples: new Blob(parts) });
}

function seek(sample) {
  [block, offset] = [0, sample];
  while (block < blocks.length && offset >= blocks[block].length) {
    offset -= blocks[block].length;
    block += 1;
  }
  ring.splice();
  pump();
}

function send(text) {
  if (socket?.readyState === WebSocket.OPEN) {
    socket.send(text);
  } else {
    waiting.push(text);
  }
}

function close() {
  const open = socket;
  socket = null;
  open?.close();
}
