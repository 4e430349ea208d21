// A tensor of a running job: new steps join those that were loaded. Pure.
import type { Num } from "../../api";
import type { Histograms } from "./histograms";

export interface TensorData { name: string; shape: number[] | null; dtype: string; steps: number[]; figures: Record<string, Num[]>; histogram: Histograms | null }

const MOST_HISTOGRAMS = 120;
const MOST_STEPS = 6000;

// null: it has other figures than before, or so many steps that all are to be thinned anew.
export function growTensor(shown: TensorData, fresh: TensorData): TensorData | null {
  if (!fresh.steps.length) return shown;
  const names = Object.keys(shown.figures);
  const isSame = names.length === Object.keys(fresh.figures).length && names.every((name) => name in fresh.figures) && !shown.histogram === !fresh.histogram;
  const steps = [...shown.steps, ...fresh.steps];
  const histogram = shown.histogram && fresh.histogram && {
    steps: [...shown.histogram.steps, ...fresh.histogram.steps],
    edges: [...shown.histogram.edges, ...fresh.histogram.edges],
    counts: [...shown.histogram.counts, ...fresh.histogram.counts],
  };
  if (!isSame || steps.length > MOST_STEPS || (histogram?.steps.length ?? 0) > MOST_HISTOGRAMS) return null;
  return { ...fresh, steps, figures: Object.fromEntries(names.map((name) => [name, [...shown.figures[name]!, ...fresh.figures[name]!]])), histogram };
}
