// Heat map of layer and step; a click opens the tensor. links.ts names what is in the address.
import { createEffect, createMemo, createSignal, For, type JSX, on, Show } from "solid-js";
import type { Job, Tensors as Known } from "../api";
import { getFrame, getJson, part } from "../client";
import { createFetched, type Fetched } from "../fetched";
import { grouped, plural } from "../format";
import { useShortcuts } from "../keys";
import { createLive } from "../live";
import { Empty, Failure } from "../parts/Card";
import { Prose } from "../parts/Prose";
import { plainText } from "../prose";
import type { UrlState } from "../state";
import { throttle } from "../throttle";
import { Choice, TextField } from "./Fields";
import type { HeatData } from "./heat/cells";
import { growHeat } from "./heat/grow";
import { type HeatMark, HeatMap, columnsOf, heatRange } from "./heat/HeatMap";
import { createPulse, isRunning } from "./pulse";
import { createSame } from "./same";
import { createWidth } from "./width";
import { TensorPanel } from "./TensorPanel";
import "./tabs.css";

const ROW_HEIGHTS = [["", "fit"], ["6", "low"], ["16", "high"]] as const;
const MOST_CHIPS = 12;
const GROW_MS = 500;
const MOST_COLUMNS = 4000;
const LEAST_COLUMNS = 20;
const GROWTH = 1.25;                   // after so much more the map is loaded anew, as its scale may have changed

export function Tensors(props: { job: Job; state: UrlState }): JSX.Element {
  const pulse = createPulse(() => props.job, 10);
  const job = createMemo(() => props.job.row.name);
  const running = createMemo(() => isRunning(props.job));
  const known: Fetched<Known> = createFetched(() => props.job.has.tensors && { job: job(), pulse: pulse() }, (asked, signal) => getJson<Known>(`jobs/${part(asked.job)}/tensors`, { draft: heat() && !heat()!.draft ? undefined : 1 }, signal));
  const suggested = (): { kind: string; figure: string } | null => props.job.diagnoses.find((each) => each.evidence?.heat)?.evidence.heat ?? null;
  const kind = createMemo(() => {
    const kinds = known()?.kinds ?? [];
    return kinds.find((each) => each.kind === props.state.text("kind")) ?? kinds.find((each) => each.kind === suggested()?.kind) ?? kinds[0];
  });
  const figure = (): string => {
    const asked = [props.state.text("figure"), kind()?.kind === suggested()?.kind ? suggested()?.figure ?? "" : ""];
    return asked.find((each) => kind()?.figures.includes(each)) ?? kind()?.figure ?? "";
  };
  const range = createMemo(() => heatRange(props.state.text("steps")));
  const rowHeight = (): number | null => props.state.number("rows");
  let box!: HTMLDivElement;
  let names: HTMLInputElement | undefined;
  useShortcuts([{ key: "/", does: "filter tensors by name", run: () => names?.focus() }]);
  const width = createWidth(() => box);
  const columns = createMemo(() => columnsOf(width()));
  const query = createSame(() => kind() && width() > 0 && {
    job: job(), running: running(),
    query: {
      kind: kind()!.kind, figure: figure(), mode: props.state.text("mode"), worker: props.state.text("worker"), columns: columns(),
      from: range()?.[0], to: range()?.[1], filter: props.state.text("names"),
    },
  });
  let loadedColumns = LEAST_COLUMNS;
  // Where reading everything takes seconds, a picture of some files comes first.
  const heat: Fetched<HeatData> = createFetched(query, async (asked, signal): Promise<HeatData> => {
    const load = async (draft?: number): Promise<HeatData> => heatOf((await getFrame<Omit<HeatData, "cells" | "starts" | "steps">>(`jobs/${part(asked.job)}/heat`, { ...asked.query, draft }, signal))[0]);
    let loaded = await load(1);
    if (loaded.draft) {
      if (!signal.aborted) heat.put(loaded);
      loaded = await load();
    }
    loadedColumns = Math.max(loaded.starts.length, LEAST_COLUMNS);
    return loaded;
  });
  createEffect(on(heat, (shown) => { if (shown && !shown.draft && known()?.draft) known.refresh(); }));
  // New columns come as they are saved, and nothing else does.
  createLive(() => (running() && heat() && !heat()!.draft && !range() ? { job: job(), tensors: 1 } : null), { tensors: (event) => event.job === job() && grow(), open: () => grow() });
  const grow = throttle(() => {
    const [shown, asked] = [heat(), query()];
    if (!shown?.steps.length || shown.draft || !asked || heat.loading()) return;
    const last = shown.steps[shown.steps.length - 1]!;
    const more = { ...asked.query, from: last + 1, dark: shown.dark, bright: shown.bright, columns: MOST_COLUMNS };
    getFrame<Omit<HeatData, "cells" | "starts" | "steps">>(`jobs/${part(asked.job)}/heat`, more).then((items) => {
      const fresh = heatOf(items[0]);
      if (heat() !== shown || !fresh.steps.length) return;
      const grown = growHeat(shown, fresh, Math.min(GROWTH * loadedColumns, asked.query.columns));
      if (grown) heat.put(grown);
      else heat.refresh();
    }, () => undefined);                // nothing new, or nothing that can be read: what is shown stays
  }, GROW_MS);
  const marks = createSame(() => marksOf(props.job));
  const open = (tensor: string, step: number): void => props.state.set({ tensor, step }, true);
  return (
    <div ref={box}>
      <h2 class="off-screen">Tensors</h2>
      <Show when={!props.job.has.tensors || known()} fallback={<><Failure error={known.error()} /><Show when={known.loading()}><p class="muted">…</p></Show></>}>
        <Show when={props.job.has.tensors && known()!.kinds.length} fallback={
          <Empty title={`This job has saved no tensors${running() ? " yet" : ""}, so there are no layers to show.`}>
            <For each={props.job.gaps}>{(gap) => <p><Prose text={gap} /></p>}</For>
            <p>Start it with <code>--rule all</code>, or with <code>--capture gradients,weights,losses</code>; the script stays as it is.</p>
          </Empty>
        }>
          <div class="tools">
            <Choice label="Tensors" value={kind()?.kind ?? ""} options={known()!.kinds.map((each) => [each.kind, `${each.title} (${grouped(each.count)})`] as const)} onChange={(value) => props.state.set({ kind: value, figure: null, tensor: null, step: null })} />
            <Choice label="Figure" value={figure()} options={(kind()?.figures ?? []).map((each) => [each, each] as const)} onChange={(value) => props.state.set({ figure: value })} />
            <Show when={known()!.modes.length > 1}><Choice label="Mode" value={props.state.text("mode")} options={[["", "all"], ...known()!.modes.map((each) => [each, each] as const)]} onChange={(value) => props.state.set({ mode: value })} /></Show>
            <Show when={known()!.workers.length > 1}><Choice label="Worker" value={props.state.text("worker")} options={[["", "first"], ...known()!.workers.map((each) => [each, each] as const)]} onChange={(value) => props.state.set({ worker: value })} /></Show>
            <TextField label="Names" value={props.state.text("names")} placeholder="regular expression" ref={(input) => (names = input)} onChange={(value) => props.state.set({ names: value })} />
            <Choice label="Rows" value={rowHeight() ? String(rowHeight()) : ""} options={ROW_HEIGHTS} onChange={(value) => props.state.set({ rows: value })} />
            <span class="muted draft" role="status"><Show when={heat()?.draft}>{(draft) => <>A first picture, of {grouped(draft().files)} of {plural(draft().of, "file")}. {heat.loading() ? "The others are being read…" : "The others could not be read."}</>}</Show></span>
          </div>
          <Failure error={heat.error()} />
          <Show when={heat.error() && props.state.text("names")}><button type="button" onClick={() => props.state.set({ names: null })}>Show all names</button></Show>
          <Show when={heat.error()?.code !== "no_tensors" && heat()}>{(data) => (
            <section class="card heat-card" aria-busy={heat.loading()}>
              <HeatMap data={data()} rows="tensor" label={`Heat map of ${kind()!.title}, ${data().figure}: ${plural(data().names.length, "tensor")} over steps ${grouped(Math.round(data().starts[0] ?? 0))} to ${grouped(Math.round(data().steps.at(-1) ?? 0))}`}
                marks={marks()} rowHeight={rowHeight()} selected={props.state.text("tensor")} zoomed={!!range()}
                onRange={(next) => props.state.set({ steps: next ? next.join("-") : null })} onOpen={open} />
              <Show when={data().left_out}>{(count) => <p class="muted">{plural(count(), "further tensor")} left out. The filter of names shows them.</p>}</Show>
            </section>
          )}</Show>
          <Findings marks={marks()} onOpen={open} />
          <Show when={props.state.text("tensor")} keyed>{(tensor) => (
            <TensorPanel job={props.job} tensor={tensor} mode={props.state.text("mode")} worker={props.state.text("worker")} step={props.state.number("step")} pulse={pulse()}
              marks={marks().filter((mark) => !mark.row || mark.row === tensor)} onStep={(step) => props.state.set({ step })} onClose={() => props.state.set({ tensor: null, step: null })} />
          )}</Show>
        </Show>
      </Show>
    </div>
  );
}

function heatOf(item: (Omit<HeatData, "cells" | "starts" | "steps"> & { arrays: Record<string, ArrayLike<number>> }) | undefined): HeatData {
  if (!item) throw new Error("The server sent no heat map.");
  const { cells, starts, steps } = item.arrays as unknown as { cells: Uint8Array; starts: Float64Array; steps: Float64Array };
  return { ...item, cells, starts, steps };
}

function marksOf(job: Job): HeatMark[] {
  return job.diagnoses.flatMap((diagnosis) => (diagnosis.step === null ? [] : [{ step: diagnosis.step, label: plainText(diagnosis.sentence), row: diagnosis.tensor || undefined }]));
}

// The findings as buttons, for keyboards and small screens.
function Findings(props: { marks: HeatMark[]; onOpen: (tensor: string, step: number) => void }): JSX.Element {
  const [all, setAll] = createSignal(false);
  createEffect(on(() => props.marks.length, () => setAll(false)));
  const shown = (): HeatMark[] => props.marks.filter((mark) => mark.row).slice(0, all() ? undefined : MOST_CHIPS);
  return (
    <Show when={shown().length}>
      <ul class="chips" aria-label="Findings">
        <For each={shown()}>{(mark) => <li><button type="button" class="small" onClick={() => props.onOpen(mark.row!, mark.step)}><span class="bad-text" aria-hidden="true">▼</span> step {grouped(mark.step)}: {mark.label}</button></li>}</For>
        <Show when={shown().length < props.marks.filter((mark) => mark.row).length}><li><button type="button" class="small" onClick={() => setAll(true)}>show all {props.marks.length}</button></li></Show>
      </ul>
    </Show>
  );
}
