import { describe, expect, test } from "vitest";
import { smooth } from "../src/smoothing";

const steps = (count: number, every = 1): number[] => Array.from({ length: count }, (_, at) => at * every);

describe("smoothing", () => {
  test("weight 0 changes nothing", () => {
    expect([...smooth([0, 1, 2], [3, 1, 2], 0)]).toEqual([3, 1, 2]);
  });

  test("a constant stays what it is, from the first point on", () => {
    for (const value of smooth(steps(50), steps(50).map(() => 7), 0.9)) expect(value).toBeCloseTo(7, 12);
  });

  test("it is the debiased average of the points before", () => {
    const [first, second] = smooth([0, 1], [1, 0], 0.5);
    expect(first).toBeCloseTo(1);
    expect(second).toBeCloseTo((0.5 * 0.5 * 1) / (1 - 0.25));
  });

  test("a point that is not finite stays, and does not spoil the next", () => {
    const result = smooth(steps(4), [1, NaN, 1, Infinity], 0.8);
    expect(result[1]).toBeNaN();
    expect(result[2]).toBeCloseTo(1);
    expect(result[3]).toBe(Infinity);
  });

  test("every tenth point of a curve gives nearly the same line as all of them", () => {
    const curve = (x: number): number => Math.exp(-x / 300);
    const all = smooth(steps(1000), steps(1000).map(curve), 0.99);
    const thinned = smooth(steps(100, 10), steps(100, 10).map(curve), 0.99, 991);
    for (const at of [20, 50, 99]) expect(Math.abs(thinned[at]! - all[at * 10]!)).toBeLessThan(0.02);
  });

  test("nothing is nothing", () => expect([...smooth([], [], 0.9)]).toEqual([]));
});
