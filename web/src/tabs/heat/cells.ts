// Cells of a heat map: rows by columns, one byte each. Pure.
import type { Draft } from "../../api";
import { formatNumber } from "../../format";
import type { Numbers } from "../../frames";
import { lowerBound } from "../../scales";
import { MOST, NOT_FINITE, NOT_SAVED, ZERO } from "./palettes";

export interface HeatData {
  names: string[];                   // of the rows, in the model's order
  figure: string;
  log: boolean;                      // dark and bright are powers of ten
  dark: number; bright: number;      // values at the ends of the scale
  diverging: boolean;
  left_out?: number;                 // tensors that match and are not among the rows
  draft?: Draft;                     // of some files only
  cells: Uint8Array;
  starts: Numbers;                   // first step of each column
  steps: Numbers;                    // saved step that a column shows
}

// "1.2e-4", "at most 1e-6" for the ends of the scale, or in words what is no number.
export function cellText(data: HeatData, cell: number, absent = "not saved"): string {
  if (cell === ZERO) return "zero";
  if (cell === NOT_FINITE) return "not finite";
  if (cell > MOST) return absent;
  const bound = cell === 0 ? "at most " : cell === MOST ? "at least " : "";
  return bound + formatNumber(cellValue(data, cell), 3);
}

export function cellValue(data: HeatData, cell: number): number {
  const level = data.dark + (cell / MOST) * (data.bright - data.dark);
  return data.log ? 10 ** level : level;
}

// Fewer rows than there are: each joins several, and what matters most in a column wins.
// Not finite wins over all; then the greatest, or with a diverging scale what is farthest from its middle.
export function joinRows(cells: Uint8Array, rows: number, columns: number, height: number, diverging: boolean): Uint8Array {
  if (rows <= height) return cells;
  const weight = weights(diverging);
  const joined = new Uint8Array(height * columns).fill(NOT_SAVED);
  for (let row = 0; row < rows; row++) {
    const target = Math.floor((row * height) / rows) * columns;
    const source = row * columns;
    for (let column = 0; column < columns; column++) {
      const cell = cells[source + column]!;
      if (weight[cell]! > weight[joined[target + column]!]!) joined[target + column] = cell;
    }
  }
  return joined;
}

export function weights(diverging: boolean): Uint16Array {
  const weight = new Uint16Array(256);
  for (let cell = 0; cell <= MOST; cell++) weight[cell] = 2 + (diverging ? Math.abs(2 * cell - MOST) : cell);
  weight[ZERO] = 1;
  weight[NOT_FINITE] = 1000;
  return weight;
}

export function colourCells(cells: Uint8Array, colours: Uint32Array, pixels: Uint32Array): void {
  for (let at = 0; at < cells.length; at++) pixels[at] = colours[cells[at]!]!;
}

// The steps that the columns cover: from the first step of the first to the end of the last.
export function span(starts: Numbers): [number, number] {
  const count = starts.length;
  if (!count) return [0, 1];
  const wide = count > 1 ? (starts[count - 1]! - starts[0]!) / (count - 1) : 1;
  return [starts[0]!, starts[count - 1]! + wide];
}

export function columnAt(starts: Numbers, step: number): number {
  const [from, to] = span(starts);
  return clamp(Math.floor(((step - from) / (to - from)) * starts.length + 1e-6), 0, starts.length - 1);
}

export interface RowSummary { name: string; last: string; notFinite: number | null; zeros: boolean; saved: boolean }

// What a row shows, in words: for people who cannot see the picture.
export function summarise(data: HeatData, row: number): RowSummary {
  const columns = data.steps.length;
  const cells = data.cells.subarray(row * columns, (row + 1) * columns);
  let last = cells.length - 1;
  while (last >= 0 && cells[last]! === NOT_SAVED) last--;
  const broken = cells.indexOf(NOT_FINITE);
  return {
    name: data.names[row]!, saved: last >= 0, zeros: cells.includes(ZERO),
    last: last >= 0 ? cellText(data, cells[last]!) : "not saved",
    notFinite: broken < 0 ? null : data.steps[broken]!,
  };
}

// Labels without what all of them begin and end with, up to a slash, a dot or an underscore.
export function shortNames(names: readonly string[]): string[] {
  const first = names[0] ?? "";
  const isHead = (cut: number): boolean => names.every((name) => name.length > cut && name.startsWith(first.slice(0, cut)));
  const sign = (before: number): number => Math.max(...["/", ".", "_"].map((each) => first.lastIndexOf(each, before)));
  let cut = sign(Infinity) + 1;
  while (cut > 0 && !isHead(cut)) cut = sign(cut - 2) + 1;
  const end = first.slice(Math.max(first.lastIndexOf("/"), first.lastIndexOf("."), cut));
  const rest = names.length > 1 && /^[./]/.test(end) && names.every((name) => name.length > cut + end.length && name.endsWith(end)) ? end.length : 0;
  return names.map((name) => name.slice(names.length > 1 ? cut : first.indexOf("/") + 1, name.length - rest));
}

// Begin and end of a name that is too long; the end tells layers apart.
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.floor((most - 1) / 3);
  return `${text.slice(0, head)}…${text.slice(text.length - Math.max(most - 1 - head, 1))}`;
}

// Values of each rank per step (NaN: not measured) as cells of at most `columns` columns over a range of steps.
// A column keeps its greatest value; one without a step shows the last before it.
export function toCells(values: Numbers, steps: Numbers, rows: number, columns: number, [first, last]: [number, number]): Omit<HeatData, "names" | "figure"> {
  const gap = closest(steps);
  const count = clamp(Math.floor((last - first) / gap) + 1, 1, columns);
  const wide = (last - first + gap) / count;
  const starts = Float64Array.from({ length: count }, (_, at) => first + at * wide);
  const shown = new Float64Array(count).fill(NaN);
  const greatest = new Float64Array(rows * count).fill(NaN);
  const put = (at: number, column: number): void => {
    if (Number.isNaN(shown[column]!)) shown[column] = steps[at]!;
    for (let row = 0; row < rows; row++) {
      const value = values[row * steps.length + at]!;
      const place = row * count + column;
      if (!(value <= greatest[place]!) && !Number.isNaN(value)) greatest[place] = value;
    }
  };
  const begin = lowerBound(steps, first);
  for (let at = begin; at < steps.length && steps[at]! <= last; at++) put(at, Math.min(Math.floor((steps[at]! - first) / wide + 1e-9), count - 1));
  if (begin > 0 && Number.isNaN(shown[0]!)) put(begin - 1, 0);
  for (let column = 1; column < count; column++) {
    if (!Number.isNaN(shown[column]!)) continue;
    shown[column] = shown[column - 1]!;
    for (let row = 0; row < rows; row++) greatest[row * count + column] = greatest[row * count + column - 1]!;
  }
  return { log: false, diverging: false, starts, steps: shown.map((step, at) => (Number.isNaN(step) ? starts[at]! : step)), ...scaled(greatest) };
}

function closest(steps: Numbers): number {
  let gap = Infinity;
  for (let at = 1; at < steps.length; at++) gap = Math.min(gap, steps[at]! - steps[at - 1]!);
  return Number.isFinite(gap) && gap > 0 ? gap : 1;
}

// The ends of the scale leave out one per cent on each side, so that a few extreme cells do not make all others alike.
function scaled(values: Float64Array): Pick<HeatData, "dark" | "bright" | "cells"> {
  const finite = values.filter(Number.isFinite).sort();
  const dark = finite.length ? finite[Math.floor(0.01 * (finite.length - 1))]! : 0;
  const top = finite.length ? finite[Math.ceil(0.99 * (finite.length - 1))]! : 1;
  const bright = top > dark ? top : dark + (Math.abs(dark) || 1);
  const cells = Uint8Array.from(values, (value) => {
    if (Number.isNaN(value)) return NOT_SAVED;
    if (!Number.isFinite(value)) return NOT_FINITE;
    return clamp(Math.round(((value - dark) / (bright - dark)) * MOST), 0, MOST);
  });
  return { dark, bright, cells };
}

// Round numbers inside a range, for an axis.
export function ticks(from: number, to: number, most: number): number[] {
  const rough = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const gap = Math.max(power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10), 1);
  const found: number[] = [];
  for (let at = Math.ceil(from / gap) * gap; at <= to; at += gap) found.push(at);
  return found;
}

export const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);
