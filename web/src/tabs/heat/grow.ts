// New columns of a heat map whose job runs, behind those that are shown. Pure.
import { type HeatData, weights } from "./cells";

// Columns have one width, in steps; one without a saved step of its own shows the one before it. Several steps of one column are joined as the server joins them: no extreme is lost.
// Both have the same scale. Null: the map has to be loaded anew, as its rows have changed or it would get more columns than wanted.
export function growHeat(shown: HeatData, fresh: HeatData, most: number): HeatData | null {
  const [before, rows] = [shown.starts.length, shown.names.length];
  if (before < 2 || !fresh.steps.length || fresh.names.join("\n") !== shown.names.join("\n")) return null;
  const [base, width] = [shown.starts[0]!, shown.starts[1]! - shown.starts[0]!];
  const columnOf = (step: number): number => Math.floor((step - base) / width);
  const total = Math.max(before, columnOf(fresh.steps[fresh.steps.length - 1]!) + 1);
  if (!(width > 0) || total > most) return null;
  const starts = Float64Array.from({ length: total }, (_, column) => base + column * width);
  const steps = new Float64Array(total);
  const cells = new Uint8Array(rows * total);
  steps.set(shown.steps);
  for (let row = 0; row < rows; row++) cells.set(shown.cells.subarray(row * before, (row + 1) * before), row * total);
  const weight = weights(shown.diverging);
  let filled = before;                  // columns that have something to show
  const fill = (end: number): void => {
    for (; filled < end; filled++) {
      steps[filled] = steps[filled - 1]!;
      for (let row = 0; row < rows; row++) cells[row * total + filled] = cells[row * total + filled - 1]!;
    }
  };
  for (let at = 0; at < fresh.steps.length; at++) {
    const step = fresh.steps[at]!;
    if (step <= steps[filled - 1]!) continue;          // shown already, or the same column again
    const column = columnOf(step);
    const isFirst = steps[Math.min(column, filled - 1)]! < starts[column]!;
    fill(column + 1);
    if (isFirst) steps[column] = step;
    for (let row = 0; row < rows; row++) {
      const [place, cell] = [row * total + column, fresh.cells[row * fresh.starts.length + at]!];
      if (isFirst || weight[cell]! > weight[cells[place]!]!) cells[place] = cell;
    }
  }
  return { ...shown, cells, starts, steps };
}
