// Colours of heat maps: what a cell's byte means, and the colour of each. Pure.
// The scales keep their order for people who do not tell red from green.

export const MOST = 250;             // 0…250: from the dark to the bright end of the scale
export const ZERO = 251;
export const NOT_FINITE = 252;
export const NOT_SAVED = 255;

type Rgb = readonly [number, number, number];

const SEQUENTIAL: readonly Rgb[] = [[68, 1, 84], [70, 50, 126], [54, 92, 141], [39, 127, 142], [31, 161, 135], [74, 193, 109], [160, 218, 57], [253, 231, 37]];
const DIVERGING = {
  light: [[5, 48, 97], [42, 113, 178], [130, 184, 218], [240, 240, 238], [225, 180, 90], [166, 103, 14], [92, 50, 0]],
  dark: [[150, 205, 255], [62, 140, 210], [30, 78, 126], [44, 48, 54], [118, 82, 22], [196, 138, 40], [255, 214, 130]],
} as const satisfies Record<string, readonly Rgb[]>;
const SPECIAL = {
  light: { zero: [0, 0, 0], notFinite: [255, 45, 85] },
  dark: { zero: [255, 255, 255], notFinite: [255, 45, 85] },
} as const satisfies Record<string, Record<string, Rgb>>;

export interface Look { dark: boolean; diverging: boolean }

// One colour per byte, as a canvas stores pixels: red in the lowest byte, alpha in the highest.
export function palette(look: Look): Uint32Array {
  const stops = stopsOf(look);
  const colours = new Uint32Array(256);
  for (let cell = 0; cell <= MOST; cell++) colours[cell] = packed(between(stops, cell / MOST));
  const special = SPECIAL[look.dark ? "dark" : "light"];
  colours[ZERO] = packed(special.zero);
  colours[NOT_FINITE] = packed(special.notFinite);
  return colours;                    // the rest is transparent
}

export function css(colours: Uint32Array, cell: number): string {
  const value = colours[cell]!;
  return `rgb(${value & 255} ${(value >> 8) & 255} ${(value >> 16) & 255})`;
}

// Stops for a gradient of the style sheet, dark end first.
export const gradient = (look: Look): string => `linear-gradient(to right, ${stopsOf(look).map((stop) => `rgb(${stop.join(" ")})`).join(", ")})`;

function stopsOf(look: Look): readonly Rgb[] {
  return look.diverging ? DIVERGING[look.dark ? "dark" : "light"] : SEQUENTIAL;
}

function between(stops: readonly Rgb[], share: number): Rgb {
  const place = share * (stops.length - 1);
  const left = Math.min(Math.floor(place), stops.length - 2);
  const [from, to] = [stops[left]!, stops[left + 1]!];
  const mixed = [0, 1, 2].map((part) => Math.round(from[part]! + (to[part]! - from[part]!) * (place - left)));
  return [mixed[0]!, mixed[1]!, mixed[2]!];
}

const packed = ([red, green, blue]: Rgb): number => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
