// Rows of a long list, loaded in pages as they come into view.
import { createEffect, createSignal, on, onCleanup } from "solid-js";
import type { JobList, JobRow } from "./api";
import { ApiError } from "./client";
import { PAGE, pagesOf, partsOf } from "./pages";

export interface Rows {
  head: () => Omit<JobList, "rows"> | undefined;
  row: (index: number) => JobRow | undefined;
  named: (name: string) => JobRow | undefined;
  error: () => ApiError | null;
  show: (first: number, last: number) => void;
  refresh: () => void;
  patch: (changed: JobRow[]) => boolean;      // false: some of them are not among the loaded rows
  range: (first: number, last: number) => Promise<JobRow[]>;
}

// `load` fetches rows of the list that `key` names; a change of the key starts a new list, and the old one
// stays until its first rows are there.
export function createRows<K>(key: () => K, load: (key: K, offset: number, limit: number, signal: AbortSignal) => Promise<JobList>): Rows {
  const [head, setHead] = createSignal<Omit<JobList, "rows"> | undefined>(undefined);
  const [pages, setPages] = createSignal(new Map<number, JobRow[]>(), { equals: false });
  const [error, setError] = createSignal<ApiError | null>(null);
  let visible: [number, number] = [0, PAGE];
  let aborter = new AbortController();
  const asked = new Set<number>();

  const fetchPages = async (wanted: number[], fresh: boolean): Promise<void> => {
    const missing = wanted.filter((page) => fresh || !asked.has(page));
    if (!missing.length) return;
    for (const page of missing) asked.add(page);
    const { signal } = aborter;
    try {
      const first = missing[0]!;
      const loaded = await load(key(), first * PAGE, (missing[missing.length - 1]! - first + 1) * PAGE, signal);
      if (signal.aborted) return;
      const known = fresh ? new Map<number, JobRow[]>() : pages();
      for (let page = first; page <= missing[missing.length - 1]!; page++) known.set(page, loaded.rows.slice((page - first) * PAGE, (page - first + 1) * PAGE));
      if (fresh) {
        asked.clear();
        for (const page of known.keys()) asked.add(page);
      }
      setPages(known);
      setHead(loaded);
      setError(null);
    } catch (failure) {
      if (signal.aborted) return;
      for (const page of missing) asked.delete(page);
      setError(failure instanceof ApiError ? failure : new ApiError(0, "page", String(failure), "", null));
    }
  };
  const restart = (): void => {
    aborter.abort();
    aborter = new AbortController();
    asked.clear();
    void fetchPages(pagesOf(...visible), true);
  };
  createEffect(on(key, restart));
  onCleanup(() => aborter.abort());

  const row = (index: number): JobRow | undefined => pages().get(Math.floor(index / PAGE))?.[index % PAGE];
  const named = (name: string): JobRow | undefined => {
    for (const page of pages().values()) for (const each of page) if (each.name === name) return each;
    return undefined;
  };
  return {
    head, row, named, error,
    show: (first, last) => {
      visible = [first, last];
      void fetchPages(pagesOf(first, last), false);
    },
    refresh: restart,
    patch: (changed) => {
      const fresh = new Map(changed.map((each) => [each.name, each]));
      const known = pages();
      for (const [page, rows] of known) {
        if (!rows.some((each) => fresh.has(each.name))) continue;
        known.set(page, rows.map((each) => {
          const next = fresh.get(each.name);
          fresh.delete(each.name);
          return next ? { ...next, values: { ...each.values, ...next.values } } : each;
        }));
      }
      setPages(known);
      return fresh.size === 0;
    },
    range: async (first, last) => {
      const found: JobRow[] = [];
      for (const [start, count] of partsOf(first, last)) found.push(...(await load(key(), start, count, new AbortController().signal)).rows);
      return found;
    },
  };
}
