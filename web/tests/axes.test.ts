import { describe, expect, test } from "vitest";
import { apart, fitted, linearTicks, logTicks, timeTicks } from "../src/axes";

describe("ticks", () => {
  test("are round numbers inside of the range", () => {
    expect(linearTicks(0, 100, 5)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(linearTicks(0.13, 0.37, 4)).toEqual([0.2, 0.3]);
    expect(linearTicks(-3, 3, 6)).toEqual([-3, -2, -1, 0, 1, 2, 3]);
    expect(linearTicks(1e-9, 9e-9, 4)).toEqual([2e-9, 4e-9, 6e-9, 8e-9]);
  });

  test("are at least two, also where there is little room", () => {
    expect(linearTicks(0.01, 0.22, 2)).toEqual([0.1, 0.2]);
    expect(linearTicks(0.004, 0.0149, 1)).toEqual([0.005, 0.01]);
  });

  test("are not too many, whatever the range", () => {
    for (const [low, high] of [[0, 1], [0, 7e12], [-1e-7, 3e-7], [20000, 20001]] as const) {
      for (const most of [2, 3, 5, 10]) expect(linearTicks(low, high, most).length).toBeLessThanOrEqual(most + 1);
    }
  });

  test("of no range are none", () => {
    expect(linearTicks(1, 1, 5)).toEqual([]);
    expect(linearTicks(NaN, 1, 5)).toEqual([]);
    expect(logTicks(0, 1, 5)).toEqual([]);
  });

  test("of a log axis are decades", () => {
    expect(logTicks(0.05, 2000, 6)).toEqual([0.1, 1, 10, 100, 1000]);
    expect(logTicks(0.9, 21, 6)).toEqual([1, 2, 5, 10, 20]);
    expect(logTicks(1e-20, 1e20, 5).length).toBeLessThanOrEqual(6);
    expect(logTicks(3, 4, 5).length).toBeGreaterThan(1);
  });

  test("of time are whole minutes and days of the wall's clock", () => {
    expect(timeTicks(0, 600, 5)).toEqual([0, 120, 240, 360, 480, 600]);
    expect(timeTicks(0, 3 * 86400, 3, 3600)).toEqual([82800, 169200, 255600]);
    expect(timeTicks(0, 0.5, 5).length).toBeGreaterThan(2);
  });
});

describe("texts of marks", () => {
  const make = (most: number) => linearTicks(0, 990_000, most).map((value) => ({ value, text: value.toLocaleString("en") }));

  test("are so many as have room", () => {
    for (const pixels of [120, 160, 200, 300, 600]) {
      const ticks = fitted(make, Math.max(2, Math.floor(pixels / 60)), pixels);
      expect(ticks.length).toBeGreaterThan(1);
      if (pixels >= 160) expect((ticks.length - 1) * 7 * 6.2).toBeLessThan(pixels);
    }
  });

  test("never stand over each other", () => {
    expect(apart([[0, 40], [30, 70], [60, 100], [99, 120]], 4)).toEqual([true, false, true, false]);
    expect(apart([], 4)).toEqual([]);
  });
});
