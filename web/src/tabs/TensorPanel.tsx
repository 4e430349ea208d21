// One tensor: its figures over the steps, its histograms, its values where it is small.
import { createEffect, createMemo, For, Index, type JSX, on, onMount, Show } from "solid-js";
import type { Job } from "../api";
import { getJson, part } from "../client";
import { PALETTE } from "../colours";
import { createFetched } from "../fetched";
import { formatNumber, formatTicks, grouped, toNumber } from "../format";
import { Card, Failure } from "../parts/Card";
import { Chart, type Line } from "../parts/Chart";
import { Prose } from "../parts/Prose";
import { nearest } from "../scales";
import { colour, theme } from "../theme";
import { growTensor, type TensorData } from "./heat/growTensor";
import type { HeatMark } from "./heat/HeatMap";
import { type Histograms, type Ridge, ridges, valueRange } from "./heat/histograms";
import { palette, css, MOST } from "./heat/palettes";
import { type Cells, isBroken, isText, tableOf } from "./heat/values";
import { createWidth } from "./width";

interface PanelProps {
  job: Job; tensor: string; mode: string; worker: string; step: number | null; pulse: number; marks: HeatMark[];
  onStep: (step: number) => void; onClose: () => void;
}

export function TensorPanel(props: PanelProps): JSX.Element {
  let head!: HTMLHeadingElement;
  const job = createMemo(() => props.job.row.name);
  let loaded: { of: string; data: TensorData } | undefined;
  const tensor = createFetched(
    () => ({ job: job(), query: { name: props.tensor, worker: props.worker, mode: props.mode }, pulse: props.pulse }),
    async (asked, signal) => {
      const load = (after?: number): Promise<TensorData> => getJson<TensorData>(`jobs/${part(asked.job)}/tensor`, { ...asked.query, after }, signal);
      const of = JSON.stringify([asked.job, asked.query]);
      const before = loaded?.of === of ? loaded.data : undefined;
      // Only what is new, while the job runs.
      const data = (before?.steps.length && growTensor(before, await load(before.steps.at(-1)))) || await load();
      loaded = { of, data };
      return data;
    },
  );
  const at = createMemo(() => nearest(tensor()?.steps ?? [], props.step ?? Infinity));
  const step = (): number | undefined => tensor()?.steps[at()];
  const marks = (): { x: number; label: string; tone?: "note" }[] => [...props.marks.map((mark) => ({ x: mark.step, label: mark.label })), ...(step() === undefined ? [] : [{ x: step()!, label: "this step", tone: "note" as const }])];
  const figures = createMemo(() => Object.entries(tensor()?.figures ?? {}).map(([name, values], index): Line => ({ key: name, label: name, colour: PALETTE[index % PALETTE.length]!, x: tensor()!.steps, y: values.map(toNumber) })));
  onMount(() => head.focus({ preventScroll: false }));
  return (
    <section class="card tensor-panel" aria-labelledby="tensor-title" onKeyDown={(event) => event.key === "Escape" && props.onClose()}>
      <header class="card-head">
        <h2 id="tensor-title" ref={head} tabIndex={-1} class="mono">{props.tensor}</h2>
        <Show when={tensor()}><span class="muted">{tensor()!.shape ? `${tensor()!.dtype} [${tensor()!.shape!.join(" × ")}]` : "figures only"}</span></Show>
        <button type="button" class="small" onClick={() => props.onClose()}>Close</button>
      </header>
      <Failure error={tensor.error()} />
      <Show when={tensor() && tensor()!.steps.length}>
        <label class="field step-choice">Step {grouped(step() ?? 0)}
          <input type="range" min={0} max={tensor()!.steps.length - 1} value={at()} aria-valuetext={`step ${step()}`} onInput={(event) => props.onStep(tensor()!.steps[event.currentTarget.valueAsNumber]!)} />
        </label>
        <div class="tensor-parts">
          <Index each={figures()}>{(figure) => <Card title={`${figure().label}: ${formatNumber(figure().y[at()])}`}><Chart lines={[figure()]} label={`${figure().label} of ${props.tensor} over steps`} height={120} marks={marks()} cursor="tensor" all /></Card>}</Index>
        </div>
        <Show when={tensor()!.histogram?.steps.length}><Card title="Values over steps"><Ridges histograms={tensor()!.histogram!} step={step() ?? null} onStep={props.onStep} name={props.tensor} /></Card></Show>
        <Show when={tensor()!.shape} fallback={<p class="muted">Only figures of it were saved. To see values, save its collection without reductions.</p>}><Values job={job()} name={props.tensor} worker={props.worker} mode={props.mode} step={step()} /></Show>
      </Show>
    </section>
  );
}

const MOST_RIDGES = 40;
const RIDGE_GAP = 11;
const RIDGE_HEIGHT = 46;

function Ridges(props: { histograms: Histograms; step: number | null; onStep: (step: number) => void; name: string }): JSX.Element {
  let canvas!: HTMLCanvasElement;
  const width = createWidth(() => canvas);
  const made = createMemo(() => ridges(props.histograms, MOST_RIDGES));
  const range = createMemo(() => valueRange(props.histograms));
  const left = 56;
  const height = (): number => RIDGE_HEIGHT + made().length * RIDGE_GAP + 22;
  const base = (index: number): number => RIDGE_HEIGHT + index * RIDGE_GAP;
  const chosen = (): number => nearest(made().map((ridge) => ridge.step), props.step ?? Infinity);
  const draw = (): void => {
    if (!width()) return;
    canvas.width = width() * devicePixelRatio;
    canvas.height = height() * devicePixelRatio;
    const ctx = canvas.getContext("2d")!;
    ctx.scale(devicePixelRatio, devicePixelRatio);
    ctx.font = "11px system-ui, sans-serif";
    const colours = palette({ dark: theme() === "dark", diverging: false });
    made().forEach((ridge, index) => outline(ctx, ridge, index, css(colours, Math.round((index / Math.max(made().length - 1, 1)) * MOST * 0.85))));
    ctx.fillStyle = colour("muted");
    ctx.textBaseline = "top";
    const wide = width() - left - 8;
    const texts = formatTicks([0, 1, 2, 3, 4].map((tick) => range()[0] + (tick / 4) * (range()[1] - range()[0])), 2);
    for (const [tick, text] of texts.entries()) {
      ctx.textAlign = tick === 4 ? "right" : tick ? "center" : "left";
      ctx.fillText(text, left + (tick / 4) * wide, height() - 15);
    }
  };
  const outline = (ctx: CanvasRenderingContext2D, ridge: Ridge, index: number, fill: string): void => {
    const wide = width() - left - 8;
    const isChosen = index === chosen();
    ctx.beginPath();
    ctx.moveTo(left + (ridge.points[0]?.[0] ?? 0) * wide, base(index));
    for (const [x, high] of ridge.points) ctx.lineTo(left + x * wide, base(index) - high * (RIDGE_HEIGHT - 6));
    ctx.lineTo(left + (ridge.points.at(-1)?.[0] ?? 0) * wide, base(index));
    ctx.globalAlpha = 0.8;
    ctx.fillStyle = fill;
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.lineWidth = isChosen ? 2 : 1;
    ctx.strokeStyle = colour(isChosen ? "text" : "surface");
    ctx.stroke();
    if (!isChosen && index % 3) return;
    ctx.fillStyle = colour(isChosen ? "text" : "muted");
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "right";
    ctx.fillText(grouped(ridge.step), left - 6, base(index) + 3);
  };
  createEffect(on([made, width, chosen, theme], draw));
  const pick = (event: MouseEvent): void => {
    const index = Math.round((event.offsetY - RIDGE_HEIGHT) / RIDGE_GAP);
    const ridge = made()[Math.min(Math.max(index, 0), made().length - 1)];
    if (ridge) props.onStep(ridge.step);
  };
  return <canvas ref={canvas} class="ridges" style={{ height: `${height()}px` }} role="img" aria-label={`Histograms of ${props.name} at ${made().length} steps, values from ${formatNumber(range()[0])} to ${formatNumber(range()[1])}`} onClick={pick} />;
}

function Values(props: { job: string; name: string; worker: string; mode: string; step: number | undefined }): JSX.Element {
  const values = createFetched(
    () => props.step !== undefined && { job: props.job, query: { name: props.name, step: props.step, worker: props.worker, mode: props.mode } },
    (asked, signal) => getJson<{ shape: number[]; values: Cells; whole: boolean; step: number }>(`jobs/${part(asked.job)}/tensor/values`, asked.query, signal),
  );
  const table = createMemo(() => (values() ? tableOf(values()!.values) : null));
  return (
    <Show when={!values.error()} fallback={<p class="muted"><Prose text={`${values.error()!.message} ${values.error()!.advice}`} /></p>}>
      <Show when={table()}>{(shown) => (
        <Card title={`Values at step ${grouped(values()!.step)}`}>
          <div class="table-box values-box" tabIndex={0} role="region" aria-label={`Values of ${props.name}`}>
            <table class="values"><tbody>
              <For each={shown().rows}>{(row) => <tr><th scope="row">{row.label}</th><For each={row.cells}>{(cell) => <td classList={{ "not-finite": isBroken(cell) }}>{isText(cell) ? cell : formatNumber(cell)}</td>}</For></tr>}</For>
            </tbody></table>
          </div>
          <Show when={!values()!.whole || shown().cut}><p class="muted">Only the first values of [{values()!.shape.join(" × ")}] are shown.</p></Show>
        </Card>
      )}</Show>
    </Show>
  );
}
