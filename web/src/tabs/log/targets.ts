// What people type to go to a place of a log, and what they search for. Pure.

export interface Target { line?: string; at?: string }

// "812", "812-840", "step 300", "14:02", "14:02:07.5", "2026-11-17 14:02:07"; null if it is none of them.
// A time without a date is the first one after the job began.
export function parseTarget(text: string, began: number): Target | null {
  const typed = text.trim();
  const line = /^(?:lines?\s*|#)?([\d,]+(?:\s*-\s*[\d,]+)?)$/i.exec(typed);
  if (line) return { line: line[1]!.replace(/[,\s]/g, "") };
  const step = /^s(?:tep)?\s*([\d,]+)$/i.exec(typed);
  if (step) return { at: `step:${step[1]!.replaceAll(",", "")}` };
  const clock = /^(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?$/.exec(typed);
  if (clock) {
    const moment = new Date(began * 1000);
    moment.setHours(Number(clock[1]), Number(clock[2]), 0, 0);
    let time = moment.getTime() / 1000 + Number(clock[3] ?? 0);
    if (time < Math.floor(began / 60) * 60) time += 86400;
    return { at: `time:${time}` };
  }
  if (/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d/.test(typed)) {
    const time = Date.parse(typed.replace(" ", "T")) / 1000;
    return Number.isFinite(time) ? { at: `time:${time}` } : null;
  }
  return null;
}

// "812" or "812-840", as in the address.
export function parseLines(text: string): [number, number] | null {
  const found = /^(\d+)(?:-(\d+))?$/.exec(text);
  if (!found) return null;
  const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
  return first >= 1 ? [Math.min(first, last), Math.max(first, last)] : null;
}

export interface Marker { pattern: RegExp; most: number }   // most: characters of a line that is looked at

// The server searches; the page only marks what it found, and only by patterns that cannot take long in the
// browser: no repeated groups, few repetitions. Python's and JavaScript's patterns differ in rare cases; then nothing is marked.
export function marker(pattern: string): Marker | null {
  const ignoresCase = pattern.startsWith("(?i)");
  const source = ignoresCase ? pattern.slice(4) : pattern;
  const bare = source.replace(/\\./g, "").replace(/\[[^\]]*\]/g, "c");
  const repeats = (bare.match(/[*+?{]/g) ?? []).length;
  if (!source || /\)[*+?{]/.test(bare) || repeats > 2 || (bare.match(/\(/g) ?? []).length > 3) return null;
  try {
    return { pattern: new RegExp(source, ignoresCase ? "gi" : "g"), most: repeats > 1 ? 300 : 2000 };
  } catch {
    return null;
  }
}

const MOST_MARKS = 50;

export function matches(text: string, marker: Marker | null): [number, number][] {
  const found: [number, number][] = [];
  if (!marker || text.length > marker.most) return found;
  for (const match of text.matchAll(marker.pattern)) {
    if (match[0]) found.push([match.index, match.index + match[0].length]);
    if (found.length >= MOST_MARKS) break;
  }
  return found;
}

// Cuts pieces of text where marks begin and end, so that a mark may cover pieces of several colours.
export function cutAt<T extends { text: string }>(pieces: readonly T[], marks: readonly [number, number][]): (T & { marked: boolean })[] {
  const cut: (T & { marked: boolean })[] = [];
  let at = 0;
  for (const piece of pieces) {
    const end = at + piece.text.length;
    let from = at;
    for (const [start, stop] of marks) {
      if (stop <= from || start >= end) continue;
      if (start > from) cut.push({ ...piece, text: piece.text.slice(from - at, start - at), marked: false });
      const begin = Math.max(start, from);
      const last = Math.min(stop, end);
      cut.push({ ...piece, text: piece.text.slice(begin - at, last - at), marked: true });
      from = last;
    }
    if (from < end) cut.push({ ...piece, text: piece.text.slice(from - at), marked: false });
    at = end;
  }
  return cut;
}
