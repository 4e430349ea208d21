import { describe, expect, test } from "vitest";
import { cellText, columnAt, type HeatData, joinRows, shorten, shortNames, span, summarise, ticks, toCells } from "../src/tabs/heat/cells";
import { chosenSteps, ridges, valueRange } from "../src/tabs/heat/histograms";
import { css, gradient, MOST, NOT_FINITE, NOT_SAVED, palette, ZERO } from "../src/tabs/heat/palettes";
import { isBroken, isText, tableOf } from "../src/tabs/heat/values";

const heat = (cells: number[], columns: number, more: Partial<HeatData> = {}): HeatData => ({
  names: Array.from({ length: cells.length / columns }, (_, at) => `layer.${at}`), figure: "abs_mean", log: true, dark: -6, bright: 0, diverging: false,
  cells: Uint8Array.from(cells), starts: Float64Array.from({ length: columns }, (_, at) => at * 10), steps: Float64Array.from({ length: columns }, (_, at) => at * 10), ...more,
});

// Lightness as eyes see it, for a person who does not see red and green apart too.
function lightness(packed: number): number {
  const linear = [packed & 255, (packed >> 8) & 255, (packed >> 16) & 255].map((part) => (part / 255) ** 2.2);
  return 0.2126 * linear[0]! + 0.7152 * linear[1]! + 0.0722 * linear[2]!;
}

describe("palettes", () => {
  const looks = [true, false].flatMap((dark) => [true, false].map((diverging) => ({ dark, diverging })));

  test.each(looks)("zero and not finite differ from every value and from each other: %o", (look) => {
    const colours = palette(look);
    const far = (a: number, b: number): number => Math.max(...[0, 8, 16].map((shift) => Math.abs(((a >> shift) & 255) - ((b >> shift) & 255))));
    for (let cell = 0; cell <= MOST; cell++) {
      expect(far(colours[cell]!, colours[NOT_FINITE]!)).toBeGreaterThan(40);
      expect(far(colours[cell]!, colours[ZERO]!)).toBeGreaterThan(12);
    }
    expect(far(colours[ZERO]!, colours[NOT_FINITE]!)).toBeGreaterThan(100);
  });

  test("what is not saved is transparent, so that the hatching below shows", () => {
    expect(palette({ dark: false, diverging: false })[NOT_SAVED]).toBe(0);
  });

  test("a sequential scale gets lighter all the way", () => {
    const colours = palette({ dark: false, diverging: false });
    for (let cell = 10; cell <= MOST; cell += 10) expect(lightness(colours[cell]!)).toBeGreaterThan(lightness(colours[cell - 10]!));
  });

  test.each([true, false])("a diverging scale changes lightness from the middle to both ends; dark: %s", (dark) => {
    const colours = palette({ dark, diverging: true });
    const sign = dark ? 1 : -1;
    for (const end of [0, MOST]) {
      for (let step = 1; step <= 5; step++) {
        const at = (share: number): number => lightness(colours[Math.round(MOST / 2 + (end - MOST / 2) * share)]!);
        expect(sign * (at(step / 5) - at((step - 1) / 5))).toBeGreaterThan(0);
      }
    }
  });

  test("colours for the style sheet", () => {
    expect(css(palette({ dark: false, diverging: false }), 0)).toBe("rgb(68 1 84)");
    expect(gradient({ dark: false, diverging: false })).toMatch(/^linear-gradient\(to right, rgb\(68 1 84\), .*rgb\(253 231 37\)\)$/);
  });
});

describe("cells", () => {
  test("are read as values, as bounds at the ends, or in words", () => {
    const data = heat([0], 1);
    expect(cellText(data, 125)).toBe("0.001");
    expect(cellText(data, 0)).toBe("at most 1e-6");
    expect(cellText(data, MOST)).toBe("at least 1");
    expect(cellText(data, ZERO)).toBe("zero");
    expect(cellText(data, NOT_FINITE)).toBe("not finite");
    expect(cellText(data, NOT_SAVED)).toBe("not saved");
    expect(cellText({ ...data, log: false, dark: 0, bright: 250 }, 100)).toBe("100");
  });

  test("joined rows keep what is not finite, then what is greatest", () => {
    const cells = Uint8Array.from([10, NOT_SAVED, 250, 200, ZERO, NOT_FINITE]);
    expect([...joinRows(cells, 3, 2, 1, false)]).toEqual([250, NOT_FINITE]);
    expect([...joinRows(Uint8Array.from([NOT_SAVED, NOT_SAVED, ZERO, NOT_SAVED]), 2, 2, 1, false)]).toEqual([ZERO, NOT_SAVED]);
  });

  test("joined rows of a diverging scale keep what is farthest from the middle", () => {
    expect([...joinRows(Uint8Array.from([3, 200]), 2, 1, 1, true)]).toEqual([3]);
  });

  test("rows that fit are left alone", () => {
    const cells = Uint8Array.from([1, 2]);
    expect(joinRows(cells, 2, 1, 5, false)).toBe(cells);
  });

  test("every row of 1,000 has its place in 560", () => {
    const cells = new Uint8Array(1000).fill(10);
    for (const row of [0, 1, 499, 998, 999]) {
      const one = Uint8Array.from(cells);
      one[row] = NOT_FINITE;
      expect([...joinRows(one, 1000, 1, 560, false)].filter((cell) => cell === NOT_FINITE)).toHaveLength(1);
    }
  });

  test("steps have their column", () => {
    const starts = Float64Array.from([0, 10, 20]);
    expect(span(starts)).toEqual([0, 30]);
    expect([0, 9.9, 10, 25, 99, -5].map((step) => columnAt(starts, step))).toEqual([0, 0, 1, 2, 2, 0]);
    expect(span(Float64Array.from([7]))).toEqual([7, 8]);
  });

  test("a row in words", () => {
    expect(summarise(heat([125, NOT_FINITE, NOT_SAVED, ZERO, ZERO, 125], 3), 0)).toEqual({ name: "layer.0", last: "not finite", notFinite: 10, zeros: false, saved: true });
    expect(summarise(heat([NOT_SAVED, NOT_SAVED], 2), 0)).toEqual({ name: "layer.0", last: "not saved", notFinite: null, zeros: false, saved: false });
  });

  test("values of ranks become cells, of which each keeps the greatest", () => {
    const made = toCells(Float32Array.from([1, 2, 3, 4, NaN, NaN, 3, Infinity]), Float64Array.from([0, 1, 2, 3]), 2, 2, [0, 3]);
    expect([...made.starts]).toEqual([0, 2]);
    expect([...made.cells]).toEqual([0, MOST, NOT_SAVED, NOT_FINITE]);
    expect(made).toMatchObject({ dark: 2, bright: 4 });
  });

  test("columns are to scale, and a value holds until the next step that was measured", () => {
    const made = toCells(Float32Array.from([1, 2, 1]), Float64Array.from([0, 1, 4]), 1, 100, [0, 5]);
    expect([...made.steps]).toEqual([0, 1, 1, 1, 4, 4]);
    expect([...made.cells]).toEqual([0, MOST, MOST, MOST, 0, 0]);
  });

  test("a range narrows the steps; its beginning shows the value before it", () => {
    const made = toCells(Float32Array.from([1, 2, 3, 4]), Float64Array.from([0, 10, 20, 30]), 1, 100, [15, 25]);
    expect([...made.starts]).toEqual([15, 25]);
    expect([...made.steps]).toEqual([20, 20]);
    expect([...toCells(Float32Array.from([1, 2]), Float64Array.from([0, 10]), 1, 100, [12, 14]).steps]).toEqual([10]);
  });

  test("without steps there are no values", () => {
    expect([...toCells(Float32Array.from([]), Float64Array.from([]), 1, 100, [0, 0]).cells]).toEqual([NOT_SAVED]);
  });

  test("names lose what they share, and their middle if too long", () => {
    expect(shortNames(["gradient/a.b/c", "gradient/a.b/d"])).toEqual(["c", "d"]);
    expect(shortNames(["gradient/x/c", "gradient/y/d", "gradient/y/e"])).toEqual(["x/c", "y/d", "y/e"]);
    expect(shortNames(["gradient/layers.0.up.weight", "gradient/layers.1.up.weight"])).toEqual(["0.up", "1.up"]);
    expect(shortNames(["gradient/Sequential_0.weight", "gradient/Sequential_10.bias"])).toEqual(["0.weight", "10.bias"]);
    expect(shortNames(["fc1.weight", "fc1.bias"])).toEqual(["weight", "bias"]);
    expect(shortNames(["a.weight", ".weight"])).toEqual(["a.weight", ".weight"]);
    expect(shortNames(["vitals/activation/0/std", "vitals/activation/10/std"])).toEqual(["0", "10"]);
    expect(shortNames(["a/b", "c"])).toEqual(["a/b", "c"]);
    expect(shortNames(["gradient/fc1.weight"])).toEqual(["fc1.weight"]);
    expect(shortNames([])).toEqual([]);
    expect(shorten("layers.12.mlp.up.weight", 12)).toBe("lay…p.weight");
    expect(shorten("short", 12)).toBe("short");
  });

  test("ticks are round and inside", () => {
    expect(ticks(0, 100, 5)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(ticks(2301, 2304, 10)).toEqual([2301, 2302, 2303, 2304]);
  });
});

describe("histograms", () => {
  test("at most so many steps, with the first and the last", () => {
    expect(chosenSteps(3, 5)).toEqual([0, 1, 2]);
    expect(chosenSteps(101, 5)).toEqual([0, 25, 50, 75, 100]);
  });

  test("ridges share one scale, and the highest density has height 1", () => {
    const made = ridges({ steps: [1, 2], edges: [[0, 1, 2], [0, 2, 4]], counts: [[4, 0], [4, 4]] }, 10);
    expect(made.map((ridge) => ridge.points)).toEqual([
      [[0, 1], [0.25, 1], [0.25, 0], [0.5, 0]],
      [[0, Math.SQRT1_2], [0.5, Math.SQRT1_2], [0.5, Math.SQRT1_2], [1, Math.SQRT1_2]],
    ]);
  });

  test("a tensor of one value has a range", () => {
    expect(valueRange({ steps: [1], edges: [[3, 3]], counts: [[9]] })).toEqual([2.5, 3.5]);
    expect(valueRange({ steps: [], edges: [], counts: [] })).toEqual([0, 1]);
  });
});

describe("values", () => {
  test("a number, a vector, a matrix, a cube", () => {
    expect(tableOf(3)).toEqual({ rows: [{ label: "", cells: [3] }], cut: false });
    expect(tableOf([1, "NaN"])).toEqual({ rows: [{ label: "[:]", cells: [1, "NaN"] }], cut: false });
    expect(tableOf([[1, 2], [3, 4]]).rows).toEqual([{ label: "[0, :]", cells: [1, 2] }, { label: "[1, :]", cells: [3, 4] }]);
    expect(tableOf([[[1], [2]], [[3], [4]]]).rows.map((row) => row.label)).toEqual(["[0, 0, :]", "[0, 1, :]", "[1, 0, :]", "[1, 1, :]"]);
  });

  test("texts are no numbers", () => {
    expect([1, "NaN", "-Infinity", "cat" as never].map((cell) => [isText(cell as never), isBroken(cell as never)])).toEqual([[false, false], [false, true], [false, true], [true, false]]);
  });

  test("a long vector is folded, a wide matrix is cut", () => {
    const long = tableOf(Array.from({ length: 100 }, (_, at) => at));
    expect(long.rows).toHaveLength(7);
    expect(long.rows[1]).toMatchObject({ label: "[16]", cells: expect.arrayContaining([16, 31]) });
    expect(tableOf([Array.from({ length: 100 }, () => 0)])).toMatchObject({ cut: true });
    expect(tableOf(Array.from({ length: 300 }, () => [1])).rows).toHaveLength(256);
  });
});
