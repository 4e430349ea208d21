// Colours in the output of programs: escape sequences become spans of text with a style. Pure.
// All other sequences and control characters are left out.

export type Rgb = readonly [number, number, number];
export type Colour = number | Rgb;     // one of the 256 colours of terminals, or any

export interface Style {
  fg: Colour | null; bg: Colour | null;
  bold: boolean; dim: boolean; italic: boolean; underline: boolean; inverse: boolean; strike: boolean;
}
export interface Span { text: string; style: Style }

const PLAIN: Style = { fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false, strike: false };
// A control sequence with its parameters; a command with text, such as a title or a link; other escapes; control characters but tab.
const ESCAPE = /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]|[\0-\x08\x0a-\x1f\x7f-\x9f]/g;

export function parseAnsi(text: string): Span[] {
  const spans: Span[] = [];
  let style = PLAIN;
  let end = 0;
  const add = (piece: string): void => {
    const last = spans[spans.length - 1];
    if (last && last.style === style) last.text += piece;
    else spans.push({ text: piece, style });
  };
  for (const found of text.matchAll(ESCAPE)) {
    if (found.index > end) add(text.slice(end, found.index));
    end = found.index + found[0].length;
    if (found[2] === "m") style = changed(style, found[1]!);
  }
  if (end < text.length) add(text.slice(end));
  return spans;
}

export const withoutAnsi = (text: string): string => text.replace(ESCAPE, "");

// "1;31", "38;5;208", "38;2;255;0;0", "38:2::255:0:0", "4:3"
function changed(style: Style, parameters: string): Style {
  const next = { ...style };
  const codes = parameters.split(";");
  for (let at = 0; at < codes.length; at++) {
    const [code, ...inside] = codes[at]!.split(":").map((part) => (part === "" ? 0 : Number(part)));
    if (code === 38 || code === 48) {
      const rest = inside.length ? inside : codes.slice(at + 1).map(Number);
      const [colour, used] = longColour(rest, inside.length > 4);
      if (!inside.length) at += used;
      if (colour !== undefined) next[code === 38 ? "fg" : "bg"] = colour;
    } else if (code === 4 && inside.length) next.underline = inside[0] !== 0;
    else apply(next, code!);
  }
  return same(next, PLAIN) ? PLAIN : next;
}

function longColour(rest: number[], hasSpace: boolean): [Colour | undefined, number] {
  const valid = (value: number | undefined): value is number => value !== undefined && value >= 0 && value <= 255;
  if (rest[0] === 5) return [valid(rest[1]) ? rest[1] : undefined, 2];
  if (rest[0] !== 2) return [undefined, 0];
  const [red, green, blue] = rest.slice(hasSpace ? 2 : 1);   // 38:2:<space>:r:g:b has one more
  return [valid(red) && valid(green) && valid(blue) ? [red, green, blue] : undefined, 4];
}

function apply(style: Style, code: number): void {
  if (code === 0) Object.assign(style, PLAIN);
  else if (code === 1) style.bold = true;
  else if (code === 2) style.dim = true;
  else if (code === 3) style.italic = true;
  else if (code === 4 || code === 21) style.underline = true;
  else if (code === 7) style.inverse = true;
  else if (code === 9) style.strike = true;
  else if (code === 22) style.bold = style.dim = false;
  else if (code === 23) style.italic = false;
  else if (code === 24) style.underline = false;
  else if (code === 27) style.inverse = false;
  else if (code === 29) style.strike = false;
  else if (code >= 30 && code <= 37) style.fg = code - 30;
  else if (code === 39) style.fg = null;
  else if (code >= 40 && code <= 47) style.bg = code - 40;
  else if (code === 49) style.bg = null;
  else if (code >= 90 && code <= 97) style.fg = code - 82;
  else if (code >= 100 && code <= 107) style.bg = code - 92;
}

function same(a: Style, b: Style): boolean {
  return (Object.keys(a) as (keyof Style)[]).every((key) => a[key] === b[key]);
}

const SIXTEEN: readonly Rgb[] = [
  [0, 0, 0], [205, 49, 49], [13, 158, 90], [180, 140, 0], [36, 114, 200], [170, 60, 170], [17, 150, 180], [200, 200, 200],
  [110, 110, 110], [241, 76, 76], [35, 209, 139], [230, 200, 40], [59, 142, 234], [214, 112, 214], [41, 184, 219], [255, 255, 255],
];

export function rgbOf(colour: Colour): Rgb {
  if (typeof colour !== "number") return colour;
  if (colour < 16) return SIXTEEN[colour]!;
  if (colour >= 232) return [8 + 10 * (colour - 232), 8 + 10 * (colour - 232), 8 + 10 * (colour - 232)];
  const level = (part: number): number => (part ? 55 + 40 * part : 0);
  const at = colour - 16;
  return [level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6)];
}

// Colours of a theme: text and what is behind it.
export const GROUND: Record<"light" | "dark", { text: Rgb; back: Rgb }> = {
  light: { text: [26, 31, 39], back: [255, 255, 255] },
  dark: { text: [228, 232, 237], back: [25, 31, 38] },
};

// What to set on an element; programs choose colours for black terminals, so they are moved until they can be read.
export function cssOf(style: Style, theme: "light" | "dark"): Record<string, string> {
  if (style === PLAIN) return {};
  const ground = GROUND[theme];
  let fg = style.fg === null ? null : rgbOf(style.fg);
  let bg = style.bg === null ? null : rgbOf(style.bg);
  if (style.inverse) [fg, bg] = [bg ?? ground.back, fg ?? ground.text];
  const css: Record<string, string> = {};
  if (bg) css["background-color"] = text(bg);
  if (fg || bg) css.color = text(readable(fg ?? ground.text, bg ?? ground.back));
  else if (style.dim) css.color = "var(--muted)";
  if (style.bold) css["font-weight"] = "700";
  if (style.italic) css["font-style"] = "italic";
  const lines = [style.underline && "underline", style.strike && "line-through"].filter(Boolean);
  if (lines.length) css["text-decoration"] = lines.join(" ");
  return css;
}

const ENOUGH = 4.5;                    // contrast that WCAG asks for

export function readable(colour: Rgb, back: Rgb): Rgb {
  const end: Rgb = luminance(back) > 0.18 ? [0, 0, 0] : [255, 255, 255];
  for (let share = 0; share < 1; share += 0.1) {
    const mixed = colour.map((part, at) => Math.round(part + (end[at]! - part) * share)) as unknown as Rgb;
    if (contrast(mixed, back) >= ENOUGH) return mixed;
  }
  return end;
}

export function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high! + 0.05) / (low! + 0.05);
}

function luminance(colour: Rgb): number {
  const [red, green, blue] = colour.map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

const text = (colour: Rgb): string => `rgb(${colour.join(" ")})`;
