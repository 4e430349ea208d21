// Histograms of one tensor at several steps as a picture of ridges. Pure.

export interface Histograms { steps: number[]; edges: number[][]; counts: number[][] }
export interface Ridge { step: number; points: [number, number][] }   // x in 0…1, height in 0…1

// At most `most` steps, evenly spread, first and last among them.
export function chosenSteps(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, at) => at);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

export function valueRange(histograms: Histograms): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const edges of histograms.edges) {
    if (!edges.length) continue;
    low = Math.min(low, edges[0]!);
    high = Math.max(high, edges[edges.length - 1]!);
  }
  if (!(low <= high)) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

// Heights are densities: bins of different widths compare.
export function ridges(histograms: Histograms, most: number): Ridge[] {
  const [low, high] = valueRange(histograms);
  const made = chosenSteps(histograms.steps.length, most).map((at) => {
    const edges = histograms.edges[at]!;
    const counts = histograms.counts[at]!;
    const points: [number, number][] = [];
    for (let bin = 0; bin < counts.length; bin++) {
      const wide = Math.max(edges[bin + 1]! - edges[bin]!, (high - low) * 1e-3);
      const height = counts[bin]! / wide;
      points.push([(edges[bin]! - low) / (high - low), height], [(edges[bin + 1]! - low) / (high - low), height]);
    }
    return { step: histograms.steps[at]!, points };
  });
  const highest = Math.max(...made.flatMap((ridge) => ridge.points.map(([, height]) => height)), 1e-300);
  for (const ridge of made) ridge.points = ridge.points.map(([x, height]) => [x, Math.sqrt(height / highest)]);
  return made;
}
