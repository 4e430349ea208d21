import { describe, expect, test } from "vitest";
import { colourOf, coloursOf, formatColours, PALETTE, parseColours } from "../src/colours";

const names = (count: number): string[] => Array.from({ length: count }, (_, at) => `job-${at}`);

describe("colours of jobs", () => {
  test("twenty jobs have twenty colours", () => {
    expect(new Set(PALETTE).size).toBe(20);
    expect(new Set(coloursOf(names(20)).values()).size).toBe(20);
  });

  test("a job alone has the colour of its name", () => {
    expect(coloursOf(["bert-77"]).get("bert-77")).toBe(colourOf("bert-77"));
  });

  test("the order of the jobs does not matter", () => {
    expect(coloursOf(names(33).reverse())).toEqual(coloursOf(names(33)));
  });

  test("two hundred jobs use every colour ten times", () => {
    const used = new Map<string, number>();
    for (const colour of coloursOf(names(200)).values()) used.set(colour, (used.get(colour) ?? 0) + 1);
    expect([...used.values()]).toEqual(Array(20).fill(10));
  });

  test("an own colour wins and is read back from the address", () => {
    const own = parseColours(formatColours({ "a:b": "#123456" }));
    expect(own).toEqual({ "a:b": "#123456" });
    expect(coloursOf(["a:b", "c"], own).get("a:b")).toBe("#123456");
    expect(parseColours(["x:red", "x:url(evil)", ":#123456", "nothing"])).toEqual({});
  });
});
