// A comparison that arrives job by job: what is known of it so far. Pure but for the request.
import type { Compare, ComparedPart, ComparedRest } from "./api";
import { postJson, postLines } from "./client";

// Jobs have their places from the start; of those that are not read yet, names are all that is known.
export interface Comparison extends Compare {
  read: number;          // jobs
  whole: boolean;        // all are read, and what differs is known
}
export interface Asked { jobs: string[]; at_step?: number }

const MOST_METRICS = 2000;
const SHOW_MS = 250;     // between two drawings of what has arrived, …
const SHOW_EACH_MS = 20; // … and more for each curve that is drawn again, …
const SHOW_MOST_MS = 3000;
const DRAW_MS = 300;     // for the last of them

type Metric = Compare["metrics"][number];
type Figure = "last" | "best" | "min" | "max" | "at";
const FIGURES: readonly Figure[] = ["last", "best", "min", "max", "at"];   // in the order of the API

// Metrics are in the order of the first job that has each, in whatever order jobs arrive.
export function joinParts(names: readonly string[], parts: readonly (ComparedPart | undefined)[], rest?: ComparedRest): Comparison {
  const metrics = new Map<string, Metric>();
  const none = (): null[] => names.map(() => null);
  parts.forEach((part, at) => part?.curves.forEach(([name, id, more, ...figures]) => {
    let metric = metrics.get(name);
    if (!metric && metrics.size >= MOST_METRICS) return;
    if (!metric) metrics.set(name, metric = { name, more_is_better: more, last: none(), best: none(), min: none(), max: none(), at: none(), ids: none() });
    metric.ids[at] = id;
    FIGURES.forEach((figure, number) => (metric[figure][at] = figures[number]!));
  }));
  const read = parts.filter(Boolean).length;
  const jobs = names.map((name, at) => parts[at]?.job ?? { name, shown: name, status: "", seconds: null });
  return { jobs, same: rest?.same ?? 0, rows: rest?.rows ?? [], metrics: [...metrics.values()], read, whole: !!rest && read === names.length };
}

const pause = (parts: readonly unknown[]): number => Math.min(SHOW_MS + SHOW_EACH_MS * parts.filter(Boolean).length, SHOW_MOST_MS);

export interface Known { parts: ReadonlyMap<string, ComparedPart>; rest?: ComparedRest; step?: number }

// `show` gets what has arrived: at once, now and then, and when all jobs are read. What was read of a job before stays
// until it is read again; values at another step replace the old ones when all are there. What differs is asked for last, so that curves
// do not wait for it, unless it is `hurried`.
export async function loadComparison(asked: Asked, hurried: boolean, before: Known, show: (found: Comparison) => void, signal: AbortSignal): Promise<Known & { found: Comparison }> {
  const isSameStep = before.step === asked.at_step;
  const areSameJobs = before.parts.size === asked.jobs.length && asked.jobs.every((name) => before.parts.has(name));
  const parts = asked.jobs.map((name) => (isSameStep ? before.parts.get(name) : undefined));
  let rest = areSameJobs ? before.rest : undefined;
  let left = asked.jobs.length;
  let shownAt = -Infinity;
  const showSome = (now: boolean): void => {
    if (signal.aborted || (areSameJobs && !isSameStep) || (!now && performance.now() - shownAt < pause(parts))) return;
    shownAt = performance.now();
    show(joinParts(asked.jobs, parts, rest));
  };
  const differences = (): Promise<ComparedRest> => postJson<ComparedRest>("compare/differences", { jobs: asked.jobs }, signal);
  if (!rest) show(joinParts(asked.jobs, parts));
  const early = hurried ? differences() : null;
  early?.catch(() => undefined);   // what fails first is told
  await postLines<ComparedPart>("compare", { ...asked, stream: true }, (entries) => {
    for (const entry of entries) parts[entry.at] = entry;
    left -= entries.length;
    showSome(left === 0);
  }, signal);
  if (left > 0) throw new Error("The response is cut off: not all jobs are in it.");
  if (!early) await new Promise((later) => setTimeout(later, DRAW_MS));
  rest = await (early ?? differences());
  return { found: joinParts(asked.jobs, parts, rest), parts: new Map(asked.jobs.map((name, at) => [name, parts[at]!])), rest, step: asked.at_step };
}
