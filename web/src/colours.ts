// Twenty distinct colours; a job keeps its colour in every view. Pure.

// Hues far apart from neighbours, readable on white and on near-black.
export const PALETTE = [
  "#3b7dd8", "#e07b1a", "#2f9e5a", "#d6455d", "#8e63ce", "#a0714f", "#d665ab", "#5f8f9e", "#a3a021", "#17a2b8",
  "#5a67d8", "#c2571a", "#6aa84f", "#b03060", "#b58adb", "#c9a227", "#e58fb1", "#41787f", "#7f8c2d", "#4fb3a5",
] as const;

export function hashOf(text: string): number {
  let hash = 0x811c9dc5;                       // FNV-1a
  for (let at = 0; at < text.length; at++) {
    hash ^= text.charCodeAt(at);
    hash = Math.imul(hash, 0x01000193);
  }
  return hash >>> 0;
}

export const colourOf = (name: string): string => PALETTE[hashOf(name) % PALETTE.length]!;

// Colours of the jobs of one view. Where two would share one, the later by name takes the next that is free;
// so the result depends on the set of names only. `own` has what people chose.
export function coloursOf(names: readonly string[], own: Readonly<Record<string, string>> = {}): Map<string, string> {
  const colours = new Map<string, string>();
  const used = new Map<string, number>();
  const take = (name: string, colour: string): void => {
    colours.set(name, colour);
    used.set(colour, (used.get(colour) ?? 0) + 1);
  };
  const sorted = [...new Set(names)].sort();
  for (const name of sorted) if (own[name]) take(name, own[name]);
  for (const name of sorted) {
    if (colours.has(name)) continue;
    const start = hashOf(name) % PALETTE.length;
    const round = Math.min(...PALETTE.map((colour) => used.get(colour) ?? 0));
    let at = start;
    while ((used.get(PALETTE[at]!) ?? 0) > round) at = (at + 1) % PALETTE.length;
    take(name, PALETTE[at]!);
  }
  return colours;
}

// "bert-77:#ff0000" entries of the address; what is no colour is left out.
export function parseColours(entries: readonly string[]): Record<string, string> {
  const own: Record<string, string> = {};
  for (const entry of entries) {
    const cut = entry.lastIndexOf(":");
    const colour = entry.slice(cut + 1);
    if (cut > 0 && /^#[0-9a-f]{6}$/i.test(colour)) own[entry.slice(0, cut)] = colour.toLowerCase();
  }
  return own;
}

export const formatColours = (own: Readonly<Record<string, string>>): string[] => Object.entries(own).map(([name, colour]) => `${name}:${colour}`);
