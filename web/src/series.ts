// Curves of jobs: which there are, and their points. Requests of one moment become one.
import type { Curve } from "./api";
import { ApiError, getJson, part, postFrame, postFrames } from "./client";
import type { FrameItem } from "./frames";

export interface SeriesItem { job: string; id: string; total: number; thinned: boolean; first: number; last: number; error?: string }
export type Series = FrameItem<SeriesItem>;
export interface GroupItem { key: string; total: number; thinned: boolean; curves: number; errors: string[] }
export interface CurveKey { job: string; id: string }
export interface CurveGroup { key: string; curves: CurveKey[] }
// `points` is the number of columns: each keeps its first, least, greatest and last point.
export interface View { x: string; from?: number; to?: number; points: number }

const MOST_AT_ONCE = 1000;      // curves of one request
const MOST_KEPT = 1000;

interface Waiting { key: CurveKey; take: (series: Series) => void; fail: (error: unknown) => void; signal?: AbortSignal }

const waiting = new Map<string, { view: View; all: Waiting[] }>();
const kept = new Map<string, Series>();
let timer: ReturnType<typeof setTimeout> | undefined;

export async function loadCurves(job: string, signal?: AbortSignal): Promise<Curve[]> {
  return (await getJson<{ curves: Curve[] }>(`jobs/${part(job)}/curves`, {}, signal)).curves;
}

export function loadGroups(groups: CurveGroup[], view: View, signal?: AbortSignal): Promise<FrameItem<GroupItem>[]> {
  return postFrame<GroupItem>("groups", { groups, ...view }, signal);
}

// `final`: the curve does not grow any more, so what was loaded once is kept.
export function loadSeries(key: CurveKey, view: View, options: { final?: boolean; signal?: AbortSignal } = {}): Promise<Series> {
  const name = JSON.stringify([key.job, key.id, view.x, view.from, view.to, view.points]);
  const known = kept.get(name);
  if (known && options.final) return Promise.resolve(known);
  return new Promise<Series>((resolve, reject) => {
    const keep = (series: Series): void => {
      if (options.final && !series.error) remember(name, series);
      resolve(series);
    };
    const batch = JSON.stringify(view);
    const queue = waiting.get(batch) ?? { view, all: [] };
    queue.all.push({ key, take: keep, fail: reject, signal: options.signal });
    waiting.set(batch, queue);
    timer ??= setTimeout(flush, 0);
  });
}

function flush(): void {
  timer = undefined;
  const queues = [...waiting.values()];
  waiting.clear();
  for (const { view, all } of queues) {
    const wanted = all.filter((each) => !each.signal?.aborted);
    for (const each of all) if (each.signal?.aborted) each.fail(each.signal.reason);
    for (let at = 0; at < wanted.length; at += MOST_AT_ONCE) void send(view, wanted.slice(at, at + MOST_AT_ONCE));
  }
}

async function send(view: View, wanted: Waiting[]): Promise<void> {
  const aborter = new AbortController();
  let left = wanted.length;
  for (const each of wanted) each.signal?.addEventListener("abort", () => { if (--left === 0) aborter.abort(); });
  const unique = [...new Map(wanted.map(({ key }) => [nameOf(key), key])).values()];
  try {
    await postFrames<SeriesItem>("series", { curves: unique, ...view }, (items) => {
      const found = new Map(items.map((item) => [nameOf(item), item]));
      for (const each of wanted) {
        const item = found.get(nameOf(each.key));
        if (item) each.take(item);
      }
    }, aborter.signal);
    // Of one that has been taken, this is without effect.
    for (const each of wanted) each.fail(new ApiError(0, "missing", "The server sent no such curve.", "", null));
  } catch (error) {
    for (const each of wanted) each.fail(error);
  }
}

function remember(name: string, series: Series): void {
  kept.set(name, series);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value!);
}

const nameOf = (key: CurveKey): string => `${key.job}\n${key.id}`;
