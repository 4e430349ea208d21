// One quality of the jobs over another.
import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import { linearTicks, logTicks } from "../axes";
import { type Axis, axisOf, position, type Quality } from "../comparing";
import { formatTicks } from "../format";
import { Empty } from "../parts/Card";
import { parsePlace } from "../location";
import { enter, jobAddress, state } from "../state";
import type { Shown } from "./Compare";

const WIDTH = 900;
const HEIGHT = 460;
const LEFT = 76;
const RIGHT = 16;
const TOP = 12;
const BOTTOM = 44;

export function ticksOf(axis: Axis, most: number): { place: number; text: string }[] {
  if (axis.labels.length) return axis.labels.map((text, at) => ({ place: at / axis.high, text }));
  const ticks = (axis.log ? logTicks : linearTicks)(axis.low, axis.high, most);
  const place = (value: number): number => (axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low) : (value - axis.low) / (axis.high - axis.low));
  const texts = formatTicks(ticks);
  return ticks.map((value, at) => ({ place: place(value), text: texts[at]! }));
}

export function Scatter(props: { shown: Shown }): JSX.Element {
  const [over, setOver] = createSignal<number | null>(null);
  const choice = (key: string, otherwise: (quality: Quality) => boolean): Quality | undefined => props.shown.qualities.find((quality) => quality.key === state.text(key)) ?? props.shown.qualities.find(otherwise) ?? props.shown.qualities[0];
  const widest = createMemo(() => {
    const numeric = props.shown.qualities.filter((quality) => quality.kind === "hyperparameter" && quality.isNumeric);
    return numeric.sort((a, b) => distinct(b) - distinct(a))[0];
  });
  const x = createMemo(() => choice("sx", (quality) => quality === widest()));
  const y = createMemo(() => choice("sy", (quality) => quality.kind === "metric"));
  const axes = createMemo(() => (x() && y() ? ([axisOf(x()!), axisOf(y()!)] as const) : null));
  const points = createMemo(() => {
    const found = axes();
    if (!found) return [];
    return props.shown.compare.jobs.flatMap((_, job) => {
      const [left, up] = [position(found[0], job), position(found[1], job)];
      return left === null || up === null || !props.shown.visible(job) ? [] : [{ job, x: LEFT + left * (WIDTH - LEFT - RIGHT), y: HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM) }];
    });
  });
  const text = (job: number): string => `${props.shown.compare.jobs[job]!.shown}: ${[x(), y()].map((quality) => `${quality!.name} ${quality!.values[job]}`).join(", ")}`;
  return (
    <Show when={axes()} fallback={<Empty title="There is nothing to draw: these jobs have no numbers that differ." />}>{(pair) => (
      <div class="card">
        <div class="tools">
          <Pick label="x" key="sx" value={x()!} qualities={props.shown.qualities} /><Pick label="y" key="sy" value={y()!} qualities={props.shown.qualities} />
          <span class="muted scatter-text" role="status">{over() === null ? "" : text(over()!)}</span>
        </div>
        <svg class="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${y()!.name} over ${x()!.name} of ${points().length} jobs. The table has the same values.`}>
          <For each={ticksOf(pair()[0], 8)}>{(tick) => <g><line class="grid" x1={LEFT + tick.place * (WIDTH - LEFT - RIGHT)} x2={LEFT + tick.place * (WIDTH - LEFT - RIGHT)} y1={TOP} y2={HEIGHT - BOTTOM} /><text text-anchor="middle" x={LEFT + tick.place * (WIDTH - LEFT - RIGHT)} y={HEIGHT - BOTTOM + 16}>{tick.text}</text></g>}</For>
          <For each={ticksOf(pair()[1], 7)}>{(tick) => <g><line class="grid" x1={LEFT} x2={WIDTH - RIGHT} y1={HEIGHT - BOTTOM - tick.place * (HEIGHT - TOP - BOTTOM)} y2={HEIGHT - BOTTOM - tick.place * (HEIGHT - TOP - BOTTOM)} /><text text-anchor="end" x={LEFT - 8} y={HEIGHT - BOTTOM - tick.place * (HEIGHT - TOP - BOTTOM) + 4}>{tick.text}</text></g>}</For>
          <text class="axis-name" text-anchor="middle" x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6}>{x()!.name}{pair()[0].log ? " (log)" : ""}</text>
          <For each={points()}>{(point) => (
            <circle cx={point.x} cy={point.y} r={over() === point.job ? 8 : 5} fill={props.shown.colour(point.job)} onPointerEnter={() => setOver(point.job)} onPointerLeave={() => setOver(null)} onClick={() => enter(parsePlace(jobAddress(props.shown.compare.jobs[point.job]!.name)))}><title>{text(point.job)}</title></circle>
          )}</For>
        </svg>
      </div>
    )}</Show>
  );
}

const distinct = (quality: Quality): number => new Set(quality.numbers.filter(Number.isFinite)).size;

function Pick(props: { label: string; key: string; value: Quality; qualities: Quality[] }): JSX.Element {
  return (
    <label class="field">{props.label}
      <select onChange={(event) => state.set({ [props.key]: event.currentTarget.value })}><For each={props.qualities}>{(quality) => <option value={quality.key} selected={quality.key === props.value.key}>{quality.kind === "metric" || quality.kind === "hyperparameter" ? quality.name : `${quality.kind}: ${quality.name}`}</option>}</For></select>
    </label>
  );
}
