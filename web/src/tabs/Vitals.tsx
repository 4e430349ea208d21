// Figures that the check-up watches: those that a finding rests on first, the rest folded.
import { createMemo, For, type JSX, Show } from "solid-js";
import type { Job } from "../api";
import { chartsOf } from "../charts";
import { useCurves } from "../curvesOfJob";
import { Empty, Failure } from "../parts/Card";
import { ChartCard } from "../parts/ChartCard";
import { ChartWall, readLook } from "../parts/ChartWall";
import { Prose } from "../parts/Prose";
import type { UrlState } from "../state";
import { marksOf } from "./Curves";
import { isRunning } from "./pulse";

const MOST_EVIDENCE = 8;

export function Vitals(props: { job: Job; state: UrlState }): JSX.Element {
  const curves = useCurves();
  const vitals = createMemo(() => (curves() ?? []).filter((curve) => curve.kind === "vital"));
  const charts = createMemo(() => chartsOf(props.job.row.name, vitals(), { final: !isRunning(props.job) }));
  const look = createMemo(() => readLook(props.state));
  const evidence = createMemo(() => {
    const ids = [...new Set(props.job.diagnoses.flatMap((diagnosis) => diagnosis.evidence?.vitals ?? []))];
    const found = ids.flatMap((id) => charts().find((chart) => chart.members.some((member) => member.id === id)) ?? []).slice(0, MOST_EVIDENCE);
    return new Map(found.map((chart) => [chart.key, chart]));
  });
  const rest = createMemo(() => charts().filter((chart) => !evidence().has(chart.key)));
  const zoom = (range: [number, number] | null): void => props.state.set({ zoom: range?.map(String) });
  return (
    <>
      <Failure error={curves.error()} />
      <Show when={curves()}>
        <Show when={charts().length} fallback={<NoVitals job={props.job} />}>
          <Show when={evidence().size}>
            <h3 class="section-title">What the findings rest on</h3>
            <div class="chart-grid"><For each={[...evidence().keys()]}>{(key) => <ChartCard chart={evidence().get(key)!} look={look()} marks={marksOf(props.job, look())} height={190} cursor="job" onZoom={zoom} />}</For></div>
          </Show>
          <Show when={rest().length}>
            <h3 class="section-title">{evidence().size ? "Everything else that was watched" : "What was watched; no finding rests on it"}</h3>
            <ChartWall charts={rest()} state={props.state} cursor="job" closed marks={(shown) => marksOf(props.job, shown)} />
          </Show>
        </Show>
      </Show>
    </>
  );
}

function NoVitals(props: { job: Job }): JSX.Element {
  return (
    <Empty title="No vital figures were recorded.">
      <For each={props.job.gaps}>{(gap) => <p><Prose text={gap} /></p>}</For>
      <p>Run the script with <code>--rule all</code>: gradient norms, update ratios and shares of dead units are then measured at every step.</p>
    </Empty>
  );
}
