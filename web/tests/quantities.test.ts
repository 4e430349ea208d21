import { expect, test } from "vitest";
import { scaleOf, shortName } from "../src/tabs/quantities";

test.each([
  ["bytes", 999, { unit: "B", factor: 1 }], ["bytes", 2_500_000, { unit: "MB", factor: 1e-6 }], ["bytes/second", 1e9, { unit: "GB/s", factor: 1e-9 }],
  ["bytes", 0, { unit: "B", factor: 1 }], ["bytes", 1e30, { unit: "PB", factor: 1e-15 }], ["%", 1e9, { unit: "%", factor: 1 }],
])("%s up to %d", (unit, greatest, expected) => {
  const scale = scaleOf(unit, greatest);
  expect(scale.unit).toBe(expected.unit);
  expect(scale.factor).toBeCloseTo(expected.factor, 20);
});

test("names without what title and unit say", () => {
  expect(["cpu/total_percent", "disk/read_bytes_per_second", "TRAIN/vitals/step_seconds", "loss", "x/"].map(shortName)).toEqual(["total", "read", "step", "loss", "x/"]);
});
