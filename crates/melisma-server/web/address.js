// Settings in the address of the page, so that a reload or a link keeps them.

/** Everything that an address may hold; nothing else is kept. */
const NAMES = [
  "preset", "seed", "key", "mode", "tempo", "intensity", "voices", "gain", "brightness", "motion", "reverb", "delay",
  "instrument", "voice", "speed", "span",
];

/** The settings of the address, as text from anybody: whoever takes one checks it. */
export function settings() {
  const known = [...new URLSearchParams(location.search)].filter(([name]) => NAMES.includes(name));
  return new Map(known);
}

/** Writes settings into the address; `null` removes one. @param {Record<string, string | null>} changes */
export function keep(changes) {
  const all = Object.entries({ ...Object.fromEntries(settings()), ...changes });
  const query = new URLSearchParams(all.filter(([, value]) => value !== null));
  history.replaceState(null, "", `${location.pathname}${query.size > 0 ? `?${query}` : ""}${location.hash}`);
}

/**
 * A number between the bounds of a slider, or `null`.
 * @param {string | undefined} text
 * @param {number} least
 * @param {number} most
 */
export function number(text, least, most) {
  const value = /^-?\d+(\.\d+)?$/.test(text ?? "") ? Number(text) : NaN;
  return value >= least && value <= most ? value : null;
}

/** Letters that can be seen: what else a text has could steer the terminal into which a command is pasted. */
export function visible(text) {
  return text.replace(/\p{C}/gu, "");
}
