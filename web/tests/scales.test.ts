import { describe, expect, test } from "vitest";
import { extent, lowerBound, nearest, type Range, upperBound, yRange as rangeOf } from "../src/scales";

const yRange = (lines: number[][], options: { log: boolean; safe: boolean }): Range => rangeOf(lines.map((values) => ({ values, from: 0, to: values.length })), options);

const wave = Array.from({ length: 200 }, (_, at) => 5 + Math.sin(at / 7));

describe("range of y", () => {
  test("all values are in it", () => {
    const range = yRange([wave], { log: false, safe: true });
    expect(range.clipped).toBe(false);
    expect(range.low).toBeLessThan(4.01);
    expect(range.high).toBeGreaterThan(5.99);
  });

  test("one value far outside is cut off, unless all are wanted", () => {
    const spiked = [...wave, 1e9];
    const safe = yRange([spiked], { log: false, safe: true });
    expect(safe.clipped).toBe(true);
    expect(safe.high).toBeLessThan(8);
    expect(yRange([spiked], { log: false, safe: false }).high).toBeGreaterThan(1e9);
  });

  test("a loss that falls steeply at first is not cut", () => {
    const loss = Array.from({ length: 500 }, (_, at) => 0.2 + 3 * Math.exp(-at / 60));
    expect(yRange([loss], { log: false, safe: true }).clipped).toBe(false);
  });

  test("values that are not finite, or not positive on a log scale, are left out", () => {
    expect(yRange([[NaN, Infinity, 1, 3]], { log: false, safe: true }).high).toBeLessThan(4);
    const log = yRange([[-1, 0, 1, 100]], { log: true, safe: true });
    expect(log.low).toBeGreaterThan(0.5);
    expect(log.high).toBeGreaterThan(100);
  });

  test("rounding is no range", () => {
    const { low, high } = yRange([[0.1, 0.1 + 1e-17, 0.1 - 2e-17, 0.10000000000000002]], { log: false, safe: true });
    expect(high - low).toBeGreaterThan(0.01);
  });

  test("a constant and nothing have a range, too", () => {
    for (const values of [[], [0, 0], [7], [NaN]]) {
      for (const log of [false, true]) {
        const { low, high } = yRange([values], { log, safe: true });
        expect(low).toBeLessThan(high);
      }
    }
  });

  test("only the part in view counts", () => {
    expect(rangeOf([{ values: [1e6, 1, 2, 3, 1e6], from: 1, to: 4 }], { log: false, safe: false }).high).toBeLessThan(4);
  });

  test("of a million values the range is that of all, and a spike is still seen", () => {
    const values = Float64Array.from({ length: 1_000_000 }, (_, at) => Math.sin(at / 1000));
    values[777_777] = 1e9;
    const part = [{ values, from: 0, to: values.length }];
    expect(rangeOf(part, { log: false, safe: true })).toMatchObject({ clipped: true });
    expect(rangeOf(part, { log: false, safe: false }).high).toBeGreaterThan(1e9);
  });

  test("values that are never negative have no axis below zero", () => {
    expect(yRange([[0.01, 5]], { log: false, safe: true }).low).toBe(0);
  });
});

test("the nearest point is found", () => {
  const x = [0, 10, 20];
  expect([-5, 4, 6, 15, 16, 99].map((at) => nearest(x, at))).toEqual([0, 0, 1, 1, 2, 2]);
  expect(nearest([], 1)).toBe(-1);
  expect([lowerBound(x, 10), lowerBound(x, 10.5), lowerBound(x, 21)]).toEqual([1, 2, 3]);
  expect([upperBound(x, 10), upperBound(x, 10.5), upperBound([0, 10, 10, 20], 10), upperBound(x, 21)]).toEqual([2, 2, 3, 3]);
});

test("the extent ignores what is not finite", () => {
  expect(extent([[NaN, 3, Infinity], [1]])).toEqual([1, 3]);
  expect(extent([[NaN]])).toBeNull();
});
