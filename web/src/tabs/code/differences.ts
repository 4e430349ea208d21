// Differences of files as lines to show. Pure.

export interface Hunk { old: number; new: number; lines: [" " | "+" | "-", string][] }
export interface DifferentFile { path: string; status: "added" | "removed" | "changed"; hunks: Hunk[] }

export type Kind = "same" | "added" | "removed" | "gap" | "note";
export interface Row {
  kind: Kind; old: number | null; new: number | null; text: string;
  inner: [number, number] | null;      // the part of a changed line that differs
}

const MOST_COMPARED = 2000;

export function rowsOf(hunks: readonly Hunk[]): Row[] {
  const rows: Row[] = [];
  hunks.forEach((hunk, at) => {
    if (at > 0 || hunk.old > 1 || hunk.new > 1) rows.push({ kind: "gap", old: null, new: null, text: `lines ${hunk.old || hunk.new}…`, inner: null });
    let [old, next] = [hunk.old, hunk.new];
    for (const [sign, text] of hunk.lines) {
      if (sign === " ") rows.push({ kind: "same", old: old++, new: next++, text, inner: null });
      else if (sign === "-") rows.push({ kind: "removed", old: old++, new: null, text, inner: null });
      else rows.push({ kind: "added", old: null, new: next++, text, inner: null });
    }
  });
  markPairs(rows);
  return rows;
}

// Lines that were removed, followed by as many that were added: each pair shows where it differs.
function markPairs(rows: Row[]): void {
  for (let at = 0; at < rows.length; at++) {
    if (rows[at]!.kind !== "removed") continue;
    let removed = at;
    while (rows[removed]?.kind === "removed") removed++;
    let added = removed;
    while (rows[added]?.kind === "added") added++;
    if (removed - at === added - removed) {
      for (let pair = 0; pair < removed - at; pair++) {
        const [before, after] = [rows[at + pair]!, rows[removed + pair]!];
        [before.inner, after.inner] = innerDifference(before.text, after.text);
      }
    }
    at = Math.max(added, at + 1) - 1;
  }
}

// What is left of two lines without the beginning and the end that they share; null where that is most of them.
export function innerDifference(before: string, after: string): [[number, number] | null, [number, number] | null] {
  const shorter = Math.min(before.length, after.length);
  if (shorter > MOST_COMPARED) return [null, null];
  let start = 0;
  while (start < shorter && before[start] === after[start]) start++;
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  if (start + end < shorter * 0.3) return [null, null];
  return [start < before.length - end ? [start, before.length - end] : null, start < after.length - end ? [start, after.length - end] : null];
}

// The text of `git diff`.
export function rowsOfGit(text: string): Row[] {
  const rows: Row[] = [];
  let [old, next, isInside] = [0, 0, false];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (head) {
      [old, next, isInside] = [Number(head[1]), Number(head[2]), true];
      rows.push({ kind: "gap", old: null, new: null, text: line, inner: null });
    } else if (line.startsWith("diff ") || !isInside || line.startsWith("\\")) {
      if (line.startsWith("diff ")) isInside = false;
      rows.push({ kind: "note", old: null, new: null, text: line, inner: null });
    } else if (line.startsWith("-")) rows.push({ kind: "removed", old: old++, new: null, text: line.slice(1), inner: null });
    else if (line.startsWith("+")) rows.push({ kind: "added", old: null, new: next++, text: line.slice(1), inner: null });
    else rows.push({ kind: "same", old: old++, new: next++, text: line.slice(1), inner: null });
  }
  markPairs(rows);
  return rows;
}

export const counts = (rows: readonly Row[]): { added: number; removed: number } => ({
  added: rows.filter((row) => row.kind === "added").length, removed: rows.filter((row) => row.kind === "removed").length,
});
