import { describe, expect, test } from "vitest";
import { contrast, cssOf, GROUND, parseAnsi, readable, rgbOf, type Rgb, withoutAnsi } from "../src/tabs/log/ansi";
import { type LogLine, LogPages } from "../src/tabs/log/pages";
import { anchor, inView, MOST_PIXELS, moved, space, toBar, travel } from "../src/tabs/log/scroll";
import { cutAt, marker, matches, parseLines, parseTarget } from "../src/tabs/log/targets";

const E = "\x1b[";
const styles = (text: string): unknown[] => parseAnsi(text).map(({ text: piece, style }) => [piece, Object.fromEntries(Object.entries(style).filter(([, value]) => value !== null && value !== false))]);

describe("ANSI colours", () => {
  test("text without sequences is one span", () => {
    expect(styles("loss 0.3\t<b>")).toEqual([["loss 0.3\t<b>", {}]]);
    expect(parseAnsi("")).toEqual([]);
  });

  test("the 16 colours, with bold, dim and underline", () => {
    expect(styles(`${E}1;31mError${E}0m: ${E}92;44mok${E}39mx${E}49my${E}m.`)).toEqual([
      ["Error", { bold: true, fg: 1 }], [": ", {}], ["ok", { fg: 10, bg: 4 }], ["x", { bg: 4 }], ["y.", {}],
    ]);
    expect(styles(`${E}2ma${E}22;4mb${E}24;3;7mc${E}23;27md`)).toEqual([["a", { dim: true }], ["b", { underline: true }], ["c", { italic: true, inverse: true }], ["d", {}]]);
  });

  test("256 colours and true colours, with semicolons and with colons", () => {
    expect(styles(`${E}38;5;208ma${E}48;2;1;2;3mb`)).toEqual([["a", { fg: 208 }], ["b", { fg: 208, bg: [1, 2, 3] }]]);
    expect(styles(`${E}38:5:208ma${E}38:2::1:2:3mb${E}38:2:4:5:6mc${E}4:3md`)).toEqual([["a", { fg: 208 }], ["b", { fg: [1, 2, 3] }], ["c", { fg: [4, 5, 6] }], ["d", { fg: [4, 5, 6], underline: true }]]);
    expect(styles(`${E}38;5;208;1ma`)).toEqual([["a", { fg: 208, bold: true }]]);
  });

  test("numbers that are no colours change nothing", () => {
    expect(styles(`${E}38;5;999ma${E}38;2;1mb${E}38mc${E}1234md`)).toEqual([["abcd", {}]]);
  });

  test("other sequences and control characters are left out", () => {
    expect(withoutAnsi(`a${E}2Kb${E}?25lc\x1b]0;title\x07d\x1b]8;;http://x\x1b\\e\x1b]8;;\x1b\\f\x1b(Bg\x00\x08\x7f\x9b31mh\x1b`)).toBe("abcdefgh");
    expect(withoutAnsi("\x1b]0;a title without an end")).toBe("");
  });

  test("a long hostile line ends", () => {
    expect(withoutAnsi(`${E}${"1;".repeat(50_000)}`.repeat(4))).toContain("1;");
    expect(styles(`${E}${"1;".repeat(50_000)}mx`)).toEqual([["x", {}]]);
  });

  test("colours of terminals", () => {
    expect([16, 21, 231, 232, 255].map(rgbOf)).toEqual([[0, 0, 0], [0, 0, 255], [255, 255, 255], [8, 8, 8], [238, 238, 238]]);
    expect(rgbOf([1, 2, 3])).toEqual([1, 2, 3]);
  });

  test.each(["light", "dark"] as const)("all 256 colours can be read on %s", (theme) => {
    for (let colour = 0; colour < 256; colour++) {
      expect(contrast(readable(rgbOf(colour), GROUND[theme].back), GROUND[theme].back)).toBeGreaterThanOrEqual(4.5);
      const [fg, bg] = Object.entries(cssOf(parseAnsi(`${E}48;5;${colour}mx`)[0]!.style, theme)).sort().reverse().map(([, value]) => value.match(/\d+/g)!.map(Number) as unknown as Rgb);
      expect(contrast(fg!, bg!)).toBeGreaterThanOrEqual(4.5);
    }
  });

  test("styles for an element", () => {
    const css = (text: string): unknown => cssOf(parseAnsi(text)[0]!.style, "dark");
    expect(css("a")).toEqual({});
    expect(css(`${E}1;3;4;9ma`)).toEqual({ "font-weight": "700", "font-style": "italic", "text-decoration": "underline line-through" });
    expect(css(`${E}2ma`)).toEqual({ color: "var(--muted)" });
    expect(css(`${E}7ma`)).toEqual({ "background-color": "rgb(228 232 237)", color: "rgb(25 31 38)" });
  });
});

describe("scrolling", () => {
  const small = { count: 100, lineHeight: 18, height: 360 };
  const large = { count: 10_000_000, lineHeight: 18, height: 360 };

  test("few lines scroll as the browser does", () => {
    expect(space(small)).toBe(1800);
    expect(travel(small)).toBe(1440);
    expect(moved(small, 0, 0, 500)).toBe(500);
    expect(moved(small, 0, 0, 1440)).toBe(1440);
    expect(toBar(small, 720)).toBe(720);
    expect(inView(small, 180, 0)).toEqual({ first: 10, last: 30 });
    expect(moved({ ...small, count: 3 }, 0, 0, 10)).toBe(0);
  });

  test("with more lines than pixels, a wheel moves pixel by pixel and the bar moves over all", () => {
    expect(space(large)).toBe(MOST_PIXELS);
    expect(moved(large, 5000, 222, 322)).toBe(5100);
    expect(moved(large, 50, 10, 0)).toBe(40);
    expect(moved(large, 20, 40, 0)).toBe(0);
    expect(moved(large, 0, 0, MOST_PIXELS - 360)).toBe(travel(large));
    expect(moved(large, 90_000, 4000, 0)).toBe(0);
    expect(moved(large, 0, MOST_PIXELS - 400, MOST_PIXELS - 360, true)).toBe(travel(large));
    const half = travel(large) / 2;
    expect(moved(large, 0, 0, toBar(large, half))).toBeCloseTo(half, 3);
  });

  test("the last line can be reached", () => {
    expect(inView(large, travel(large)).last).toBe(large.count);
  });

  test("wrapped lines: the first begins at the top, the last ends at the bottom", () => {
    expect(anchor(large, 0)).toEqual({ line: 0, part: 0, y: 0 });
    expect(anchor(large, travel(large))).toEqual({ line: large.count - 1, part: 1, y: 360 });
    expect(anchor(small, 720)).toEqual({ line: 50, part: 0, y: 180 });
    expect(anchor({ ...small, count: 0 }, 0)).toEqual({ line: 0, part: 0, y: 0 });
  });
});

describe("pages of a log", () => {
  const lines = (first: number, count: number): LogLine[] => Array.from({ length: count }, (_, at) => ({ time: 0, text: `${first + at}` }));

  test("lines are where they were put", () => {
    const pages = new LogPages();
    pages.put(999_950, lines(999_950, 100));
    expect(pages.get(999_950)?.text).toBe("999950");
    expect(pages.get(1_000_049)?.text).toBe("1000049");
    expect(pages.get(1_000_050)).toBeUndefined();
    expect(pages.get(1)).toBeUndefined();
  });

  test("what is missing is asked for, gap by gap", () => {
    const pages = new LogPages();
    expect(pages.missing(-5, 50)).toEqual({ line: 1, count: 200 });
    pages.put(1, lines(1, 30));
    pages.put(41, lines(41, 100));
    expect(pages.missing(1, 50)).toEqual({ line: 31, count: 10 });
    pages.put(31, lines(31, 4));       // a page may have fewer lines than asked for
    expect(pages.missing(1, 50)).toEqual({ line: 35, count: 6 });
    pages.put(35, lines(35, 6));
    expect(pages.missing(1, 50)).toBeNull();
    expect(pages.missing(1, 0)).toBeNull();
  });

  test("memory is bounded, and what is in view stays", () => {
    const pages = new LogPages();
    pages.put(1, lines(1, 200));
    for (let page = 1; page < 500; page++) {
      pages.put(1 + 200 * page, lines(1 + 200 * page, 200));
      if (page % 50 === 0) expect(pages.missing(1, 200)).toBeNull();
    }
    expect(pages.get(1)?.text).toBe("1");
    expect(pages.get(201)).toBeUndefined();
    expect(pages.get(100_000)?.text).toBe("100000");
  });
});

describe("targets", () => {
  const began = new Date(2026, 10, 17, 22, 30, 20).getTime() / 1000;
  const time = (...parts: [number, number, number, number, number, number]): string => `time:${new Date(...parts).getTime() / 1000}`;

  test.each([
    ["812", { line: "812" }], ["#812", { line: "812" }], ["line 1,000", { line: "1000" }], ["812 - 1,840", { line: "812-1840" }],
    ["step 300", { at: "step:300" }], ["s300", { at: "step:300" }], ["Step 1,200", { at: "step:1200" }],
    ["22:31", { at: time(2026, 10, 17, 22, 31, 0) }], ["22:30", { at: time(2026, 10, 17, 22, 30, 0) }], ["1:02:07", { at: time(2026, 10, 18, 1, 2, 7) }],
    ["2026-11-17 22:31:05", { at: time(2026, 10, 17, 22, 31, 5) }],
    ["soon", null], ["", null], ["14:0", null],
  ])("%s", (text, expected) => expect(parseTarget(text, began)).toEqual(expected));

  test("lines of the address", () => {
    expect([parseLines("812"), parseLines("840-812"), parseLines("0"), parseLines("x"), parseLines("")]).toEqual([[812, 812], [812, 840], null, null, null]);
  });

  test("patterns mark what they match, where that is quick", () => {
    expect(matches("Loss is NaN, loss", marker("(?i)loss"))).toEqual([[0, 4], [13, 17]]);
    expect(matches("aaa", marker("x*"))).toEqual([]);
    for (const slow of ["(a+)+b", "(a|a)*", "a*b*c*d", "a?a?a?a?aaaa", "(a|b)(a|b)(a|b)(a|b)", "(", ""]) expect(marker(slow)).toBeNull();
    expect(marker("[*+?]{3}x")).not.toBeNull();
    expect(matches("a".repeat(3000), marker("a+"))).toEqual([]);
  });

  test("marks cut pieces of several colours", () => {
    expect(cutAt([{ text: "ab" }, { text: "cd" }], [[1, 3]])).toEqual([{ text: "a", marked: false }, { text: "b", marked: true }, { text: "c", marked: true }, { text: "d", marked: false }]);
    expect(cutAt([{ text: "abcdef" }], [[0, 2], [4, 6]])).toEqual([{ text: "ab", marked: true }, { text: "cd", marked: false }, { text: "ef", marked: true }]);
    expect(cutAt([{ text: "ab" }], [])).toEqual([{ text: "ab", marked: false }]);
  });
});
