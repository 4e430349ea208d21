// Pages of a long list that cover a range of rows. Pure.

export const PAGE = 60;

export function pagesOf(first: number, last: number): number[] {
  const pages: number[] = [];
  for (let page = Math.floor(Math.max(0, first) / PAGE); page * PAGE < Math.max(last, 1); page++) pages.push(page);
  return pages;
}
