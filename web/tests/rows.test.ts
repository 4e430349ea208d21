import { expect, test } from "vitest";
import { PAGE, pagesOf, partsOf } from "../src/pages";

test("pages that cover rows", () => {
  expect(pagesOf(0, 10)).toEqual([0]);
  expect(pagesOf(0, 0)).toEqual([0]);
  expect(pagesOf(PAGE - 1, PAGE + 1)).toEqual([0, 1]);
  expect(pagesOf(-5, PAGE)).toEqual([0]);
  expect(pagesOf(3 * PAGE, 5 * PAGE)).toEqual([3, 4]);
});

test("requests that cover a range, of at most 1,000 rows", () => {
  expect(partsOf(0, 0)).toEqual([]);
  expect(partsOf(5, 8)).toEqual([[5, 3]]);
  expect(partsOf(0, 1000)).toEqual([[0, 1000]]);
  expect(partsOf(10, 2510)).toEqual([[10, 1000], [1010, 1000], [2010, 500]]);
});
