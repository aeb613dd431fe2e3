// Commands: of the piece that plays, the command line's where it has every setting, else curl's; and curl's for speech.
import { visible } from "./address.js";
import { needsKey } from "./connection.js";

const RATE = 48_000;

/** A word of a POSIX shell. @param {string} text */
export function quoted(text) {
  return /^[\w.:/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * @param {URLSearchParams} query of the stream
 * @param {{ rate: number, seconds: number }} take
 */
export function command(query, { rate, seconds }) {
  const [preset, seed] = [query.get("preset"), query.get("seed")];
  if (query.size === 2) {
    const length = `--seconds ${seconds} --endless${rate === RATE ? "" : ` --rate ${rate}`}`;
    return `melisma synth preset:${preset} -o ${preset}.wav ${quoted(`--seed=${seed}`)} ${length}`;
  }
  const asked = new URLSearchParams([...query, ["seconds", String(seconds)]]);
  if (rate !== RATE) {
    asked.set("rate", String(rate));
  }
  return `curl -sS --fail -o ${preset}.wav${header()} ${quoted(`${location.origin}/v1/synth.wav?${asked}`)}`;
}

/** @param {{ model: string, input: string, voice: string, speed: number }} said */
export function speechCommand(said) {
  const body = quoted(visible(JSON.stringify(said)));
  const type = "-H 'content-type: application/json'";
  return `curl -sS --fail -o speech.mp3${header()} ${type} -d ${body} ${quoted(`${location.origin}/v1/audio/speech`)}`;
}

/** The key stays in the environment. */
function header() {
  return needsKey() ? ' -H "Authorization: Bearer $MELISMA_API_KEY"' : "";
}
