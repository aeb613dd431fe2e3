// The colours of spectrograms: magma, dark to bright, in 256 steps.

const STOPS = ["000004", "1c1044", "4f127b", "812581", "b5367a", "e55064", "fb8761", "fec287", "fcfdbf"];
const rgb = STOPS.map((stop) => [0, 2, 4].map((at) => parseInt(stop.slice(at, at + 2), 16)));

/** Red, green and blue of each step. */
export const MAGMA = Array.from({ length: 256 }, (_, i) => {
  const at = (i / 255) * (rgb.length - 1);
  const stop = Math.min(rgb.length - 2, Math.floor(at));
  return rgb[stop].map((from, channel) => Math.round(from + (rgb[stop + 1][channel] - from) * (at - stop)));
});
