// One diagnosis: where, what to try, and the evidence: curves with the mark, heat map, log lines of that second.
import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import type { Diagnosis, Job, LogPage } from "../api";
import { chartsOf } from "../charts";
import { getFrame, getJson, part } from "../client";
import { useCurves } from "../curvesOfJob";
import { createFetched } from "../fetched";
import { formatClock, formatNumber, grouped, plural } from "../format";
import { Card, Fold } from "../parts/Card";
import { ChartCard, type Look } from "../parts/ChartCard";
import { Prose } from "../parts/Prose";
import { issueAddress, state } from "../state";
import type { HeatData } from "../tabs/heat/cells";
import { logAddress, tensorAddress } from "../tabs/links";
import { marksOf } from "../tabs/Curves";
import { isRunning } from "../tabs/pulse";
import { HeatThumb } from "./HeatThumb";

const LOOK: Look = { x: "step", smooth: 0, log: false, all: false, zoom: null };
const MOST_CURVES = 2;
const LINES = 9;
const PLOT = 150;

export function DiagnosisView(props: { job: Job; diagnosis: Diagnosis; isFirst: boolean; brief: boolean }): JSX.Element {
  const [findings, setFindings] = createSignal(false);
  const job = (): string => props.job.row.name;
  const place = (): string | null => {
    const { tensor, step, evidence } = props.diagnosis;
    return tensor ? tensorAddress(job(), { kind: evidence?.heat?.kind, figure: evidence?.heat?.figure, tensor, step: step ?? undefined }) : null;
  };
  return (
    <article class="diagnosis">
      <Show when={!props.isFirst}><p class="diagnosis-sentence"><Prose text={props.diagnosis.sentence} /></p></Show>
      <p class="diagnosis-place">
        <Show when={props.diagnosis.step !== null}><a href={props.diagnosis.tensor ? place()! : logAddress(job(), { at: `step:${props.diagnosis.step}` })}>step {grouped(props.diagnosis.step!)}</a></Show>
        <Show when={place()}>{(address) => <span>at <a class="mono" href={address()}>{props.diagnosis.tensor}</a></span>}</Show>
        <Show when={props.diagnosis.line}><span class="mono">{props.diagnosis.line}</span></Show>
        <Show when={props.diagnosis.worker && props.job.workers.length > 1}><span>{props.diagnosis.worker}</span></Show>
        <Show when={props.diagnosis.value !== null && props.diagnosis.threshold !== null && props.diagnosis.value !== props.diagnosis.threshold}><span>value {formatNumber(props.diagnosis.value)}, limit {formatNumber(props.diagnosis.threshold)}</span></Show>
        <Show when={props.diagnosis.certainty}><span class={`badge certainty-${props.diagnosis.certainty}`}>{props.diagnosis.certainty}</span></Show>
        <span class="muted">{props.diagnosis.cause}</span>
        <Show when={props.diagnosis.issue}><a href={issueAddress(props.diagnosis.issue)}>in other jobs, too?</a></Show>
      </p>
      <Show when={props.diagnosis.advice}><p class="advice"><b>Try:</b> <Prose text={props.diagnosis.advice} /></p></Show>
      <Show when={!props.brief && hasEvidence(props.diagnosis)}><Evidence job={props.job} diagnosis={props.diagnosis} /></Show>
      <Show when={!props.brief && (props.diagnosis.num_findings > 1 || props.diagnosis.explains.length)}>
        <Fold title={`${plural(props.diagnosis.num_findings, "finding")}${props.diagnosis.explains.length ? `; explains ${props.diagnosis.explains.join(", ")}` : ""}`} open={findings()} onToggle={setFindings}>
          <ul class="finding-list"><For each={props.diagnosis.findings}>{(finding) => <li><b>{finding.rule}</b> {finding.step === null ? "" : `step ${grouped(finding.step)} `}<Prose text={finding.message} /></li>}</For></ul>
        </Fold>
      </Show>
    </article>
  );
}

const hasEvidence = ({ evidence }: Diagnosis): boolean => !!evidence && !!(evidence.curves.length || evidence.vitals.length || evidence.heat || evidence.log);

// Charts of curves that show why, over steps; a machine's figures have none, and are over time.
export function CurveEvidence(props: { job: Job; ids: string[]; diagnosis?: Diagnosis }): JSX.Element {
  const curves = useCurves();
  const look = (): Look => ({ ...LOOK, x: props.diagnosis ? "step" : "relative" });
  const charts = createMemo(() => {
    const all = chartsOf(props.job.row.name, curves() ?? [], { final: !isRunning(props.job) });
    const found = props.ids.flatMap((id) => all.find((chart) => chart.members.some((member) => member.id === id)) ?? []);
    return new Map(found.map((chart) => [chart.key, chart]));
  });
  const keys = createMemo(() => [...charts().keys()].slice(0, MOST_CURVES));
  const mark = createMemo(() => marksOf({ ...props.job, diagnoses: props.diagnosis ? [props.diagnosis] : [] }, look()));
  return <For each={keys()}>{(key) => <ChartCard chart={charts().get(key)!} look={look()} marks={mark()} height={PLOT} cursor="evidence" onZoom={(range) => state.set({ zoom: range?.map(String), tab: null })} />}</For>;
}

function Evidence(props: { job: Job; diagnosis: Diagnosis }): JSX.Element {
  const ids = createMemo(() => [...props.diagnosis.evidence.curves, ...props.diagnosis.evidence.vitals]);
  return (
    <div class="evidence">
      <CurveEvidence job={props.job} ids={ids()} diagnosis={props.diagnosis} />
      <Show when={props.diagnosis.evidence.heat}><HeatEvidence job={props.job} diagnosis={props.diagnosis} /></Show>
      <Show when={props.diagnosis.evidence.log}><LogEvidence job={props.job} diagnosis={props.diagnosis} /></Show>
    </div>
  );
}

function HeatEvidence(props: { job: Job; diagnosis: Diagnosis }): JSX.Element {
  const asked = createMemo(() => JSON.stringify([props.job.row.name, props.diagnosis.evidence.heat, props.diagnosis.step]));
  const heat = createFetched(asked, async (_, signal) => {
    const [item] = await getFrame<Omit<HeatData, "cells" | "starts" | "steps">>(`jobs/${part(props.job.row.name)}/heat`, { ...props.diagnosis.evidence.heat, mode: props.diagnosis.mode, worker: props.diagnosis.worker, columns: 200 }, signal);
    return item && ({ ...item, ...(item.arrays as unknown as Pick<HeatData, "cells" | "starts" | "steps">) });
  });
  const address = (): string => tensorAddress(props.job.row.name, { ...props.diagnosis.evidence.heat, tensor: props.diagnosis.tensor || undefined, step: props.diagnosis.step ?? undefined });
  return (
    <Show when={heat()?.names.length}>
      <Card class="heat-evidence" title={<a href={address()}>{props.diagnosis.evidence.heat!.kind}, {props.diagnosis.evidence.heat!.figure}</a>}>
        <a href={address()} aria-label={`Open the heat map of ${props.diagnosis.evidence.heat!.kind}`}><HeatThumb data={heat()!} step={props.diagnosis.step} tensor={props.diagnosis.tensor} /></a>
      </Card>
    </Show>
  );
}

function LogEvidence(props: { job: Job; diagnosis: Diagnosis }): JSX.Element {
  const where = createMemo(() => props.diagnosis.evidence.log!, undefined, { equals: (a, b) => a.host === b.host && a.time === b.time });
  const log = createFetched(where, (at, signal) => getJson<LogPage>(`jobs/${part(props.job.row.name)}/log`, { host: at.host, at: `time:${at.time}`, count: LINES }, signal));
  const isThen = (time: number): boolean => Math.abs(time - where().time) < 1;
  return (
    <Show when={log()?.lines.length}>
      <Card class="log-evidence" title={<a href={logAddress(props.job.row.name, { host: where().host, at: `time:${where().time}` })}>Log at {formatClock(where().time)}</a>}>
        <ol class="log-lines" tabIndex={0} aria-label="Log lines of that second"><For each={log()!.lines}>{(line) => <li classList={{ then: isThen(line.time) }}>{plain(line.text) || " "}</li>}</For></ol>
      </Card>
    </Show>
  );
}

// Without the codes that colour a terminal.
const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");
