// Rank and step: time, wait, loss and gradient norm of every worker.
import { createMemo, For, type JSX, Show } from "solid-js";
import type { Job } from "../api";
import { getFrame, part } from "../client";
import { coloursOf } from "../colours";
import { createFetched } from "../fetched";
import { formatNumber, grouped, plural } from "../format";
import type { FrameItem } from "../frames";
import { Card, Empty, Failure } from "../parts/Card";
import { Chart, type Line, type Mark } from "../parts/Chart";
import { plainText } from "../prose";
import type { UrlState } from "../state";
import { type HeatData, toCells } from "./heat/cells";
import { type HeatMark, HeatMap, columnsOf, heatRange } from "./heat/HeatMap";
import { createPulse } from "./pulse";
import { createSame } from "./same";
import { lastQuarter, measured, type Skew, skewOf, straggler } from "./skew";
import { createWidth } from "./width";
import "./tabs.css";

type Quantity = "step" | "slowest" | "compute" | "wait" | "loss" | "gradient_norm";
interface Measured { quantity: Quantity; unit: string; ranks: string[]; note?: string }   // note: its source, or why there is none
type Item = FrameItem<Measured>;

const TITLES: Record<Quantity, string> = { step: "Step time", slowest: "Longest step", compute: "Compute", wait: "Wait for other ranks", loss: "Loss", gradient_norm: "Gradient norm" };
const HEAT = ["step", "compute", "wait", "slowest"] as const;
const LINES = ["loss", "gradient_norm"] as const;

export function Ranks(props: { job: Job; state: UrlState }): JSX.Element {
  const pulse = createPulse(() => props.job, 10);
  const job = createMemo(() => props.job.row.name);
  const ranks = createFetched(() => ({ job: job(), pulse: pulse() }), (asked, signal) => getFrame<Measured>(`jobs/${part(asked.job)}/ranks`, {}, signal));
  const item = (quantity: Quantity): Item | undefined => ranks()?.find((each) => each.quantity === quantity && each.arrays.steps!.length > 0 && each.ranks.length > 0);
  const shown = (): Quantity[] => HEAT.filter((quantity) => item(quantity) && !(quantity === "slowest" && sameCells(item("step"), item("slowest")!)));
  const missing = (): Measured[] => (ranks() ?? []).filter((each) => !item(each.quantity));
  const range = createMemo(() => heatRange(props.state.text("steps")));
  const zoom = (next: [number, number] | null): void => props.state.set({ steps: next ? next.map(Math.round).join("-") : null });
  const heatMarks = createSame((): HeatMark[] => props.job.diagnoses.flatMap((each) => (each.step === null ? [] : [{ step: each.step, label: plainText(each.sentence), row: each.worker || undefined }])));
  const marks = createMemo((): Mark[] => heatMarks().map((mark) => ({ x: mark.step, label: mark.label })));
  return (
    <>
      <h2 class="off-screen">Ranks</h2>
      <Failure error={ranks.error()} />
      <Show when={ranks()} fallback={<Show when={ranks.loading()}><p class="muted">…</p></Show>}>
        <Show when={ranks()!.some((each) => each.ranks.length > 1)} fallback={
          <Empty title={props.job.workers.length > 1 ? "Nothing was measured per rank." : "This job has one worker, so there are no ranks to compare."}>
            <Show when={props.job.workers.length > 1} fallback={<p>With several workers (<code>--distribution torchrun</code>, <code>--instances 2</code>) this view shows who waits for whom.</p>}>
              <p>Start it with <code>--rule all</code>; the script stays as it is.</p>
              <For each={missing()}>{(each) => <p>{TITLES[each.quantity]}: {each.note}</p>}</For>
            </Show>
          </Empty>
        }>
          <div class="stack">
            <Show when={item("compute") ?? item("step")}>{(found) => <SkewCard item={found()} range={range()} onRange={zoom} marks={marks()} />}</Show>
            <For each={shown()}>{(quantity) => <Card title={TITLES[quantity]}><Note item={item(quantity)!} /><RankHeat item={item(quantity)!} range={range()} onRange={zoom} marks={heatMarks()} /></Card>}</For>
            <For each={LINES.filter(item)}>{(quantity) => <Card title={`${TITLES[quantity]} of each rank`}><Note item={item(quantity)!} /><Chart lines={linesOf(item(quantity)!)} label={`${TITLES[quantity]} of each rank over steps`} marks={marks()} range={range()} onRange={zoom} cursor="ranks" gutter={60} /></Card>}</For>
            <Show when={missing().length}><Card title="Not measured"><ul class="plain"><For each={missing()}>{(each) => <li><b>{TITLES[each.quantity]}.</b> {each.note}</li>}</For></ul></Card></Show>
          </div>
        </Show>
      </Show>
    </>
  );
}

// Where each column is one step, its longest step is its step time.
const sameCells = (a: Item | undefined, b: Item): boolean => !!a && a.arrays.cells!.length === b.arrays.cells!.length && a.arrays.cells!.every((cell, at) => Object.is(cell, b.arrays.cells![at]));

function Note(props: { item: Item }): JSX.Element {
  return <Show when={props.item.note}><p class="muted note">{props.item.note}</p></Show>;
}

function RankHeat(props: { item: Item; range: [number, number] | null; onRange: (range: [number, number] | null) => void; marks: HeatMark[] }): JSX.Element {
  let box!: HTMLDivElement;
  const width = createWidth(() => box);
  const columns = createMemo(() => columnsOf(width()));
  const sampled = createMemo(() => measured({ steps: props.item.arrays.steps!, cells: props.item.arrays.cells! }, props.item.ranks.length));
  const ends = (): [number, number] => [props.item.arrays.steps![0]!, props.item.arrays.steps!.at(-1)!];
  const data = createMemo((): HeatData => ({
    names: props.item.ranks, figure: TITLES[props.item.quantity].toLowerCase(), ...toCells(sampled().cells, sampled().steps, props.item.ranks.length, columns(), props.range ?? ends()),
  }));
  return <div ref={box}><Show when={sampled().steps.length < props.item.arrays.steps!.length}><p class="muted note">Measured at {plural(sampled().steps.length, "step")}; each is shown until the next.</p></Show><HeatMap data={data()} rows="rank" unit={props.item.unit} label={`${TITLES[props.item.quantity]}: ${props.item.ranks.length} ranks over steps`} marks={props.marks} absent="not measured" hint={props.item.quantity === "step"} zoomed={!!props.range} onRange={props.onRange} /></div>;
}

// In a synchronous training all ranks have the same step time: who is behind shows in the compute.
function SkewCard(props: { item: Item; range: [number, number] | null; onRange: (range: [number, number] | null) => void; marks: Mark[] }): JSX.Element {
  const skew = createMemo((): Skew => skewOf(props.item.arrays.cells!, props.item.arrays.steps!, props.item.ranks.length));
  const sentence = (): string => {
    const found = straggler(skew()) ?? straggler(lastQuarter(skew()));
    const gap = `${formatNumber(Math.max(...skew().gap.slice(-5000), 0), 3)} ${props.item.unit}`;
    const which = found && `${Math.round(100 * found.share)} % of ${found.since === null ? "the steps" : `the steps since ${grouped(found.since)}`}`;
    return found ? `${props.item.ranks[found.rank]} is the slowest in ${which}; at most ${gap} behind the median.` : `No rank is the slowest most of the time; at most ${gap} behind the median.`;
  };
  const lines = (): Line[] => [{ key: "skew", label: "slowest minus median", colour: coloursOf(["skew"]).get("skew")!, x: skew().steps, y: skew().gap }];
  return (
    <Card title={`Skew of ${TITLES[props.item.quantity].toLowerCase()}: slowest rank minus median`}>
      <p class="muted">{sentence()}</p>
      <Chart lines={lines()} label={`Skew over steps. ${sentence()}`} height={90} marks={props.marks} range={props.range} onRange={props.onRange} cursor="ranks" gutter={60} all />
    </Card>
  );
}

function linesOf(item: Item): Line[] {
  const colours = coloursOf(item.ranks);
  const steps = item.arrays.steps!;
  return item.ranks.map((rank, row) => {
    const values = item.arrays.cells!.subarray(row * steps.length, (row + 1) * steps.length);
    const measured = [...values.keys()].filter((at) => !Number.isNaN(values[at]!));
    return { key: rank, label: rank, colour: colours.get(rank)!, x: measured.map((at) => steps[at]!), y: measured.map((at) => values[at]!) };
  });
}
