// Problems of all jobs, one line each: what, since when, where first, and what changed then.
import { createEffect, createMemo, For, type JSX, onCleanup, Show } from "solid-js";
import type { Issue, Suspect } from "../api";
import { getJson, part, postJson, session } from "../client";
import { createFetched } from "../fetched";
import { ago, formatSeconds, formatTime, plural } from "../format";
import { createLive } from "../live";
import { Failure } from "../parts/Card";
import { Prose } from "../parts/Prose";
import { Sparkline } from "../parts/Sparkline";
import { attempt, toast } from "../parts/Toast";
import { issueAddress, jobAddress, state } from "../state";

const SHOWN = 5;
const FEW = 3;                         // jobs whose course over time is worth a picture
const UNREAD_MS = 2000;

export function Problems(): JSX.Element {
  const all = (): boolean => state.flag("settled");
  const query = (): { q: string; state: string } => ({ q: "", state: all() ? "open,regressed,muted,fixed" : "open,regressed" });
  const issues = createFetched(query, (asked, signal) => getJson<{ issues: Issue[]; sentence: string; num_unread?: number }>("issues", asked, signal));
  // Older jobs are read in the background after a start.
  createEffect(() => {
    if (!issues()?.num_unread) return;
    const timer = setTimeout(issues.refresh, UNREAD_MS);
    onCleanup(() => clearTimeout(timer));
  });
  createLive(() => ({ issues: 1 }), { issues: () => issues.refresh(), open: (again) => again && issues.refresh() });
  const shown = createMemo(() => (state.flag("problems") ? issues()?.issues : issues()?.issues.slice(0, SHOWN)) ?? []);
  const more = (): number => (issues()?.issues.length ?? 0) - shown().length;
  return (
    <section class="problems" aria-label="Problems">
      <header class="problems-head">
        <h1>{issues()?.sentence ?? (issues.error() ? "The problems cannot be shown." : " ")}</h1>
        <button type="button" class="quiet small" aria-pressed={all()} onClick={() => state.set({ settled: !all() })}>fixed and muted</button>
      </header>
      <Failure error={issues.error()} />
      <ul class="problem-list">
        <For each={shown()}>{(issue) => <Problem issue={issue} onChange={() => issues.refresh()} />}</For>
      </ul>
      <Show when={more() > 0 || (state.flag("problems") && shown().length > SHOWN)}>
        <button type="button" class="quiet" onClick={() => state.set({ problems: !state.flag("problems") })}>{more() > 0 ? `${plural(more(), "more problem")}` : "fewer"}</button>
      </Show>
    </section>
  );
}

function Problem(props: { issue: Issue; onChange: () => void }): JSX.Element {
  return (
    <li class={`problem problem-${props.issue.state}`}>
      <div class="problem-text">
        <a class="problem-title" href={issueAddress(props.issue.id)}><Prose text={props.issue.title} /></a>
        <p class="problem-facts">
          <Show when={props.issue.state !== "open"}><span class={`badge badge-${props.issue.state}`}>{props.issue.state}</span></Show>
          <span>last {ago(props.issue.last.time)} in <a href={jobAddress(props.issue.last.job)}>{props.issue.last.shown}</a></span>
          <Show when={props.issue.first.job !== props.issue.last.job}><span>first {formatTime(props.issue.first.time)} in <a href={jobAddress(props.issue.first.job)}>{props.issue.first.shown}</a></span></Show>
          <span>{plural(props.issue.num_jobs, "job")}, {formatSeconds(props.issue.seconds)} of training</span>
          <Show when={props.issue.suspects.length}><span class="suspects">changed since {props.issue.healthy ? <a href={jobAddress(props.issue.healthy)}>the last healthy job</a> : "then"}: <For each={props.issue.suspects.slice(0, 3)}>{(suspect, at) => <>{at() ? ", " : ""}<SuspectText suspect={suspect} /></>}</For></span></Show>
        </p>
      </div>
      <Show when={props.issue.num_jobs >= FEW}><Sparkline values={props.issue.spark} label="Sightings over time" bars width={64} height={20} /></Show>
      <IssueButtons issue={props.issue} onChange={props.onChange} />
    </li>
  );
}

export function SuspectText(props: { suspect: Suspect }): JSX.Element {
  const change = (): string => {
    const { kind, before, after } = props.suspect;
    if (kind === "code") return "";
    return ` ${before || "none"} → ${after || "none"}`;
  };
  return <span class="suspect" title={`${props.suspect.kind}: ${props.suspect.before} → ${props.suspect.after}`}><b>{props.suspect.name}</b>{change()}</span>;
}

export function IssueButtons(props: { issue: Issue; onChange: () => void }): JSX.Element {
  const put = (next: "open" | "fixed" | "muted", said: string): Promise<boolean> => attempt(async () => {
    await postJson<Issue>(`issues/${part(props.issue.id)}`, next === "muted" ? { state: next, more_jobs: 10 } : { state: next });
    toast(said);
    props.onChange();
  });
  const settled = (): boolean => props.issue.state === "fixed" || props.issue.state === "muted";
  return (
    <Show when={session()?.rights !== "read"}>
      <div class="problem-buttons">
        <Show when={!settled()} fallback={<button type="button" class="small" onClick={() => void put("open", "The problem is open again.")}>Reopen</button>}>
          <button type="button" class="small" title="It comes back as regressed if a later job has it again" onClick={() => void put("fixed", "Marked as fixed. It comes back if a later job has it.")}>Fixed</button>
          <button type="button" class="small" title="Hidden until ten more jobs have it" onClick={() => void put("muted", "Muted until ten more jobs have it.")}>Mute</button>
        </Show>
      </div>
    </Show>
  );
}
