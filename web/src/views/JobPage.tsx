// One job: the diagnosis, the evidence, then tabs.
import { type Component, createEffect, createMemo, createSignal, For, type JSX, Match, Show, Switch } from "solid-js";
import { Dynamic } from "solid-js/web";
import type { Job } from "../api";
import { getJson, part } from "../client";
import { createCurves, CurvesOfJob } from "../curvesOfJob";
import { createFetched } from "../fetched";
import { formatSeconds, formatTime, plural } from "../format";
import { useShortcuts } from "../keys";
import { createLive } from "../live";
import { Empty, Failure, Fold } from "../parts/Card";
import { Prose } from "../parts/Prose";
import { Table } from "../parts/Table";
import { type Tab, Tabs } from "../parts/Tabs";
import { Progress, Status } from "../columns";
import { shownName } from "../shownName";
import { homeAddress, state, type UrlState } from "../state";
import { Curves } from "../tabs/Curves";
import { Logs } from "../tabs/Logs";
import { Machine } from "../tabs/Machine";
import { Ranks } from "../tabs/Ranks";
import { Setup } from "../tabs/Setup";
import { Tensors } from "../tabs/Tensors";
import { Vitals } from "../tabs/Vitals";
import { CurveEvidence, DiagnosisView } from "./Diagnosis";
import { FirstTexts } from "./FirstTexts";
import { JobActions } from "./JobActions";

export interface TabProps { job: Job; state: UrlState }

interface JobTab { key: string; title: string; view: Component<TabProps>; has?: keyof Job["has"] }

const TABS: JobTab[] = [
  { key: "curves", title: "Curves", view: Curves, has: "curves" },
  { key: "vitals", title: "Vitals", view: Vitals, has: "vitals" },
  { key: "tensors", title: "Tensors", view: Tensors, has: "tensors" },
  { key: "ranks", title: "Ranks", view: Ranks, has: "ranks" },
  { key: "machine", title: "Machine", view: Machine, has: "machine" },
  { key: "logs", title: "Logs", view: Logs, has: "logs" },
  { key: "setup", title: "Setup", view: Setup },
];

export function JobPage(props: { name: string }): JSX.Element {
  const job = createFetched(() => props.name, (name, signal) => getJson<Job>(`jobs/${part(name)}`, {}, signal));
  createLive(() => ({ job: props.name }), { job: (event) => takeLive(job, event), gone: () => job.refresh(), open: (again) => again && job.refresh() });
  createEffect(() => (document.title = `${job()?.row.shown ?? shownName(props.name)} – Trackside`));
  return (
    <Show when={job.error()?.status !== 404 && job()} fallback={<Missing name={props.name} wasThere={!!job()} error={job.error()} />}>
      {(loaded) => <><Failure error={job.error()} /><JobView job={loaded()} onChange={() => job.refresh()} /></>}
    </Show>
  );
}

// A live event has no evidence: what is known stays, and a new diagnosis is fetched whole.
function takeLive(job: { (): Job | undefined; put: (job: Job) => void; refresh: () => void }, event: Job): void {
  const known = job();
  if (!known || known.diagnoses.length !== event.diagnoses.length || known.row.status !== event.row.status) job.refresh();
  else job.put({ ...known, ...event, diagnoses: event.diagnoses.map((diagnosis, at) => ({ ...known.diagnoses[at]!, ...diagnosis, evidence: known.diagnoses[at]!.evidence })) });
}

function JobView(props: { job: Job; onChange: () => void }): JSX.Element {
  const curves = createCurves(() => props.job);
  const tabs = createMemo((): Tab[] => TABS.map(({ key, title, has }) => ({ key, title, missing: has && !props.job.has[has] ? "Nothing was recorded for this" : undefined })), undefined, { equals: (a, b) => JSON.stringify(a) === JSON.stringify(b) });
  const selected = createMemo(() => TABS.find((tab) => tab.key === state.text("tab"))?.key ?? "curves");
  const select = (tab: string): void => state.set({ tab: tab === "curves" ? null : tab }, true);
  useShortcuts(TABS.map((tab, at) => ({ key: String(at + 1), does: tab.title, run: () => select(tab.key) })));
  return (
    <CurvesOfJob.Provider value={curves}>
      <header class="job-top">
        <div class="job-title">
          <h1 class="job-heading"><a class="back" href={homeAddress()} aria-label="All jobs">Jobs</a><span class="muted" aria-hidden="true"> / </span>{props.job.row.shown}</h1>
          <p class="job-facts">
            <Status row={props.job.row} /><Progress row={props.job.row} />
            <span>{formatSeconds(props.job.row.seconds)}</span>
            <span>started {formatTime(props.job.row.started ?? props.job.row.created)}</span>
            <Show when={props.job.row.owner}><span>{props.job.row.owner}</span></Show>
            <span>{plural(props.job.hosts.length || props.job.row.hosts, "host")}{props.job.workers.length > 1 ? `, ${plural(props.job.workers.length, "worker")}` : ""}</span>
            <Show when={props.job.attempts > 1}><span>{plural(props.job.attempts, "attempt")}</span></Show>
            <For each={Object.entries(props.job.row.tags)}>{([name, value]) => <span class="badge">{value ? `${name}=${value}` : name}</span>}</For>
          </p>
          <Show when={props.job.row.note}><p class="job-note">{props.job.row.note}</p></Show>
        </div>
        <JobActions job={props.job} onChange={props.onChange} />
      </header>
      <Verdict job={props.job} brief={selected() !== "curves"} />
      <Tabs tabs={tabs()} selected={selected()} onSelect={select} label="Parts of the job">
        <Dynamic component={TABS.find((tab) => tab.key === selected())!.view} job={props.job} state={state} />
      </Tabs>
    </CurvesOfJob.Provider>
  );
}

// In brief: without the evidence and the trace, so that the tab that was chosen is in view.
function Verdict(props: { job: Job; brief: boolean }): JSX.Element {
  const [rules, setRules] = createSignal(false);
  const [remarks, setRemarks] = createSignal(true);
  const more = (): boolean => state.flag("more");
  const isSick = (): boolean => !!props.job.diagnoses.length || !!props.job.failure;
  return (
    <section class="verdict" classList={{ sick: isSick(), unknown: !isSick() && !props.job.sentence.startsWith("Healthy") }} aria-label="What is wrong">
      <p class="sentence" role="heading" aria-level={2}><Prose text={props.job.sentence} /></p>
      <Show when={props.job.diagnoses[0]}>{(diagnosis) => <DiagnosisView job={props.job} diagnosis={diagnosis()} isFirst brief={props.brief} />}</Show>
      <Show when={!props.brief}><FirstTexts job={props.job} /></Show>
      <Show when={props.job.failure}>{(failure) => (
        <div class="job-failure">
          <Show when={failure().words}><p><b>Cause:</b> {failure().words}{failure().host && props.job.hosts.length > 1 ? ` on ${failure().host}` : ""}</p></Show>
          <Show when={failure().hint}><p><b>Try:</b> <Prose text={failure().hint} /></p></Show>
          <Show when={!props.brief}>
            <pre class="trace" tabIndex={0} aria-label="How the job failed">{failure().text}</pre>
            <Show when={failure().curves.length}><CurveEvidence job={props.job} ids={failure().curves} /></Show>
            <Show when={failure().tail}><pre class="trace" tabIndex={0} aria-label={`The last lines of ${failure().host}`}>{failure().tail}</pre></Show>
          </Show>
        </div>
      )}</Show>
      <Show when={!props.brief && props.job.diagnoses.length > 1}>
        <Fold title={plural(props.job.diagnoses.length - 1, "further diagnosis", "further diagnoses")} open={more()} onToggle={(open) => state.set({ more: open })}>
          <For each={props.job.diagnoses.slice(1)}>{(diagnosis) => <DiagnosisView job={props.job} diagnosis={diagnosis} isFirst={false} brief={false} />}</For>
        </Fold>
      </Show>
      <Show when={!props.brief && props.job.remarks.length}>
        <Fold title={`${plural(props.job.remarks.length, "possible mistake")}, by reading the script`} open={remarks()} onToggle={setRemarks}>
          <ul class="finding-list"><For each={props.job.remarks}>{(remark) => <li><code>{remark.line}</code> <Prose text={remark.message} /> <b>Try:</b> <Prose text={remark.advice} /></li>}</For></ul>
        </Fold>
      </Show>
      <Show when={!props.brief && props.job.gaps.length}><ul class="gaps"><For each={props.job.gaps}>{(gap) => <li><Prose text={gap} /></li>}</For></ul></Show>
      <Show when={!props.brief && props.job.rules.length}>
        <Fold title="Rules that watched it" count={props.job.rules.length} open={rules()} onToggle={setRules}>
          <Table label="Rules" rows={props.job.rules} columns={[
            { key: "rule", title: "Rule", cell: (rule) => rule.rule },
            { key: "configuration", title: "Configuration", cell: (rule) => rule.configuration },
            { key: "status", title: "Status", cell: (rule) => rule.status },
            { key: "details", title: "Details", cell: (rule) => <Prose text={rule.details} />, wide: true },
          ]} />
        </Fold>
      </Show>
    </section>
  );
}

function Missing(props: { name: string; wasThere: boolean; error: { status: number; message: string; advice: string } | null }): JSX.Element {
  return (
    <Switch fallback={<><h1 class="job-heading"><a class="back" href={homeAddress()} aria-label="All jobs">Jobs</a><span class="muted" aria-hidden="true"> / </span>{shownName(props.name)}</h1><p class="loading muted" aria-busy="true">…</p></>}>
      <Match when={props.error?.status === 404}><Empty title={props.wasThere ? `The job ${shownName(props.name)} was deleted.` : `There is no job ${shownName(props.name)}.`}><a href={homeAddress()}>All jobs</a></Empty></Match>
      <Match when={props.error}><Failure error={props.error} /></Match>
    </Switch>
  );
}
