import { describe, expect, test } from "vitest";
import type { HeatData } from "../src/tabs/heat/cells";
import { growHeat } from "../src/tabs/heat/grow";

const heat = (rows: number[][], starts: number[], steps: number[] = starts): HeatData => ({
  names: rows.map((_, row) => `row-${row}`), figure: "l2", log: true, dark: -3, bright: 1, diverging: false,
  cells: Uint8Array.from(rows.flat()), starts: Float64Array.from(starts), steps: Float64Array.from(steps),
});
const rowsOf = (data: HeatData): number[][] => data.names.map((_, row) => [...data.cells.subarray(row * data.starts.length, (row + 1) * data.starts.length)]);

describe("a heat map that grows", () => {
  const shown = heat([[1, 2], [3, 4]], [0, 10]);

  test("gets the new columns behind the others", () => {
    const grown = growHeat(shown, heat([[5, 6], [7, 8]], [20, 30]), 100)!;
    expect(rowsOf(grown)).toEqual([[1, 2, 5, 6], [3, 4, 7, 8]]);
    expect([...grown.starts]).toEqual([0, 10, 20, 30]);
    expect([...grown.steps]).toEqual([0, 10, 20, 30]);
  });

  test("keeps its width of columns: several steps are joined, and gaps show what was before", () => {
    const grown = growHeat(shown, heat([[9, 5, 252], [7, 8, 1]], [21, 25, 44]), 100)!;
    expect(rowsOf(grown)).toEqual([[1, 2, 9, 9, 252], [3, 4, 8, 8, 1]]);
    expect([...grown.steps]).toEqual([0, 10, 21, 21, 44]);
  });

  test("joins what belongs to its last column, and leaves out what it shows", () => {
    expect(rowsOf(growHeat(shown, heat([[200, 5], [9, 1]], [10, 15]), 100)!)).toEqual([[1, 5], [3, 4]]);
  });

  test("is loaded anew with other rows, with too many columns, and without a width", () => {
    expect(growHeat(shown, heat([[5]], [20]), 100)).toBeNull();
    expect(growHeat(shown, heat([[5], [6]], [20]), 2)).toBeNull();
    expect(growHeat(heat([[1], [2]], [0]), heat([[5], [6]], [20]), 100)).toBeNull();
  });
});
