import { describe, expect, test } from "vitest";
import { formatList, formatPlace, parseList, parsePlace, type Place } from "../src/location";

describe("addresses", () => {
  test.each<Place>([
    { path: [], values: {} },
    { path: ["job", "bert-77"], values: { tab: "logs" } },
    { path: ["job", "a/b?c#d%"], values: { q: "status:failed lr>1e-3 name~/be+rt/ & x=1 #", zoom: "10,200" } },
    { path: ["compare"], values: { jobs: "a,b\\,c", "own colours": "ä=ß" } },
  ])("a place survives being written and read: %o", (place) => {
    expect(parsePlace(formatPlace(place))).toEqual(place);
  });

  test("empty values are left out, and the order of keys does not matter", () => {
    expect(formatPlace({ path: [], values: { b: "2", a: "1", c: "" } })).toBe("#/?a=1&b=2");
  });

  test("what nobody wrote is read as home", () => {
    for (const text of ["", "#", "#/", "/"]) expect(parsePlace(text)).toEqual({ path: [], values: {} });
  });

  test("a broken escape stays text", () => {
    expect(parsePlace("#/job/100%").path).toEqual(["job", "100%"]);
  });

  test("a key named like a method of objects is only a key", () => {
    const place = parsePlace("#/?__proto__=x&constructor=y");
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
    expect(place.values["constructor"]).toBe("y");
  });
});

describe("lists", () => {
  test.each([[[]], [["a"]], [["a", "b"]], [["a,b", "c\\"]], [["", "x"]]])("%o survives", (entries) => {
    expect(parseList(formatList(entries))).toEqual(entries);
  });
});
