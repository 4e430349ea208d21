// What a comparison shows: groups of jobs, values as numbers, axes. Pure.
import type { Compare, Num } from "./api";
import { toNumber } from "./format";

export type Stat = "last" | "best" | "min" | "max" | "at";
export const STATS: readonly (readonly [Stat, string])[] = [["last", "last"], ["best", "best"], ["min", "least"], ["max", "greatest"], ["at", "at step"]];

// One thing that jobs differ in: a hyperparameter or other fact, or a metric.
export interface Quality {
  key: string;                 // "hyperparameter.lr", "metric.val/loss"
  kind: string;
  name: string;
  values: (string | null)[];   // as shown
  numbers: number[];           // NaN where it is no number
  isNumeric: boolean;
  moreIsBetter?: boolean;
}

export function qualitiesOf(compare: Compare, stat: Stat): Quality[] {
  const facts = compare.rows.map((row): Quality => {
    const numbers = row.values.map(numberOf);
    const known = row.values.filter((value) => value !== null && value !== "");
    return { key: `${row.kind}.${row.name}`, kind: row.kind, name: row.name, values: row.values, numbers, isNumeric: known.length > 0 && known.every((value) => !Number.isNaN(numberOf(value))) };
  });
  const metrics = compare.metrics.map((metric): Quality => {
    const values = metric[stat];
    return { key: `metric.${metric.name}`, kind: "metric", name: metric.name, values: values.map((value) => (value === null ? null : String(value))), numbers: values.map((value) => (value === null ? NaN : toNumber(value as Num))), isNumeric: true, moreIsBetter: metric.more_is_better };
  });
  return [...metrics, ...facts];
}

export function numberOf(value: string | null): number {
  if (value === null || value.trim() === "") return NaN;
  const text = value.trim().toLowerCase();
  if (text === "true") return 1;
  if (text === "false") return 0;
  return Number(text);
}

export interface JobGroup { label: string; members: number[] }   // positions of the jobs

export const BUT_SEEDS = "*";

// By one quality; or by all hyperparameters but those that only tell repeats apart (seeds).
export function groupJobs(qualities: readonly Quality[], count: number, by: string): JobGroup[] {
  const wanted = by === BUT_SEEDS
    ? qualities.filter((quality) => (quality.kind === "hyperparameter" || quality.kind === "argument") && !isSeed(quality.name))
    : qualities.filter((quality) => quality.key === by);
  const groups = new Map<string, number[]>();
  for (let job = 0; job < count; job++) {
    const label = wanted.map((quality) => `${quality.name}=${quality.values[job] ?? "none"}`).join(", ") || "all";
    groups.set(label, [...(groups.get(label) ?? []), job]);
  }
  return [...groups].map(([label, members]) => ({ label, members }));
}

export const isSeed = (name: string): boolean => /(^|[_.\-])(random_?)?seed$/i.test(name);

// Position of a value on an axis from 0 to 1; null where there is none.
export interface Axis { quality: Quality; log: boolean; low: number; high: number; labels: string[] }   // labels: of words

export function axisOf(quality: Quality): Axis {
  if (!quality.isNumeric) {
    const labels = [...new Set(quality.values.map((value) => value ?? "none"))].sort((a, b) => (a < b ? -1 : 1));
    return { quality, log: false, low: 0, high: Math.max(labels.length - 1, 1), labels };
  }
  const finite = quality.numbers.filter(Number.isFinite);
  const low = finite.length ? Math.min(...finite) : 0;
  const high = finite.length ? Math.max(...finite) : 1;
  if (low === high) return { quality, log: false, low: low - (Math.abs(low) || 1) / 2, high: high + (Math.abs(high) || 1) / 2, labels: [] };
  if (low > 0 && high / low >= 50) {
    const margin = (high / low) ** 0.03;
    return { quality, log: true, low: low / margin, high: high * margin, labels: [] };
  }
  const margin = (high - low) * 0.03;
  return { quality, log: false, low: low - margin, high: high + margin, labels: [] };
}

export function position(axis: Axis, job: number): number | null {
  if (axis.labels.length) return axis.labels.indexOf(axis.quality.values[job] ?? "none") / axis.high;
  const value = axis.quality.numbers[job]!;
  if (!Number.isFinite(value)) return null;
  return axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low) : (value - axis.low) / (axis.high - axis.low);
}

export function valueAt(axis: Axis, place: number): number {
  return axis.log ? axis.low * (axis.high / axis.low) ** place : axis.low + place * (axis.high - axis.low);
}

// Positions of jobs sorted by a quality; what has no value is last.
export function sortedBy(quality: Quality | undefined, count: number, desc: boolean): number[] {
  const order = Array.from({ length: count }, (_, at) => at);
  if (!quality) return order;
  const sign = desc ? -1 : 1;
  return order.sort((a, b) => {
    const [left, right] = [quality.values[a] ?? null, quality.values[b] ?? null];
    if (left === null || right === null) return Number(left === null) - Number(right === null) || a - b;
    if (quality.isNumeric) {
      const [x, y] = [quality.numbers[a]!, quality.numbers[b]!];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
      return sign * (x - y) || a - b;
    }
    return sign * (left < right ? -1 : left > right ? 1 : 0) || a - b;
  });
}

// Which job is best in a metric; -1 where that says nothing.
export function bestOf(quality: Quality): number {
  if (quality.moreIsBetter === undefined) return -1;
  let best = -1;
  quality.numbers.forEach((value, job) => {
    if (!Number.isFinite(value)) return;
    if (best < 0 || (quality.moreIsBetter ? value > quality.numbers[best]! : value < quality.numbers[best]!)) best = job;
  });
  return best;
}

// Ranges that were chosen on axes: "hyperparameter.lr|0.2|0.8", from 0 to 1.
export function parseBrushes(entries: readonly string[]): Map<string, [number, number]> {
  const brushes = new Map<string, [number, number]>();
  for (const entry of entries) {
    const [key, low, high] = entry.split("|");
    if (key && low && high && Number(low) < Number(high)) brushes.set(key, [Number(low), Number(high)]);
  }
  return brushes;
}

export const formatBrushes = (brushes: ReadonlyMap<string, [number, number]>): string[] => [...brushes].map(([key, [low, high]]) => `${key}|${low.toFixed(3)}|${high.toFixed(3)}`);

export function isBrushed(axes: readonly Axis[], brushes: ReadonlyMap<string, [number, number]>, job: number): boolean {
  return axes.every((axis) => {
    const brush = brushes.get(axis.quality.key);
    if (!brush) return true;
    const place = position(axis, job);
    return place !== null && place >= brush[0] && place <= brush[1];
  });
}
