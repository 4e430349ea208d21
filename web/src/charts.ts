// Which charts there are, in which groups, and where each card is. Pure.
import type { Curve } from "./api";
import { coloursOf, PALETTE } from "./colours";

export interface Member {
  job: string;
  id: string;
  label: string;
  colour: string;
  dashed?: boolean;
  final: boolean;          // its job has ended
}
export interface ChartSpec {
  key: string;             // stays the same when curves are added
  title: string;
  group: string;
  unit: string;
  members: Member[];
  names?: string[];        // as the curves were logged: searched, too
  groups?: { key: string; label: string; colour: string; members: Member[] }[];   // drawn as mean and spread
}

const PHASES: Record<string, string> = { "": PALETTE[0], train: PALETTE[0], val: PALETTE[1], test: PALETTE[2] };

// Curves of one job: train and validation of one metric share a chart. Vitals of training and of evaluation batches
// are kept apart: a figure of one says nothing about the other.
export function chartsOf(job: string, curves: readonly Curve[], options: { final: boolean }): ChartSpec[] {
  const charts = new Map<string, Curve[]>();
  for (const curve of curves) {
    if (curve.same_as) continue;
    const key = curve.kind === "vital" ? `${curve.phase}|${curve.chart}` : curve.chart;
    charts.set(key, [...(charts.get(key) ?? []), curve]);
  }
  return [...charts].map(([key, members]) => {
    const first = members[0]!;
    // A name that several curves share leaves their differences out; one curve is called as it was logged.
    const title = first.kind === "vital" ? vitalTitle(first) : members.length === 1 ? first.name : first.chart;
    const group = first.kind === "vital" ? vitalGroup(first, title) : groupOf(title);
    return { key, title, group, unit: first.unit, members: membersOf(job, members, options.final), names: members.map((curve) => curve.name) };
  });
}

// "TRAIN/vitals/activation/layers.3/std" is "activation/layers.3/std"
const vitalTitle = (curve: Curve): string => curve.name.replace(/^(TRAIN|EVAL|PREDICT|GLOBAL)\//, "").replace(/^vitals\//, "").replace(/_(TRAIN|EVAL|PREDICT)$/, "");

const BATCHES: Record<string, string> = { val: "Evaluation", test: "Test" };

function vitalGroup(curve: Curve, title: string): string {
  const cut = title.indexOf("/");
  const batches = BATCHES[curve.phase] ?? "Training";
  return cut < 0 ? batches : `${batches}: ${title.slice(0, cut).replaceAll("_", " ")}`;
}

export function groupOf(title: string): string {
  const cut = title.lastIndexOf("/");
  return cut < 0 ? "" : title.slice(0, cut);
}

function membersOf(job: string, curves: Curve[], final: boolean): Member[] {
  const byPhase = new Set(curves.map((curve) => curve.phase)).size === curves.length;
  const colours = byPhase ? null : coloursOf(curves.map((curve) => curve.name + curve.host));
  return curves.map((curve) => ({
    job, id: curve.id, final,
    label: byPhase && curve.phase && curves.length > 1 ? curve.phase : curve.host && !byPhase ? curve.host : curve.name,
    colour: colours ? colours.get(curve.name + curve.host)! : PHASES[curve.phase] ?? PALETTE[0],
  }));
}

export interface Group { name: string; charts: ChartSpec[] }

const FEW = 9;

// Charts without a prefix first, then groups in the order in which they were logged. A few charts need no groups.
// What belongs to the whole training comes before its parts.
const rankOf = (group: string): number => (group === "" ? 0 : group.includes(": ") ? 2 : 1);

export function groupsOf(charts: readonly ChartSpec[], few: number = FEW): Group[] {
  if (charts.length <= few) return [{ name: "", charts: [...charts] }];
  const groups = new Map<string, ChartSpec[]>();
  for (const chart of charts) groups.set(chart.group, [...(groups.get(chart.group) ?? []), chart]);
  return [...groups].map(([name, members]) => ({ name, charts: members })).sort((a, b) => rankOf(a.name) - rankOf(b.name));
}

// A regular expression, or, where it is none, a part of the name.
export function matcher(text: string): (name: string) => boolean {
  if (!text) return () => true;
  try {
    const expression = new RegExp(text, "i");
    return (name) => expression.test(name);
  } catch {
    const lower = text.toLowerCase();
    return (name) => name.toLowerCase().includes(lower);
  }
}

export interface Placed { key: string; kind: "group" | "chart"; top: number; left: number; width: number; height: number }
export interface Layout { items: Placed[]; height: number; columns: number }

export const CARD_HEIGHT = 232;
export const WIDE_HEIGHT = 460;
const HEAD_HEIGHT = 34;
const GAP = 12;
const CARD_WIDTH = 340;

// Places of group headings and cards, from top to bottom; cards that are wide have a row of their own.
export function layoutOf(groups: readonly Group[], width: number, folded: ReadonlySet<string>, wide: ReadonlySet<string>): Layout {
  const columns = Math.max(1, Math.min(6, Math.floor((width + GAP) / (CARD_WIDTH + GAP))));
  const cell = (width - (columns - 1) * GAP) / columns;
  const items: Placed[] = [];
  let top = 0;
  for (const group of groups) {
    const isAlone = groups.length === 1 && !group.name;
    if (!isAlone) {
      items.push({ key: group.name, kind: "group", top, left: 0, width, height: HEAD_HEIGHT });
      top += HEAD_HEIGHT;
    }
    if (!isAlone && folded.has(group.name)) continue;
    let column = 0;
    for (const chart of group.charts) {
      const isWide = wide.has(chart.key);
      if (isWide && column) {
        top += CARD_HEIGHT + GAP;
        column = 0;
      }
      items.push({ key: chart.key, kind: "chart", top, left: column * (cell + GAP), width: isWide ? width : cell, height: isWide ? WIDE_HEIGHT : CARD_HEIGHT });
      column = isWide ? 0 : (column + 1) % columns;
      if (!column) top += (isWide ? WIDE_HEIGHT : CARD_HEIGHT) + GAP;
    }
    if (column) top += CARD_HEIGHT + GAP;
  }
  return { items, height: top, columns };
}

export function visibleItems(layout: Layout, from: number, to: number): Placed[] {
  return layout.items.filter((item) => item.top + item.height > from && item.top < to);
}
