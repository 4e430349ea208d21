// A line per job over axes of what differs; a range chosen on an axis leaves the jobs within it.
import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import { type Axis, axisOf, formatBrushes, isBrushed, parseBrushes, position, type Quality } from "../comparing";
import { plural } from "../format";
import { Empty } from "../parts/Card";
import { parsePlace } from "../location";
import { compareAddress, enter, state } from "../state";
import type { Shown } from "./Compare";
import { ticksOf } from "./Scatter";

const HEIGHT = 420;
const TOP = 34;
const BOTTOM = 14;
const SPACE = 150;
const MOST_AXES = 10;

export function Parallel(props: { shown: Shown }): JSX.Element {
  const [over, setOver] = createSignal<number | null>(null);
  const [drag, setDrag] = createSignal<{ key: string; from: number; to: number } | null>(null);
  const usable = createMemo(() => props.shown.qualities.filter((quality) => quality.kind !== "git" && quality.kind !== "code" && (quality.isNumeric || new Set(quality.values).size <= 12)));
  const chosen = createMemo((): Quality[] => {
    const asked = state.list("axes");
    if (asked.length) return asked.flatMap((key) => usable().find((quality) => quality.key === key) ?? []);
    const facts = usable().filter((quality) => quality.kind === "hyperparameter").slice(0, MOST_AXES - 2);
    return [...facts, ...usable().filter((quality) => quality.kind === "metric").slice(0, MOST_AXES - facts.length)].slice(0, MOST_AXES);
  });
  const axes = createMemo(() => chosen().map(axisOf));
  const width = (): number => Math.max(axes().length, 2) * SPACE;
  const x = (at: number): number => SPACE / 2 + at * SPACE;
  const y = (place: number): number => TOP + (1 - place) * (HEIGHT - TOP - BOTTOM);
  const brushes = createMemo(() => parseBrushes(state.list("brush")));
  const lines = createMemo(() => props.shown.compare.jobs.flatMap((_, job) => {
    if (!props.shown.visible(job)) return [];
    const path = axes().map((axis, at) => ({ at, place: position(axis, job) })).filter((each) => each.place !== null).map((each, index) => `${index ? "L" : "M"}${x(each.at)} ${y(each.place!).toFixed(1)}`).join("");
    return [{ job, path, on: isBrushed(axes(), brushes(), job) }];
  }));
  const left = createMemo(() => lines().filter((line) => line.on).map((line) => line.job));
  const placeOf = (event: PointerEvent): number => {
    const area = (event.currentTarget as SVGElement).ownerSVGElement!.getBoundingClientRect();
    const inside = ((event.clientY - area.top) / area.height) * HEIGHT;
    return Math.min(Math.max(1 - (inside - TOP) / (HEIGHT - TOP - BOTTOM), 0), 1);
  };
  const start = (event: PointerEvent, axis: Axis): void => {
    (event.currentTarget as SVGElement).setPointerCapture(event.pointerId);
    setDrag({ key: axis.quality.key, from: placeOf(event), to: placeOf(event) });
  };
  const end = (): void => {
    const made = drag();
    setDrag(null);
    if (!made) return;
    const next = new Map(brushes());
    if (Math.abs(made.from - made.to) < 0.015) next.delete(made.key);
    else next.set(made.key, [Math.min(made.from, made.to), Math.max(made.from, made.to)]);
    state.set({ brush: formatBrushes(next) });
  };
  const shownBrush = (axis: Axis): [number, number] | undefined => {
    const made = drag();
    return made?.key === axis.quality.key ? [Math.min(made.from, made.to), Math.max(made.from, made.to)] : brushes().get(axis.quality.key);
  };
  const toggle = (key: string, on: boolean): void => state.set({ axes: on ? [...chosen().map((quality) => quality.key), key] : chosen().map((quality) => quality.key).filter((each) => each !== key) });
  return (
    <Show when={usable().length} fallback={<Empty title="These jobs do not differ in anything that could be an axis." />}>
      <div class="card">
        <div class="tools">
          <details class="axis-choice"><summary>Axes</summary><div class="chooser"><For each={usable()}>{(quality) => <label class="check"><input type="checkbox" checked={chosen().includes(quality)} onChange={(event) => toggle(quality.key, event.currentTarget.checked)} />{quality.name}</label>}</For></div></details>
          <Show when={brushes().size} fallback={<span class="muted">Drag along an axis to keep a range of it.</span>}>
            <span>{plural(left().length, "job")} left</span>
            <button type="button" disabled={left().length < 2} onClick={() => enter(parsePlace(compareAddress(left().map((job) => props.shown.compare.jobs[job]!.name), { tab: "parallel" })))}>Compare these</button>
            <button type="button" onClick={() => state.set({ brush: null })}>All again</button>
          </Show>
          <span class="muted" role="status">{over() === null ? "" : props.shown.compare.jobs[over()!]!.shown}</span>
        </div>
        <div class="table-box" tabIndex={0} role="region" aria-label="Parallel coordinates">
          <svg class="plot parallel" viewBox={`0 0 ${width()} ${HEIGHT}`} role="img" aria-label={`Lines of ${lines().length} jobs over ${axes().map((axis) => axis.quality.name).join(", ")}. The table has the same values.`}>
            <For each={lines()}>{(line) => <path class="job-line" classList={{ out: !line.on, over: over() === line.job }} d={line.path} stroke={props.shown.colour(line.job)} onPointerEnter={() => setOver(line.job)} onPointerLeave={() => setOver(null)} />}</For>
            <For each={axes()}>{(axis, at) => (
              <g>
                <line class="axis" x1={x(at())} x2={x(at())} y1={y(1)} y2={y(0)} />
                <text class="axis-name" text-anchor="middle" x={x(at())} y={14}>{axis.quality.name.length > 22 ? `…${axis.quality.name.slice(-21)}` : axis.quality.name}</text>
                <For each={ticksOf(axis, 6)}>{(tick) => <text text-anchor="end" x={x(at()) - 7} y={y(tick.place) + 4}>{tick.text}</text>}</For>
                <Show when={shownBrush(axis)}>{(brush) => <rect class="brush" x={x(at()) - 8} width={16} y={y(brush()[1])} height={y(brush()[0]) - y(brush()[1])} />}</Show>
                <rect class="axis-hit" x={x(at()) - 14} width={28} y={TOP - 6} height={HEIGHT - TOP - BOTTOM + 12} onPointerDown={(event) => start(event, axis)} onPointerMove={(event) => { const to = placeOf(event); setDrag((made) => (made?.key === axis.quality.key ? { ...made, to } : made)); }} onPointerUp={end} onPointerCancel={() => setDrag(null)} />
              </g>
            )}</For>
          </svg>
        </div>
      </div>
    </Show>
  );
}
