// Pages of a long list that cover a range of rows. Pure.

export const PAGE = 60;

export function pagesOf(first: number, last: number): number[] {
  const pages: number[] = [];
  for (let page = Math.floor(Math.max(0, first) / PAGE); page * PAGE < Math.max(last, 1); page++) pages.push(page);
  return pages;
}

const MOST = 1000;                    // rows in one answer of the server

// First rows and counts of the requests that cover a range.
export function partsOf(first: number, last: number): [number, number][] {
  const parts: [number, number][] = [];
  for (let start = first; start < last; start += MOST) parts.push([start, Math.min(MOST, last - start)]);
  return parts;
}
