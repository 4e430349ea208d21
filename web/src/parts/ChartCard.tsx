// One chart of a wall: loads what is in view, follows a running job, and can be pinned, widened and saved.
import { createEffect, createMemo, createSignal, For, type JSX, on, onCleanup, Show } from "solid-js";
import type { ChartSpec, Member } from "../charts";
import { ApiError, getText, part } from "../client";
import { joinCsv } from "../csv";
import { download, downloadPicture } from "../download";
import { formatNumber, toNumber } from "../format";
import { createLive, type LivePoints } from "../live";
import { formatList } from "../location";
import { joinPoints } from "../points";
import { loadGroups, loadSeries, type Series, type View } from "../series";
import { smooth } from "../smoothing";
import { throttle } from "../throttle";
import { colour } from "../theme";
import { Chart, type Line, type Mark, type XKind } from "./Chart";
import { attempt } from "./Toast";

// How all charts of a wall are shown; in the address.
export interface Look {
  x: string;                          // step, time, relative, or curve:ID
  smooth: number;
  log: boolean;
  all: boolean;                       // outliers too
  zoom: [number, number] | null;
}

export interface ChartCardProps {
  chart: ChartSpec;
  look: Look;
  marks?: Mark[];
  height: number;
  cursor: string;
  onZoom: (range: [number, number] | null) => void;
  pinned?: boolean;
  onPin?: () => void;
  wide?: boolean;
  onWide?: () => void;
  onPick?: (line: string) => void;
  legend?: boolean;                   // names of the lines; a wall of one job needs them only where there are several
}

interface Loaded { series: Map<string, Series>; groups: Line[] }

const REFRESH_MS = 3000;
const GROUPS_MS = 10_000;             // a mean is made anew of all points
const MOST_NEW = 4000;
const MOST_LIVE = 300;                // curves of a chart

export const xKindOf = (x: string): XKind => (x === "step" || x === "time" || x === "relative" ? x : "value");
const nameOf = (member: { job: string; id: string }): string => `${member.job}\n${member.id}`;

export function ChartCard(props: ChartCardProps): JSX.Element {
  let canvas: HTMLCanvasElement | undefined;
  const [loaded, setLoaded] = createSignal<Loaded | null>(null, { equals: false });
  const [failure, setFailure] = createSignal("");
  const [points, setPoints] = createSignal(0);
  const [turn, setTurn] = createSignal(0);
  const news = new Map<string, { x: number[]; y: number[] }>();
  const view = createMemo((): View | null => {
    if (!points()) return null;
    const zoom = props.look.zoom;
    return zoom ? { x: props.look.x, from: zoom[0], to: zoom[1], points: points() } : { x: props.look.x, points: points() };
  }, undefined, { equals: (a, b) => JSON.stringify(a) === JSON.stringify(b) });
  const signature = createMemo(() => JSON.stringify([props.chart.members.map(nameOf), props.chart.groups?.map((group) => [group.key, group.members.map(nameOf)])]));

  // The view that is loaded, and of what: curves that are added later are loaded beside those that are on their way.
  let current: { view: View; turn: number; next: Loaded; asked: Set<string>; aborter: AbortController } | undefined;
  onCleanup(() => current?.aborter.abort());
  const settle = (load: NonNullable<typeof current>): void => {
    if (load.aborter.signal.aborted) return;
    setFailure("");
    setLoaded(load.next);
  };
  const loadGroupLines = async (load: NonNullable<typeof current>, groups: NonNullable<ChartSpec["groups"]>): Promise<void> => {
    const items = await loadGroups(groups.map((group) => ({ key: group.key, curves: group.members })), load.view, load.aborter.signal);
    load.next.groups = items.map((item) => {
      const group = groups.find((each) => each.key === item.key);
      return { key: item.key, label: group?.label ?? item.key, colour: group?.colour ?? "", x: item.arrays.x!, y: item.arrays.mean!, low: item.arrays.low!, high: item.arrays.high! };
    });
    settle(load);
  };
  let planned = 0;
  const loadMembers = async (load: NonNullable<typeof current>): Promise<void> => {
    const wanted = props.chart.members.filter((member) => !load.asked.has(nameOf(member)));
    await Promise.all(wanted.map(async (member) => {
      load.asked.add(nameOf(member));
      const series = await loadSeries(member, load.view, { final: member.final, signal: load.aborter.signal });
      if (load.aborter.signal.aborted) return;
      load.next.series.set(nameOf(member), series);
      news.delete(nameOf(member));
      // Of many curves the first are shown at once, the others as they arrive; not each with a drawing of its own.
      planned ||= requestAnimationFrame(() => {
        planned = 0;
        if (current) settle(current);
      });
    }));
  };
  createEffect(on([view, signature, turn], ([shown, , turned]) => {
    if (!shown) return;
    const groups = props.chart.groups;
    if (!current || groups || current.next.groups.length || current.view !== shown || current.turn !== turned) {
      current?.aborter.abort();
      // While a view is loaded again, what was there stays until its successor has come.
      const series = new Map(current?.view === shown && !groups ? current.next.series : []);
      current = { view: shown, turn: turned, next: { series, groups: [] }, asked: new Set(), aborter: new AbortController() };
    }
    const load = current;
    (groups ? loadGroupLines(load, groups) : loadMembers(load)).catch((error: unknown) => {
      if (!load.aborter.signal.aborted) setFailure(error instanceof ApiError ? `${error.message} ${error.advice}` : String(error));
    });
  }));

  const running = createMemo(() => props.chart.members.filter((member) => !member.final), undefined, { equals: (a, b) => a.map(nameOf).join() === b.map(nameOf).join() });
  const refresh = throttle(() => setTurn((count) => count + 1), REFRESH_MS);
  const refreshGroups = throttle(() => setTurn((count) => count + 1), GROUPS_MS);
  createLive(() => (running().length ? { curves: formatList(running().slice(0, MOST_LIVE).map((member) => `${member.job}:${member.id}`)) } : null), {
    points: (event) => (props.chart.groups ? isMine(event) && refreshGroups() : add(event)),
    open: () => refresh(),              // what came between the request and the connection
  });
  const isMine = (event: LivePoints): boolean => event.items.some((item) => props.chart.members.some((member) => member.id === item.id && member.job === item.job));
  const add = (event: LivePoints): void => {
    let mine = false;
    let many = false;
    for (const item of event.items) {
      if (!props.chart.members.some((member) => member.id === item.id && member.job === item.job)) continue;
      mine = true;
      const known = news.get(nameOf(item)) ?? { x: [], y: [] };
      if (item.replace) many = true;       // a resumed script wrote steps again: what is drawn is no longer true
      known.x.push(...(props.look.x === "time" ? item.t : item.x));
      known.y.push(...item.y.map(toNumber));
      news.set(nameOf(item), known);
      many ||= known.x.length > MOST_NEW;
    }
    if (!mine) return;
    if (many || (props.look.x !== "step" && props.look.x !== "time")) refresh();
    else setLoaded((before) => before);
  };

  const lines = createMemo((): Line[] => {
    const has = loaded();
    if (!has) return [];
    if (props.chart.groups) return has.groups;
    return props.chart.members.flatMap((member) => {
      const series = has.series.get(nameOf(member));
      return series ? linesOf(member, series, news.get(nameOf(member)), props.look) : [];
    });
  });
  const empty = (): boolean => !!loaded() && lines().every((line) => !line.x.length);
  const label = (): string => {
    const parts = lines().filter((line) => !line.faint).slice(0, 4).map((line) => `${line.label}: last ${formatNumber(line.y[line.y.length - 1] ?? NaN)}`);
    return `${props.chart.title}. ${parts.join(", ")}${props.marks?.length ? `. Findings: ${props.marks.map((mark) => mark.label).join("; ")}` : ""}`;
  };
  const legend = (): { label: string; colour: string }[] => props.chart.groups ?? props.chart.members;
  const saveCsv = (): Promise<boolean> => attempt(async () => {
    // Every point, whatever is shown.
    const texts = await Promise.all(props.chart.members.map(async (member) => ({ label: member.label, text: await getText(`jobs/${part(member.job)}/curve.csv`, { id: member.id }) })));
    download(`${props.chart.title}.csv`, new Blob([joinCsv(texts)], { type: "text/csv" }));
  });
  const savePicture = (): void => {
    if (canvas) downloadPicture(props.chart.title, canvas, props.chart.title, legend().slice(0, 20), { background: colour("surface"), text: colour("text") });
  };
  return (
    <div class="card chart-card" role="group" aria-label={props.chart.title}>
      <header class="card-head">
        <h3 class="cut" title={props.chart.title}>{props.chart.title}<Show when={props.chart.unit}><span class="muted"> {props.chart.unit}</span></Show></h3>
        <Show when={props.legend !== false && legend().length > 1 && legend().length <= 4}><span class="legend"><For each={legend()}>{(each) => <span><i class="swatch" style={{ background: each.colour }} />{each.label}</span>}</For></span></Show>
        <div class="card-actions">
          <Show when={props.onPin}><button type="button" class="quiet small" aria-pressed={!!props.pinned} aria-label={`Pin ${props.chart.title}`} title="Pin: keep it at the top" onClick={() => props.onPin!()}>{props.pinned ? "★" : "☆"}</button></Show>
          <Show when={props.onWide}><button type="button" class="quiet small" aria-pressed={!!props.wide} aria-label={`Enlarge ${props.chart.title}`} title="Larger" onClick={() => props.onWide!()}>⤢</button></Show>
          <button type="button" class="quiet small" aria-label={`csv of ${props.chart.title}`} title="Save all points" onClick={() => void saveCsv()}>csv</button>
          <button type="button" class="quiet small" aria-label={`png of ${props.chart.title}`} title="Save the picture" onClick={savePicture}>png</button>
        </div>
      </header>
      <Chart lines={lines()} label={label()} xKind={xKindOf(props.look.x)} height={props.height} log={props.look.log} all={props.look.all} marks={props.marks} range={props.look.zoom} onRange={props.onZoom}
        cursor={props.cursor} onPick={props.onPick} onCanvas={(made) => (canvas = made)} onWidth={(pixels) => setPoints(Math.max(100, Math.ceil(pixels / 100) * 100))} />
      <Show when={failure()}><p class="chart-empty bad" role="alert">{failure()}</p></Show>
      <Show when={empty() && !failure()}><p class="chart-empty muted">{props.look.zoom ? "No points in this range. Double-click to see everything." : "No points yet."}</p></Show>
    </div>
  );
}

function linesOf(member: Member, series: Series, fresh: { x: number[]; y: number[] } | undefined, look: Look): Line[] {
  const [x, y] = joinPoints(series.arrays.x!, series.arrays.y!, fresh, look.zoom);
  const line: Line = { key: nameOf(member), label: member.label, colour: member.colour, x, y, dashed: member.dashed };
  if (!look.smooth) return [line];
  return [{ ...line, key: `${line.key}|`, faint: true }, { ...line, y: smooth(x, y, look.smooth, series.total + (fresh?.x.length ?? 0)) }];
}
