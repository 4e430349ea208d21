import { describe, expect, test } from "vitest";
import type { Compare } from "../src/api";
import { axisOf, bestOf, BUT_SEEDS, formatBrushes, groupJobs, isBrushed, isSeed, numberOf, parseBrushes, position, qualitiesOf, sortedBy, valueAt } from "../src/comparing";

const compare: Compare = {
  jobs: ["a", "b", "c", "d"].map((name) => ({ name, shown: name, status: "Completed", seconds: 1 })),
  same: 3,
  rows: [
    { kind: "hyperparameter", name: "lr", values: ["0.1", "0.001", "0.1", null] },
    { kind: "hyperparameter", name: "seed", values: ["1", "2", "3", "4"] },
    { kind: "package", name: "torch", values: ["2.12.1", "2.13.0", "2.13.0", "2.13.0"] },
  ],
  metrics: [{ name: "accuracy", more_is_better: true, last: [0.5, "NaN", 0.9, null], best: [0.6, 0.2, 0.9, null], min: [0, 0, 0, 0], max: [1, 1, 1, 1], at: [0, 0, 0, 0], ids: ["i", "i", "i", null] }],
};
const qualities = qualitiesOf(compare, "last");
const named = (name: string) => qualities.find((quality) => quality.name === name)!;

test("what is a number is told from what only begins like one", () => {
  expect(named("lr").isNumeric).toBe(true);
  expect(named("torch").isNumeric).toBe(false);
  expect(named("accuracy").numbers[1]).toBeNaN();
  expect([numberOf("1e-3"), numberOf("True"), numberOf("2.1.0"), numberOf(" "), numberOf(null)]).toEqual([0.001, 1, NaN, NaN, NaN]);
});

describe("groups", () => {
  test("by one quality", () => {
    expect(groupJobs(qualities, 4, "hyperparameter.lr")).toEqual([{ label: "lr=0.1", members: [0, 2] }, { label: "lr=0.001", members: [1] }, { label: "lr=none", members: [3] }]);
  });

  test("of repeats: by all hyperparameters but the seed", () => {
    expect(groupJobs(qualities, 4, BUT_SEEDS).map((group) => group.members)).toEqual([[0, 2], [1], [3]]);
    expect(["seed", "random_seed", "data.seed", "SEED", "torch-seed"].every(isSeed)).toBe(true);
    expect(["seeds_per_run", "seeded", "speed"].some(isSeed)).toBe(false);
  });
});

test("sorting puts what has no value last, in both directions", () => {
  expect(sortedBy(named("lr"), 4, false)).toEqual([1, 0, 2, 3]);
  expect(sortedBy(named("lr"), 4, true)).toEqual([0, 2, 1, 3]);
  expect(sortedBy(named("accuracy"), 4, true)).toEqual([2, 0, 1, 3]);
  expect(sortedBy(named("torch"), 4, true)).toEqual([1, 2, 3, 0]);
  expect(sortedBy(undefined, 3, true)).toEqual([0, 1, 2]);
});

test("the best is the greatest or the least, and hyperparameters have none", () => {
  expect(bestOf(named("accuracy"))).toBe(2);
  expect(bestOf({ ...named("accuracy"), moreIsBetter: false })).toBe(0);
  expect(bestOf(named("lr"))).toBe(-1);
});

describe("axes", () => {
  test("numbers over several decades are on a log axis, and places lead back to values", () => {
    const axis = axisOf(named("lr"));
    expect(axis.log).toBe(true);
    for (const job of [0, 1]) expect(valueAt(axis, position(axis, job)!)).toBeCloseTo(named("lr").numbers[job]!, 8);
    expect(position(axis, 3)).toBeNull();
  });

  test("words are at equal distances", () => {
    const axis = axisOf(named("torch"));
    expect([0, 1].map((job) => position(axis, job))).toEqual([0, 1]);
  });

  test("a constant lies in the middle", () => {
    const axis = axisOf({ ...named("lr"), numbers: [5, 5, 5, 5], values: ["5", "5", "5", "5"] });
    expect(position(axis, 0)).toBeCloseTo(0.5);
  });
});

test("ranges on axes survive the address and leave the jobs within", () => {
  const axes = [axisOf(named("lr"))];
  const brushes = parseBrushes(formatBrushes(new Map([["hyperparameter.lr", [0.5, 1]]])));
  expect(brushes.get("hyperparameter.lr")).toEqual([0.5, 1]);
  expect([0, 1, 2, 3].filter((job) => isBrushed(axes, brushes, job))).toEqual([0, 2]);
  expect(parseBrushes(["x|1|0", "nothing", "|0|1"]).size).toBe(0);
});
