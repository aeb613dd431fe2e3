// What tests ask about samples.

/** The first frame of two interleaved stereo signals that differs, or -1. */
export function difference(samples, expected) {
  const n = Math.min(samples.length, expected.length);
  for (let i = 0; i < n; i++) {
    if (samples[i] !== expected[i]) {
      return i >> 1;
    }
  }
  return -1;
}

/** The strongest pitch between 60 and 1500 Hz, by autocorrelation. */
export function pitchHz(samples, rate) {
  const sums = [];
  for (let lag = Math.floor(rate / 1500); lag < rate / 60; lag++) {
    let sum = 0;
    for (let i = 0; i + lag < samples.length; i++) {
      sum += samples[i] * samples[i + lag];
    }
    sums.push([lag, sum / (samples.length - lag)]);
  }
  const best = Math.max(...sums.map(([, sum]) => sum));
  // The first peak that is nearly the best: multiples of a period fit as well.
  const at = sums.findIndex(([, sum], i) => sum > 0.9 * best && sum >= (sums[i + 1]?.[1] ?? 0));
  const [before, here, after] = [sums[at - 1]?.[1] ?? 0, sums[at][1], sums[at + 1]?.[1] ?? 0];
  const between = (0.5 * (before - after)) / (before - 2 * here + after || 1);
  return rate / (sums[at][0] + between);
}

/** The longest run of zeros between the first and the last sound. */
export function longestGapMs(samples, rate) {
  const first = samples.findIndex((sample) => sample !== 0);
  const last = samples.findLastIndex((sample) => sample !== 0);
  let [longest, run] = [0, 0];
  for (let i = first; i < last; i++) {
    run = samples[i] === 0 ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  return (longest / rate) * 1e3;
}

/** The last sample before and the first after each silence of 128 samples or more, between sounds. */
export function gapEdges(samples) {
  const edges = [];
  let last = samples.findIndex((sample) => sample !== 0);
  for (let i = last + 1; i < samples.length && last >= 0; i++) {
    if (samples[i] !== 0) {
      if (i - last > 128) {
        edges.push(samples[last], samples[i]);
      }
      last = i;
    }
  }
  return { edges, nGaps: edges.length / 2 };
}
