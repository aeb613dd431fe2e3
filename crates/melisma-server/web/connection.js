// Addresses, the key, and the reasons why the server refuses.

/** The key stays in memory: closing the page forgets it. */
let key = "";
/** Whether the server has asked for one. */
let isLocked = false;

/** @param {string} text */
export function useKey(text) {
  key = text;
}

/** Whether requests to this server need a key. */
export function needsKey() {
  return isLocked;
}

/** The sentence that asks for a key. */
export function keyQuestion() {
  const wrong = key ? "The server does not accept that key. " : "";
  return `${wrong}This server needs a key. The page forgets it when you close it.`;
}

/** @param {string} path with its query */
export function socketUrl(path) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  return url.href;
}

/** Browsers cannot set headers of a WebSocket: the key travels as a subprotocol. */
export function protocols() {
  if (!key) {
    return ["melisma.v1"];
  }
  const bytes = String.fromCharCode(...new TextEncoder().encode(key));
  const text = btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return ["melisma.v1", `melisma.key.${text}`];
}

/** @param {string} path @param {RequestInit} options */
export function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (key) {
    headers.set("authorization", `Bearer ${key}`);
  }
  return fetch(path, { cache: "no-store", ...options, headers });
}

/**
 * @typedef {object} Refusal
 * @property {"key" | "full" | "gone" | "invalid" | "unreadable" | "none"} kind `none`: the server would accept
 * @property {string} message
 * @property {number} retrySeconds
 * @property {boolean} mayHelp whether the same request may succeed later
 */

/** Faults of the set-up before or behind the server, which time does not mend. */
const LASTING = [
  "no_voice", "voice_failed", "transfer_encoding", "upstream_tls", "upstream_redirect", "upstream_garbage",
  "upstream_no_audio",
];

/** Whether a request that failed so may succeed later. @param {{ code?: string, type?: string }} error */
export function mayHelp({ code, type }) {
  return code === "key_streams" || (type === "server_error" && !LASTING.includes(code ?? ""));
}

/**
 * Why a WebSocket was refused, which browsers do not tell: the same request without an upgrade.
 * @param {string} path
 * @returns {Promise<Refusal>}
 */
export async function probe(path) {
  let reply;
  try {
    reply = await request(path);
  } catch {
    return { kind: "gone", message: "The server does not answer.", retrySeconds: 0, mayHelp: true };
  }
  return refusal(reply);
}

/**
 * @param {Response} reply
 * @returns {Promise<Refusal>}
 */
export async function refusal(reply) {
  const body = await reply.json().catch(() => null);
  const message = body?.error?.message ?? `The server answers with ${reply.status}.`;
  const retrySeconds = Number(reply.headers.get("retry-after")) || 0;
  const canHelp = body?.error ? mayHelp(body.error) : reply.status >= 500;
  isLocked ||= reply.status === 401;
  const full = canHelp ? "full" : "invalid";
  const kinds = { 200: "none", 426: "none", 401: "key", 429: full, 501: "invalid", 502: "invalid", 503: full, 504: "invalid" };
  const kind = kinds[reply.status] ?? (reply.status >= 500 ? "gone" : "invalid");
  return { kind, message, retrySeconds, mayHelp: canHelp };
}

/** Waits that double from a quarter of a second to eight seconds, with some chance in them. */
export class Backoff {
  constructor() {
    this.n = 0;
  }

  reset() {
    this.n = 0;
  }

  nextMs() {
    const wait = Math.min(8000, 250 * 2 ** this.n);
    this.n += 1;
    return wait * (0.8 + 0.4 * Math.random());
  }
}
