// Scrolling over more lines than a browser has pixels. Pure.
// `top` is the place in the lines, in pixels from the first; `bar` is the scroll position of the element.

export const MOST_PIXELS = 8_000_000;   // browsers cut elements off at about twice as many

export interface Extent { count: number; lineHeight: number; height: number }

export const space = (extent: Extent): number => Math.min(extent.count * extent.lineHeight, MOST_PIXELS);
export const travel = (extent: Extent): number => Math.max(extent.count * extent.lineHeight - extent.height, 0);

export function toBar(extent: Extent, top: number): number {
  const all = travel(extent);
  return all ? (top / all) * Math.max(space(extent) - extent.height, 0) : 0;
}

export const isLong = (extent: Extent, way: number): boolean => Math.abs(way) > 1.5 * extent.height;

// After the element scrolled: short ways go pixel by pixel, so that no line is skipped; long ways (the
// scroll bar, Home, End) go to the same share of the whole.
export function moved(extent: Extent, top: number, before: number, after: number, long = isLong(extent, after - before)): number {
  const bars = space(extent) - extent.height;
  const all = travel(extent);
  if (bars <= 0) return 0;
  if (!long) return Math.min(Math.max(top + after - before, 0), all);
  return (Math.min(Math.max(after, 0), bars) / bars) * all;
}

// Lines in view, with a few more on both sides; `last` is not among them.
export function inView(extent: Extent, top: number, more = 8): { first: number; last: number } {
  const first = Math.max(0, Math.floor(top / extent.lineHeight) - more);
  return { first, last: Math.min(extent.count, Math.ceil((top + extent.height) / extent.lineHeight) + more) };
}

// Where lines are wrapped their heights are not known. The line at the same share of the lines as the place has
// of the way is put at this share of the view: so the first line begins at the top, and the last ends at the bottom.
export function anchor(extent: Extent, top: number): { line: number; part: number; y: number } {
  const all = travel(extent);
  const share = all ? top / all : 0;
  const place = share * extent.count;
  const line = Math.min(Math.floor(place), Math.max(extent.count - 1, 0));
  return { line, part: place - line, y: share * extent.height };
}
