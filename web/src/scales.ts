// Ranges of axes. Pure.

export interface Range { low: number; high: number; clipped: boolean }

// Values of a line from one index to another.
export interface Part { values: ArrayLike<number>; from: number; to: number }

const MOST_SORTED = 20_000;

// The range of y: all values, or, where a few lie far outside, the range of the others.
// "Far" is more than twice the spread of the middle 96 % beyond it, so that a heavy tail is not cut.
export function yRange(parts: readonly Part[], options: { log: boolean; safe: boolean }): Range {
  const { low: lowest, high: highest, count } = limits(parts, options.log);
  if (!count) return options.log ? { low: 0.1, high: 10, clipped: false } : { low: 0, high: 1, clipped: false };
  let low = lowest;
  let high = highest;
  if (options.safe && count >= 20) {
    const values = sample(parts, options.log, count).sort();
    const bottom = values[Math.floor(0.02 * (values.length - 1))]!;
    const top = values[Math.ceil(0.98 * (values.length - 1))]!;
    const spread = top - bottom;
    if (spread > 0) {
      if (highest > top + 2 * spread) high = top + 0.25 * spread;
      if (lowest < bottom - 2 * spread) low = bottom - 0.25 * spread;
    }
  }
  const clipped = low !== lowest || high !== highest;
  return options.log ? padLog(low, high, clipped) : pad(low, high, clipped);
}

export function extent(lines: readonly ArrayLike<number>[]): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const line of lines) {
    for (let at = 0; at < line.length; at++) {
      const value = line[at]!;
      if (value < low && value > -Infinity) low = value;
      if (value > high && value < Infinity) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

// First index whose value is at least x, in ascending values.
export function lowerBound(values: ArrayLike<number>, x: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

// First index whose value is greater than x.
export function upperBound(values: ArrayLike<number>, x: number): number {
  let at = lowerBound(values, x);
  while (at < values.length && values[at]! <= x) at += 1;
  return at;
}

export function nearest(values: ArrayLike<number>, x: number): number {
  const at = lowerBound(values, x);
  if (at === 0) return values.length ? 0 : -1;
  if (at === values.length) return at - 1;
  return x - values[at - 1]! <= values[at]! - x ? at - 1 : at;
}

// Of finite values; of positive ones, as logarithms, on a log scale.
function limits(parts: readonly Part[], log: boolean): { low: number; high: number; count: number } {
  let low = Infinity;
  let high = -Infinity;
  let count = 0;
  for (const { values, from, to } of parts) {
    for (let at = from; at < to; at++) {
      const value = values[at]!;
      if (!Number.isFinite(value) || (log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
      count += 1;
    }
  }
  return log && count ? { low: Math.log10(low), high: Math.log10(high), count } : { low, high, count };
}

// Every value, or of many every so-manieth: shares of them need no more. The same values give the same sample.
function sample(parts: readonly Part[], log: boolean, count: number): Float64Array {
  const every = Math.ceil(count / MOST_SORTED);
  const kept = new Float64Array(Math.ceil(count / every));
  let seen = 0;
  for (const { values, from, to } of parts) {
    for (let at = from; at < to; at++) {
      const value = values[at]!;
      if (!Number.isFinite(value) || (log && value <= 0)) continue;
      if (seen % every === 0) kept[seen / every] = log ? Math.log10(value) : value;
      seen += 1;
    }
  }
  return kept;
}

function pad(low: number, high: number, clipped: boolean): Range {
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {   // no more than rounding
    const margin = low === 0 ? 1 : Math.abs(low) * 0.1;
    return { low: low - margin, high: high + margin, clipped };
  }
  const margin = (high - low) * 0.06;
  const floor = low >= 0 && low - margin < 0 ? 0 : low - margin;   // a loss has no values under zero
  return { low: floor, high: high + margin, clipped };
}

function padLog(low: number, high: number, clipped: boolean): Range {
  const margin = low === high ? 0.5 : (high - low) * 0.06;
  return { low: 10 ** (low - margin), high: 10 ** (high + margin), clipped };
}
