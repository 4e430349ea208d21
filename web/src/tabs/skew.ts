// What ranks measured, and how unequal they are at each step. Pure.
import type { Numbers } from "../frames";

export interface Measurements { steps: Numbers; cells: Numbers }

// Only the steps at which some rank measured; most figures of ranks are sampled.
export function measured({ steps, cells }: Measurements, ranks: number): Measurements {
  const rows = Array.from({ length: ranks }, (_, rank) => rank * steps.length);
  const kept = [...steps.keys()].filter((at) => rows.some((row) => !Number.isNaN(cells[row + at]!)));
  if (kept.length === steps.length) return { steps, cells };
  return { steps: Float64Array.from(kept, (at) => steps[at]!), cells: Float64Array.from(rows.flatMap((row) => kept.map((at) => cells[row + at]!))) };
}

export interface Skew { steps: number[]; gap: number[]; slowest: number[] }   // gap: slowest minus median; slowest: its rank

export function skewOf(cells: Numbers, steps: Numbers, ranks: number): Skew {
  const skew: Skew = { steps: [], gap: [], slowest: [] };
  for (let at = 0; at < steps.length; at++) {
    const values: [number, number][] = [];
    for (let rank = 0; rank < ranks; rank++) {
      const value = cells[rank * steps.length + at]!;
      if (Number.isFinite(value)) values.push([value, rank]);
    }
    if (values.length < 2) continue;
    values.sort(([a], [b]) => a - b);
    const middle = (values.length - 1) / 2;
    const median = (values[Math.floor(middle)]![0] + values[Math.ceil(middle)]![0]) / 2;
    const [most, slowest] = values[values.length - 1]!;
    skew.steps.push(steps[at]!);
    skew.gap.push(most - median);
    skew.slowest.push(slowest);
  }
  return skew;
}

// The rank that is slowest most often, if it is so in more than half of the steps. `since`: null for all steps.
export function straggler(skew: Skew & { since?: number }): { rank: number; share: number; since: number | null } | null {
  const counts = new Map<number, number>();
  for (const rank of skew.slowest) counts.set(rank, (counts.get(rank) ?? 0) + 1);
  const [most] = [...counts].sort(([, a], [, b]) => b - a);
  return most && most[1] > skew.slowest.length / 2 ? { rank: most[0], share: most[1] / skew.slowest.length, since: skew.since ?? null } : null;
}

export function lastQuarter(skew: Skew): Skew & { since?: number } {
  const from = Math.floor(0.75 * skew.steps.length);
  return { steps: skew.steps.slice(from), gap: skew.gap.slice(from), slowest: skew.slowest.slice(from), since: skew.steps[from] };
}
