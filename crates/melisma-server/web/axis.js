// Scales that people can read: round steps, and the places of their marks.
import { make } from "./element.js";

/** The smallest of 1, 2, 5, 10, 20 and so on that is not below `value`. @param {number} value */
export function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((step) => step * power >= value * (1 - 1e-9)) ?? 10);
}

/** Marks from 0 to `most`, at most `n` steps. @param {number} most @param {number} n */
export function marks(most, n) {
  const step = round(most / n);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

/**
 * Writes the labels of an axis, each at its share of the length.
 * @param {HTMLElement} place
 * @param {"left" | "bottom"} side from which shares count
 * @param {{ at: number, text: string }[]} labels
 */
export function label(place, side, labels) {
  const one = ({ at, text }) => {
    const mark = make("span", {}, text);
    mark.style[side] = `${at * 100}%`;
    return mark;
  };
  place.replaceChildren(...labels.map(one));
}

/** The share of the height of a mel spectrogram of `n` filters at which a frequency lies. */
export function melShare(hz, rate, n) {
  const mel = (frequency) => Math.log10(1 + frequency / 700);
  // Filter i is centred on part i + 1 of n + 1, and drawn as part i of n.
  return ((mel(hz) / mel(rate / 2)) * (n + 1) - 0.5) / n;
}
