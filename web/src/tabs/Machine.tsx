// One time axis with the loss, the step time and what the hosts did; bands are the phases of the job.
import { createMemo, createSignal, For, Index, type JSX, Show } from "solid-js";
import type { Job } from "../api";
import { getJson, part } from "../client";
import { coloursOf, PALETTE } from "../colours";
import { createFetched } from "../fetched";
import { formatSeconds, formatTime, toNumber } from "../format";
import { createLive, type LivePoints } from "../live";
import { formatList } from "../location";
import { Empty, Failure } from "../parts/Card";
import { type Band, Chart, type Line, type Mark } from "../parts/Chart";
import { extent } from "../scales";
import { loadSeries } from "../series";
import { Prose } from "../parts/Prose";
import { joinPoints } from "../points";
import { plainText } from "../prose";
import type { UrlState } from "../state";
import { throttle } from "../throttle";
import { createInView } from "./inView";
import { createPulse, isRunning } from "./pulse";
import { createSame } from "./same";
import { type Scale, scaleOf, shortName } from "./quantities";
import "./tabs.css";

interface MachineData {
  start: number; end: number; phases: Job["phases"]; bands?: { kind: string; label: string; start: number; end: number }[];
  marks: { time: number; step: number | null; text: string }[];
  charts: { title: string; unit: string; lines: { name: string; host: string; curve: string }[] }[];
}

const POINTS = 600;
const MOST_IN_LEGEND = 8;
const GUTTER = 60;
const REFRESH_MS = 3000;
const MOST_NEW = 4000;                // points of a curve, until all are loaded anew

export function Machine(props: { job: Job; state: UrlState }): JSX.Element {
  const pulse = createPulse(() => props.job, 10);
  const job = createMemo(() => props.job.row.name);
  const running = createMemo(() => isRunning(props.job));
  const machine = createFetched(() => ({ job: job(), pulse: pulse() }), (asked, signal) => getJson<MachineData>(`jobs/${part(asked.job)}/machine`, { points: POINTS }, signal));
  const range = createMemo((): [number, number] | null => {
    const [from, to] = [props.state.number("from"), props.state.number("to")];
    return from !== null && to !== null && to > from ? [from, to] : null;
  });
  const zoom = (next: [number, number] | null): void => props.state.set({ from: next && next[0].toFixed(2), to: next && next[1].toFixed(2) });
  const whole = (): [number, number] => range() ?? [machine()!.start, Math.max(end(), machine()!.start + 1)];
  const curves = createSame(() => machine()?.charts.flatMap((chart) => chart.lines.map((line) => line.curve)) ?? []);
  const series = createFetched(
    () => curves().length > 0 && { job: job(), curves: curves(), view: { x: "time", from: range()?.[0], to: range()?.[1], points: POINTS } },
    (asked, signal) => Promise.all(asked.curves.map((id) => loadSeries({ job: asked.job, id }, asked.view, { final: !running(), signal }))),
  );
  // The points come as they are made, of the charts that can be seen; what these are, less often.
  const news = new Map<string, { x: number[]; y: number[] }>();
  const [added, setAdded] = createSignal(0);
  const inView = createInView();
  const followed = createSame(() => (running() ? machine()?.charts ?? [] : []).filter((chart) => inView.keys().has(chart.title)).flatMap((chart) => chart.lines.map((line) => `${job()}:${line.curve}`)));
  const refresh = throttle(series.refresh, REFRESH_MS);
  const add = (event: LivePoints): void => {
    for (const item of event.items) {
      if (item.job !== job() || !curves().includes(item.id)) continue;
      const known = news.get(item.id) ?? { x: [], y: [] };
      news.set(item.id, known);
      known.x.push(...item.t);
      known.y.push(...item.y.map(toNumber));
      if (item.replace || known.x.length > MOST_NEW) {
        news.delete(item.id);
        refresh();
      }
    }
    setAdded((count) => count + 1);
  };
  createLive(() => (followed().length ? { curves: formatList(followed()) } : null), { points: add, open: () => refresh() });
  const found = createMemo(() => {
    added();
    return new Map((series() ?? []).filter((item) => !item.error).map((item) => {
      const [x, y] = joinPoints(item.arrays.x!, item.arrays.y!, news.get(item.id), range());
      return [item.id, { x, y }];
    }));
  });
  const end = createMemo(() => Math.max(machine()?.end ?? 0, ...[...found().values()].map(({ x }) => x[x.length - 1] ?? 0)));
  const scale = (chart: MachineData["charts"][number]): Scale => scaleOf(chart.unit, extent(chart.lines.map((line) => found().get(line.curve)?.y ?? []))?.[1] ?? 0);
  const linesOf = (chart: MachineData["charts"][number]): Line[] => {
    const hosts = new Set(chart.lines.map((line) => line.host));
    const isByHost = hosts.size > 1 && hosts.size === chart.lines.length;
    const labels = chart.lines.map((line) => (isByHost ? line.host : [chart.title === "Loss" ? line.name : shortName(line.name), hosts.size > 1 ? line.host : ""].join(" ").trim()));
    const { factor } = scale(chart);
    const colours = coloursOf(labels);
    return chart.lines.flatMap((line, at) => {
      const item = found().get(line.curve);
      return item ? [{ key: line.curve, label: labels[at]!, colour: colours.get(labels[at]!)!, x: item.x, y: factor === 1 ? item.y : Float64Array.from(item.y, (value) => value * factor) }] : [];
    });
  };
  const bands = createSame((): Band[] => [
    ...(machine()?.phases ?? []).map((phase, at) => ({ from: phase.start, to: phase.end ?? end(), label: phase.name, colour: phaseColour(phase.name, at) })),
    ...(machine()?.bands ?? []).map((band) => ({ from: band.start, to: band.end, label: band.label, colour: kindColour(band.kind) })),
  ]);
  const kinds = createSame(() => [...new Set((machine()?.bands ?? []).map((band) => band.kind))]);
  const findings = createSame(() => machine()?.marks ?? []);
  const marks = createMemo((): Mark[] => findings().map((mark) => ({ x: mark.time, label: plainText(mark.text) })));
  return (
    <>
      <h2 class="off-screen">Machine</h2>
      <Failure error={machine.error() ?? series.error()} />
      <Show when={machine()} fallback={<Show when={machine.loading()}><p class="muted">…</p></Show>}>
        <Show when={curves().length} fallback={
          <Empty title="Nothing is known about the machine while this job ran.">
            <For each={props.job.gaps}>{(gap) => <p><Prose text={gap} /></p>}</For>
            <p>CPU, memory, disk, network and GPU are recorded every second while a job runs; a job that ended at once has none.</p>
          </Empty>
        }>
          <div class="machine-head">
            <ul class="phases" aria-label="Phases">
              <For each={machine()!.phases}>{(phase, at) => <li><i class="swatch phase" style={{ background: phaseColour(phase.name, at()) }} />{phase.name} <span class="muted">{formatSeconds((phase.end ?? end()) - phase.start)}</span></li>}</For>
              <For each={kinds()}>{(kind) => <li><i class="swatch phase" style={{ background: kindColour(kind) }} />{kind}</li>}</For>
            </ul>
            <Show when={range()} fallback={<span class="muted">Drag to zoom; all charts follow.</span>}><button type="button" class="small" onClick={() => zoom(null)}>Show all</button></Show>
          </div>
          <div class="stack machine">
            <Index each={machine()!.charts}>{(chart) => (
              <section class="card machine-chart" ref={(element) => inView.watch(element, () => chart().title)}>
                <header class="machine-title"><h3>{chart().title} <span class="muted">{scale(chart()).unit}</span></h3>
                  <Show when={chart().lines.length > 1 && chart().lines.length <= MOST_IN_LEGEND}><ul class="phases muted"><For each={linesOf(chart())}>{(line) => <li><i class="swatch" style={{ background: line.colour }} />{line.label}</li>}</For></ul></Show>
                </header>
                <Chart lines={linesOf(chart())} label={`${chart().title} over time${chart().unit ? `, in ${scale(chart()).unit}` : ""}`} xKind="time" unit={scale(chart()).unit} height={110} gutter={GUTTER} bands={bands()} marks={marks()} range={whole()} onRange={zoom} cursor="machine" all={chart().title !== "Loss"} />
              </section>
            )}</Index>
          </div>
          <Show when={findings().length}>
            <ul class="chips" aria-label="Findings">
              <For each={findings().slice(0, 12)}>{(mark) => <li><button type="button" class="small" onClick={() => zoom([mark.time - 30, mark.time + 30])}><span class="bad-text" aria-hidden="true">▼</span> {formatTime(mark.time)}: <Prose text={mark.text} /></button></li>}</For>
            </ul>
          </Show>
        </Show>
      </Show>
    </>
  );
}

// The training itself is the ground; what is before and after stands out.
const phaseColour = (name: string, at: number): string => (name === "Training" ? "transparent" : PALETTE[(at * 7 + 7) % PALETTE.length]!);
const kindColour = (kind: string): string => PALETTE[kind === "evaluation" ? 2 : 4]!;
