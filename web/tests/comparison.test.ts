import { expect, test } from "vitest";
import type { ComparedPart } from "../src/api";
import { joinParts } from "../src/comparison";

const job = (name: string): ComparedPart["job"] => ({ name, shown: name, status: "Completed", seconds: 1 });
const NAMES = ["a", "b", "c"];
const first: ComparedPart = { at: 0, job: job("a"), curves: [["loss", "c1", false, 1, 0.5, 0.5, 2, null], ["acc", "c2", true, 0.7, 0.9, 0.1, 0.9, null]] };
const last: ComparedPart = { at: 2, job: job("c"), curves: [["acc", "c2", true, "NaN", 0.4, 0.2, 0.4, 0.3], ["f1", "c3", true, 1, 1, 1, 1, null]] };

test("jobs keep their places while others are read", () => {
  const some = joinParts(NAMES, [undefined, undefined, last]);
  expect(some.jobs.map((each) => [each.name, each.status])).toEqual([["a", ""], ["b", ""], ["c", "Completed"]]);
  expect(some.metrics.map((metric) => metric.name)).toEqual(["acc", "f1"]);
  expect(some.metrics[0]!.ids).toEqual([null, null, "c2"]);
  expect([some.read, some.whole]).toEqual([1, false]);
});

test("the order in which they arrive changes nothing", () => {
  const parts = [first, undefined, last];
  const found = joinParts(NAMES, parts);
  expect(found.metrics.map((metric) => metric.name)).toEqual(["loss", "acc", "f1"]);
  expect(found.metrics[1]).toEqual({ name: "acc", more_is_better: true, last: [0.7, null, "NaN"], best: [0.9, null, 0.4], min: [0.1, null, 0.2], max: [0.9, null, 0.4], at: [null, null, 0.3], ids: ["c2", null, "c2"] });
});

test("it is whole when all jobs are read and what differs is known", () => {
  const rest = { same: 3, rows: [{ kind: "hyperparameter" as const, name: "lr", values: ["1", "2", "3"] }] };
  const parts = [first, { at: 1, job: job("b"), curves: [] }, last];
  expect(joinParts(NAMES, parts).whole).toBe(false);
  expect(joinParts(NAMES, parts, rest)).toMatchObject({ whole: true, read: 3, same: 3, rows: rest.rows });
});
