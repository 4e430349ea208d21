// Nested values of a small tensor as a table: the last dimension across, all others down. Pure.
import type { Num } from "../../api";

export type Cells = Num | Cells[];    // a tensor of texts has texts
export interface ValueRow { label: string; cells: Num[] }

const WORDS = ["NaN", "Infinity", "-Infinity"];

export const isText = (cell: Num): boolean => typeof cell === "string" && !WORDS.includes(cell);
export const isBroken = (cell: Num): boolean => typeof cell === "string" && WORDS.includes(cell);

const MOST_ROWS = 256;
const MOST_ACROSS = 64;

export function tableOf(values: Cells): { rows: ValueRow[]; cut: boolean } {
  const rows: ValueRow[] = [];
  let cut = false;
  const visit = (cells: Cells, index: number[]): void => {
    if (rows.length >= MOST_ROWS) {
      cut = true;
      return;
    }
    if (!Array.isArray(cells)) rows.push({ label: "", cells: [cells] });
    else if (!Array.isArray(cells[0])) {
      cut ||= cells.length > MOST_ACROSS && index.length > 0;
      if (index.length || cells.length <= MOST_ACROSS) rows.push({ label: `[${index.join(", ")}${index.length ? ", " : ""}:]`, cells: cells.slice(0, MOST_ACROSS) as Num[] });
      else for (let at = 0; at < cells.length && rows.length < MOST_ROWS; at += 16) rows.push({ label: `[${at}]`, cells: cells.slice(at, at + 16) as Num[] });
    } else cells.forEach((each, at) => visit(each, [...index, at]));
  };
  visit(values, []);
  return { rows, cut };
}
