// Commands: the command line's of the piece that plays, and curl's for speech.
import { visible } from "./address.js";
import { needsKey } from "./connection.js";

const RATE = 48_000;

/** A word of a POSIX shell. @param {string} text */
export function quoted(text) {
  return /^[\w.:/=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * @param {URLSearchParams} query of the stream, whose names other than the preset are flags of `melisma synth`
 * @param {{ rate: number, seconds: number }} take
 */
export function command(query, { rate, seconds }) {
  const preset = query.get("preset");
  const given = [...query].filter(([name]) => name !== "preset").map(([name, value]) => quoted(`--${name}=${value}`));
  const length = `--seconds ${seconds} --endless${rate === RATE ? "" : ` --rate ${rate}`}`;
  return `melisma synth preset:${preset} -o ${preset}.wav ${given.join(" ")} ${length}`;
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
