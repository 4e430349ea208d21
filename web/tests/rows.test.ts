import { expect, test } from "vitest";
import { PAGE, pagesOf } from "../src/pages";

test("pages that cover rows", () => {
  expect(pagesOf(0, 10)).toEqual([0]);
  expect(pagesOf(0, 0)).toEqual([0]);
  expect(pagesOf(PAGE - 1, PAGE + 1)).toEqual([0, 1]);
  expect(pagesOf(-5, PAGE)).toEqual([0]);
  expect(pagesOf(3 * PAGE, 5 * PAGE)).toEqual([3, 4]);
});
