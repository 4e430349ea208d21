import { expect, test } from "vitest";
import { shownName, wireName } from "../src/shownName";

test("names as people write them", () => {
  expect(shownName("bert-77")).toBe("bert-77");
  expect(shownName("my-run-v2--x5")).toBe("my_run.v2");
  expect(shownName("a-b--x2")).toBe("a.b");
  expect(shownName(`${"a-b-".repeat(14)}a-b--xf7d83oqd7`)).toBe(`${"a_b.".repeat(14)}a_b`);
});

test("what only looks like one stays", () => {
  for (const name of ["a--x0", "a-b--x0", "a--x1", "a-b--xzzzz", "--x5", "<b>--x5", "a-b--x", "a_b--x5"]) expect(shownName(name)).toBe(name);
});

test("names of the API, as for an address that somebody typed", () => {
  expect(wireName("my_run.v2")).toBe("my-run-v2--x5");
  for (const name of ["bert-77", "my-run-v2--x5", "", "_x", "a b.c", "<b>.x"]) expect(wireName(name)).toBe(name);
});
