import { describe, expect, test } from "vitest";
import { counts, innerDifference, rowsOf, rowsOfGit } from "../src/tabs/code/differences";
import { lastQuarter, measured, skewOf, straggler } from "../src/tabs/skew";

describe("differences of files", () => {
  test("lines have their numbers in both files", () => {
    const rows = rowsOf([{ old: 1, new: 1, lines: [[" ", "a"], ["-", "lr = 0.001"], ["+", "lr = 0"], [" ", "b"]] }, { old: 40, new: 40, lines: [["+", "x"], [" ", "y"]] }]);
    expect(rows.map((row) => [row.kind, row.old, row.new, row.text])).toEqual([
      ["same", 1, 1, "a"], ["removed", 2, null, "lr = 0.001"], ["added", null, 2, "lr = 0"], ["same", 3, 3, "b"],
      ["gap", null, null, "lines 40…"], ["added", null, 40, "x"], ["same", 40, 41, "y"],
    ]);
    expect(counts(rows)).toEqual({ added: 2, removed: 1 });
  });

  test("a file that is new has no gap before it", () => {
    expect(rowsOf([{ old: 0, new: 1, lines: [["+", "x"]] }]).map((row) => row.kind)).toEqual(["added"]);
    expect(rowsOf([])).toEqual([]);
  });

  test("pairs of lines show where they differ", () => {
    const [before, after] = rowsOf([{ old: 1, new: 1, lines: [["-", "lr = 0.001  # rate"], ["+", "lr = 0.1  # rate"]] }]);
    expect(before!.text.slice(...before!.inner!)).toBe("00");
    expect(after!.inner).toBeNull();
    const unequal = rowsOf([{ old: 1, new: 1, lines: [["-", "a = 1"], ["-", "b = 1"], ["+", "a = 2"]] }]);
    expect(unequal.every((row) => row.inner === null)).toBe(true);
  });

  test("lines that share little are not compared", () => {
    expect(innerDifference("import torch", "for x in data:")).toEqual([null, null]);
    expect(innerDifference("x = 1", "x = 12")).toEqual([null, [5, 6]]);
    expect(innerDifference("a".repeat(3000), "b".repeat(3000))).toEqual([null, null]);
  });

  test("the text of git diff", () => {
    const rows = rowsOfGit("diff --git a/t.py b/t.py\n--- a/t.py\n+++ b/t.py\n@@ -3,2 +3,2 @@ def f():\n same\n-old\n+new\n\\ No newline at end of file\ndiff --git a/u b/u\n--- a/u\n");
    expect(rows.map((row) => [row.kind, row.old, row.new])).toEqual([
      ["note", null, null], ["note", null, null], ["note", null, null], ["gap", null, null],
      ["same", 3, 3], ["removed", 4, null], ["added", null, 4], ["note", null, null], ["note", null, null], ["note", null, null],
    ]);
  });
});

describe("skew of ranks", () => {
  test("steps at which no rank measured are left out", () => {
    const given = { steps: Float64Array.from([0, 1, 2]), cells: Float32Array.from([1, NaN, 3, NaN, NaN, 6]) };
    expect(measured(given, 2)).toEqual({ steps: Float64Array.from([0, 2]), cells: Float64Array.from([1, 3, NaN, 6]) });
    const whole = { steps: Float64Array.from([0]), cells: Float32Array.from([1]) };
    expect(measured(whole, 1)).toEqual(whole);
  });

  test("slowest minus median, where at least two were measured", () => {
    const skew = skewOf(Float32Array.from([1, 1, NaN, 2, 4, NaN, 6, 2, 9]), Float64Array.from([0, 1, 2]), 3);
    expect(skew).toEqual({ steps: [0, 1], gap: [4, 2], slowest: [2, 1] });
    expect(straggler(skew)).toBeNull();
  });

  test("a rank that is slowest most of the time", () => {
    expect(straggler({ steps: [0, 1, 2], gap: [1, 1, 1], slowest: [1, 1, 0] })).toEqual({ rank: 1, share: 2 / 3, since: null });
    const late = { steps: [0, 1, 2, 3, 4, 5, 6, 7], gap: [1, 1, 1, 1, 1, 1, 1, 1], slowest: [0, 1, 2, 3, 0, 2, 4, 4] };
    expect(straggler(late)).toBeNull();
    expect(straggler(lastQuarter(late))).toEqual({ rank: 4, share: 1, since: 6 });
    expect(straggler({ steps: [], gap: [], slowest: [] })).toBeNull();
  });
});
