import { expect, test } from "vitest";
import { ago, formatBytes, formatNumber, formatSeconds, formatTicks, formatTime, plural } from "../src/format";
import { sparkPath } from "../src/spark";

test.each([
  [0, "0"], [12, "12"], [1234567, "1,234,567"], [0.123456, "0.1235"], [0.5, "0.5"], [0.00001234, "1.23e-5"], [12345678.9, "1.23e7"], [-2.5, "-2.5"],
  ["NaN", "NaN"], ["Infinity", "∞"], ["-Infinity", "−∞"], [null, "–"], [1e-3, "0.001"], [100.5, "100.5"],
] as const)("number %s is %s", (value, text) => expect(formatNumber(value)).toBe(text));

test.each([[0.25, "250 ms"], [5.04, "5 s"], [59, "59 s"], [61, "1 min 01 s"], [3700, "1 h 01 min"], [90000, "1 d 01 h"], [null, "–"]] as const)("%s seconds are %s", (value, text) => expect(formatSeconds(value)).toBe(text));

test.each([[0, "0 B"], [999, "999 B"], [1500, "1.5 KB"], [123456789, "123 MB"], [null, "–"]] as const)("%s bytes are %s", (value, text) => expect(formatBytes(value)).toBe(text));

test("times of today are a clock, of yesterday say so, older have a date", () => {
  const now = new Date(2026, 10, 17, 12, 0).getTime() / 1000;
  expect(formatTime(now - 3600, now)).toBe("11:00");
  expect(formatTime(now - 86400, now)).toBe("yesterday 12:00");
  expect(formatTime(now - 10 * 86400, now)).toBe("7 Nov 12:00");
  expect(formatTime(new Date(2024, 0, 5).getTime() / 1000, now)).toBe("5 Jan 2024");
  expect(ago(now - 120, now)).toBe("2 min ago");
});

test("one job, two jobs", () => expect([plural(1, "job"), plural(2, "job")]).toEqual(["1 job", "2 jobs"]));

test("a sparkline has a gap where a value is missing", () => {
  expect(sparkPath([1, 2, 3], 20, 10).match(/M/g)).toHaveLength(1);
  expect(sparkPath([1, NaN, 3], 20, 10).match(/M/g)).toHaveLength(2);
  expect(sparkPath([], 20, 10)).toBe("");
  expect(sparkPath([5], 20, 10)).not.toBe("");
});

test.each([
  [[0.1, 0.2, 0.3], ["0.1", "0.2", "0.3"]], [[0.1002, 0.1004, 0.1006], ["0.1002", "0.1004", "0.1006"]], [[2.00002, 2.00004], ["2.00002", "2.00004"]],
  [[1e-7, 1.001e-7], ["1e-7", "1.001e-7"]], [[12345678.5, 12345679.5], ["1.23456785e7", "1.23456795e7"]], [[], []],
])("marks at %s have texts that differ", (values, texts) => expect(formatTicks(values)).toEqual(texts));
