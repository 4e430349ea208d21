// Where the marks of an axis are. Pure.

const FEW = 6;

export function linearTicks(low: number, high: number, most: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [];
  const ticks = stepped(low, high, span / Math.max(most, 1));
  return ticks.length > 1 || most > FEW ? ticks : linearTicks(low, high, most + 1);   // one mark says where, but not how far
}

function stepped(low: number, high: number, raw: number): number[] {
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.9999) ?? 10) * power;
  return multiples(low, high, step);
}

// Decades; where there are few, also 2 and 5; where the range is within one, as on a linear axis.
export function logTicks(low: number, high: number, most: number): number[] {
  if (!(low > 0) || !(high > low)) return [];
  const decades = Math.log10(high / low);
  if (decades < 0.7) return linearTicks(low, high, most);
  const every = Math.max(1, Math.ceil(decades / Math.max(most, 1)));
  const factors = decades * 3 <= most ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    if (((power % every) + every) % every) continue;
    for (const factor of factors) {
      const tick = factor * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks.length > 1 ? ticks : linearTicks(low, high, most);
}

const SECONDS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];

// Whole seconds, minutes, hours and days; `offset` is what the clock on the wall is ahead of UTC.
export function timeTicks(low: number, high: number, most: number, offset = 0): number[] {
  const raw = (high - low) / Math.max(most, 1);
  if (raw < 1) return linearTicks(low, high, most);
  const step = SECONDS.find((seconds) => seconds >= raw) ?? SECONDS[SECONDS.length - 1]! * Math.ceil(raw / SECONDS[SECONDS.length - 1]!);
  return multiples(low + offset, high + offset, step).map((tick) => tick - offset);
}

const LETTER = 6.2;                   // of the font of axes, in pixels
const GAP = 10;

// As many marks as have room for their texts.
export function fitted<T extends { text: string }>(make: (most: number) => T[], most: number, pixels: number): T[] {
  for (let count = most; ; count--) {
    const ticks = make(count);
    const widest = Math.max(0, ...ticks.map(({ text }) => text.length * LETTER + GAP));
    if (count <= 1 || (ticks.length - 1) * widest <= pixels) return ticks;
  }
}

// Of texts from left to right, those that begin behind the one before.
export function apart(spans: readonly (readonly [number, number])[], gap: number): boolean[] {
  let end = -Infinity;
  return spans.map(([from, to]) => {
    const fits = from >= end + gap;
    if (fits) end = to;
    return fits;
  });
}

function multiples(low: number, high: number, step: number): number[] {
  const ticks: number[] = [];
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  for (let count = first; count <= last && ticks.length < 100; count++) ticks.push(Number((count * step).toPrecision(12)));
  return ticks;
}
