// One problem that several jobs share: when it began, where, and what changed then.
import { createSignal, For, type JSX, Show } from "solid-js";
import type { Issue, Sighting, Suspect } from "../api";
import { part, postJson, session } from "../client";
import { formatSeconds, formatTime, grouped, plural } from "../format";
import { Card } from "../parts/Card";
import { Dialog } from "../parts/Dialog";
import { Prose } from "../parts/Prose";
import { Sparkline } from "../parts/Sparkline";
import { Facts } from "../parts/Table";
import { attempt, toast } from "../parts/Toast";
import { shownName } from "../shownName";
import { compareAddress, jobAddress } from "../state";
import { tensorAddress } from "./links";
import "./tabs.css";

const STATES: Record<Issue["state"], string> = { open: "open", fixed: "fixed", muted: "muted", regressed: "came back after it was fixed" };

export function IssueView(props: { issue: Issue; onChange: (changed: Issue) => void }): JSX.Element {
  const [isMuting, setMuting] = createSignal(false);
  const put = async (change: { state: "open" | "fixed" | "muted"; more_jobs?: number }, said: string): Promise<void> => {
    await attempt(async () => {
      props.onChange(await postJson<Issue>(`issues/${part(props.issue.id)}`, change));
      toast(said);
    });
  };
  const isOpen = (): boolean => props.issue.state === "open" || props.issue.state === "regressed";
  const facts = (): [string, JSX.Element][] => [
    ["State", <><span class={`issue-state ${props.issue.state}`}>{STATES[props.issue.state]}</span><Show when={props.issue.mute}>{(mute) => <span class="muted"> until {plural(mute().more_jobs, "more job")} {mute().more_jobs === 1 ? "has" : "have"} it</span>}</Show><Show when={props.issue.said}>{(said) => <span class="muted">, said {said().by} {formatTime(said().time)}</span>}</Show></>],
    ["Jobs", `${grouped(props.issue.num_jobs)} of ${grouped(props.issue.of_jobs)}, ${formatSeconds(props.issue.seconds)} of training`],
    ["First seen", <Seen seen={props.issue.first} />],
    ["Last seen", <Seen seen={props.issue.last} />],
    ...(props.issue.place ? [["Layer", <span class="mono">{props.issue.place}</span>] as [string, JSX.Element]] : []),
    ...(props.issue.line ? [["Code", <span class="mono">{props.issue.line}</span>] as [string, JSX.Element]] : []),
    ["Cause", <span class="mono">{props.issue.cause}</span>],
  ];
  return (
    <article class="issue">
      <h1><Prose text={props.issue.title} /></h1>
      <p><Prose text={props.issue.message} /></p>
      <Show when={props.issue.advice}><p class="issue-advice"><b>Try:</b> <Prose text={props.issue.advice} /></p></Show>
      <Show when={session()?.rights !== "read"}>
        <div class="tool-buttons">
          <Show when={isOpen()} fallback={<button type="button" onClick={() => void put({ state: "open" }, "Opened again.")}>Open again</button>}>
            <button type="button" class="primary" onClick={() => void put({ state: "fixed" }, "Marked as fixed. If it appears in a later job, it comes back as regressed.")}>Mark as fixed</button>
            <button type="button" onClick={() => setMuting(true)}>Mute…</button>
          </Show>
        </div>
      </Show>
      <h2 class="off-screen">Details</h2>
      <div class="issue-parts">
        <div class="stack">
          <Card title="When and where" actions={<Sparkline values={props.issue.spark} bars label={`Sightings over time: ${props.issue.spark.join(", ")}`} />}><Facts facts={facts()} /></Card>
          <Card title={<>Jobs <span class="count">{props.issue.num_jobs}</span></>} actions={<Show when={props.issue.jobs.length > 1}><a class="card-link" href={compareAddress(props.issue.jobs)}>Compare them</a></Show>}>
            <ul class="issue-jobs"><For each={props.issue.jobs}>{(job) => <li><a href={jobAddress(job)}>{shownName(job)}</a></li>}</For></ul>
            <Show when={props.issue.num_jobs > props.issue.jobs.length}><p class="muted">The newest {props.issue.jobs.length}.</p></Show>
          </Card>
        </div>
        <Suspects issue={props.issue} />
      </div>
      <Show when={isMuting()}><Mute onClose={() => setMuting(false)} onMute={(more) => void put({ state: "muted", more_jobs: more }, "Muted.")} /></Show>
    </article>
  );
}

function Seen(props: { seen: Sighting }): JSX.Element {
  const address = (): string => (props.seen.tensor ? tensorAddress(props.seen.job, { tensor: props.seen.tensor, step: props.seen.step ?? undefined }) : jobAddress(props.seen.job));
  return <>{formatTime(props.seen.time)} in <a href={address()}>{props.seen.shown}<Show when={props.seen.step !== null}>, step {grouped(props.seen.step!)}</Show></a></>;
}

function Suspects(props: { issue: Issue }): JSX.Element {
  const healthy = (): string | null => props.issue.healthy;
  return (
    <Card title="What changed since the last healthy job" actions={<Show when={healthy()}>{(job) => <a class="card-link" href={compareAddress([job(), props.issue.sick])}>Compare both</a>}</Show>}>
      <Show when={healthy()} fallback={<p class="muted">No healthy job of the same script is known, so there is nothing to compare with.</p>}>{(job) => (
        <>
          <p>From <a href={jobAddress(job())}>{shownName(job())}</a> to <a href={jobAddress(props.issue.sick)}>{shownName(props.issue.sick)}</a>, likeliest first:</p>
          <Show when={props.issue.suspects.length} fallback={<p class="muted">Nothing that is recorded differs: same code, hyperparameters, packages, data and host.</p>}>
            <ol class="suspect-list"><For each={props.issue.suspects}>{(suspect) => <SuspectLine suspect={suspect} />}</For></ol>
            <Show when={props.issue.suspects.some((suspect) => suspect.kind === "code")}><p><a href={jobAddress(props.issue.sick, { tab: "setup", against: job() })}>All differences of the code</a></p></Show>
          </Show>
        </>
      )}</Show>
    </Card>
  );
}

function SuspectLine(props: { suspect: Suspect }): JSX.Element {
  return (
    <li>
      <span class="muted">{props.suspect.kind}</span> <b class="mono">{props.suspect.name}</b>
      <div class="change"><span class="off-screen">before:</span><del class="mono">{props.suspect.before.trim() || "(none)"}</del><span aria-hidden="true">→</span><span class="off-screen">after:</span><ins class="mono">{props.suspect.after.trim() || "(none)"}</ins></div>
    </li>
  );
}

function Mute(props: { onClose: () => void; onMute: (more: number) => void }): JSX.Element {
  const [more, setMore] = createSignal(10);
  const mute = (): void => {
    props.onMute(more());
    props.onClose();
  };
  return (
    <Dialog title="Mute this problem" onClose={props.onClose} actions={<button type="button" class="primary" disabled={!(more() >= 1)} onClick={mute}>Mute</button>}>
      <label class="field">Until so many more jobs have it
        <input type="number" min={1} max={1000000} step={1} value={more()} onInput={(event) => setMore(Math.floor(event.currentTarget.valueAsNumber))} onKeyDown={(event) => event.key === "Enter" && more() >= 1 && mute()} />
      </label>
    </Dialog>
  );
}
