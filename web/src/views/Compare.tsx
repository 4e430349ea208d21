// Several jobs side by side: curves, what differs, and how results depend on it.
import { createEffect, createMemo, createSignal, For, type JSX, Show, untrack } from "solid-js";
import type { JobList } from "../api";
import { getJson } from "../client";
import type { ChartSpec, Member } from "../charts";
import { groupOf } from "../charts";
import { coloursOf, formatColours, parseColours } from "../colours";
import { BUT_SEEDS, groupJobs, isSeed, type JobGroup, qualitiesOf, type Quality, type Stat, STATS } from "../comparing";
import { type Asked, type Comparison, type Known, loadComparison } from "../comparison";
import { createFetched } from "../fetched";
import { grouped, plural } from "../format";
import { createLive } from "../live";
import { Empty, Failure } from "../parts/Card";
import { ChartWall } from "../parts/ChartWall";
import { Tabs } from "../parts/Tabs";
import { parsePlace } from "../location";
import { enter, homeAddress, jobAddress, state } from "../state";
import { CompareTable } from "./CompareTable";
import { CompareWith } from "./CompareWith";
import { attempt } from "../parts/Toast";
import { Parallel } from "./Parallel";
import { Scatter } from "./Scatter";

const TABS = [{ key: "curves", title: "Curves" }, { key: "table", title: "What differs" }, { key: "scatter", title: "Scatter" }, { key: "parallel", title: "Parallel coordinates" }];
const FINAL = new Set(["Completed", "Failed", "Stopped"]);
const MOST = 1000;

const tabOf = (): string => TABS.find((each) => each.key === state.text("tab"))?.key ?? "curves";

export interface Shown {
  compare: Comparison;
  qualities: Quality[];
  groups: JobGroup[] | null;
  colour: (job: number) => string;
  visible: (job: number) => boolean;
}

export function Compare(): JSX.Element {
  createEffect(() => (document.title = "Compare – Trackside"));
  // Jobs that are named, or all that match a query.
  const names = createFetched(
    () => ({ jobs: state.list("jobs"), q: state.text("q") }),
    async ({ jobs, q }, signal) => (jobs.length || !q ? jobs : (await getJson<JobList>("jobs", { q, limit: MOST }, signal)).rows.map((row) => row.name)),
  );
  let before: Known = { parts: new Map() };
  const stat = createMemo((): Stat => STATS.find(([key]) => key === state.text("stat"))?.[0] ?? "last");
  const step = createMemo(() => (stat() === "at" ? state.number("step") ?? 0 : undefined));
  const asked = createMemo((): Asked | null => (names()?.length ? { jobs: [...new Set(names())], at_step: step() } : null), undefined, { equals: (a, b) => JSON.stringify(a) === JSON.stringify(b) });
  const compare = createFetched(asked, async (body, signal): Promise<Comparison> => {
    const hurried = untrack(() => tabOf() !== "curves" || state.text("group") !== "");
    const loaded = await loadComparison(body, hurried, before, (some) => compare.put(some), signal);
    before = loaded;
    return loaded.found;
  });
  createLive(() => (compare()?.whole && compare()?.jobs.some((job) => !FINAL.has(job.status)) ? { jobs: 1 } : null), {
    jobs: ({ rows }) => { if (compare()?.whole && rows.some((row) => compare()?.jobs.some((job) => job.name === row.name && job.status !== row.status))) compare.refresh(); },
  });
  return (
    <>
      <Failure error={names.error() ?? compare.error()} />
      <Show when={compare.error()?.code === "job_not_found"}><p><button type="button" onClick={() => void attempt(leaveOut)}>Leave out the jobs that are gone</button></p></Show>
      <Show when={names()?.length === 0}><Empty title="No job is chosen."><p>Select jobs in the <a href={homeAddress()}>table</a>, then press Compare.</p></Empty></Show>
      <Show when={!compare()}><h1>Compare</h1></Show>
      <Show when={compare()}>{(loaded) => <Comparing compare={loaded()} stat={stat()} failed={!!compare.error()} />}</Show>
    </>
  );
}

// A link outlives its jobs.
async function leaveOut(): Promise<void> {
  const known = new Set<string>();
  for (let offset = 0, total = 1; offset < total; offset += MOST) {
    const found = await getJson<JobList>("jobs", { limit: MOST, offset });
    for (const row of found.rows) known.add(row.name);
    total = found.total;
  }
  state.set({ jobs: state.list("jobs").filter((name) => known.has(name)) });
}

function Comparing(props: { compare: Comparison; stat: Stat; failed: boolean }): JSX.Element {
  const [adding, setAdding] = createSignal(false);
  const [legend, setLegend] = createSignal(true);
  const own = createMemo(() => parseColours(state.list("colours")));
  const hidden = createMemo(() => new Set(state.list("hidden")));
  const jobs = (): Comparison["jobs"] => props.compare.jobs;
  const qualities = createMemo(() => qualitiesOf(props.compare, props.stat));
  const groups = createMemo(() => (state.text("group") && props.compare.whole ? groupJobs(qualities(), jobs().length, state.text("group")) : null));
  const names = createMemo(() => jobs().map((job) => job.name), undefined, { equals: same });
  const colours = createMemo(() => (groups() ? coloursOf(groups()!.map((group) => group.label), own()) : coloursOf(names(), own())));
  const labels = createMemo(() => new Map((groups() ?? []).flatMap((group) => group.members.map((job) => [job, group.label] as const))));
  const nameOf = (job: number): string => labels().get(job) ?? jobs()[job]!.name;
  const shown: Shown = {
    get compare() { return props.compare; },
    get qualities() { return qualities(); },
    get groups() { return groups(); },
    colour: (job) => colours().get(nameOf(job)) ?? "",
    visible: (job) => !hidden().has(nameOf(job)),
  };
  // Groups are of what differs, which is known when all jobs are read.
  const charts = createMemo(() => (state.text("group") && !props.compare.whole ? [] : chartsOf(props.compare, groups(), colours(), hidden())));
  // By name, so that what arrives later makes no new elements.
  const entries = createMemo(() => groups()?.map((group) => group.label) ?? names());
  const titles = createMemo(() => new Map(groups()?.map((group) => [group.label, `${group.label} (${group.members.length})`]) ?? jobs().map((job) => [job.name, job.shown])));
  const hide = (name: string): void => {
    const next = new Set(hidden());
    if (!next.delete(name)) next.add(name);
    state.set({ hidden: [...next] });
  };
  return (
    <>
      <header class="job-top">
        <h1 class="job-title"><a class="back" href={homeAddress()}>Jobs</a><span class="muted" aria-hidden="true"> / </span>Compare {plural(jobs().length, "job")}</h1>
        <span class="muted" role="status"><Show when={!props.compare.whole && !props.failed}>{reading(props.compare)}</Show></span>
        <div class="tools">
          <label class="field">Group by
            <select onChange={(event) => state.set({ group: event.currentTarget.value, hidden: null })}>
              <option value="">nothing</option>
              <Show when={qualities().some((quality) => isSeed(quality.name))}><option value={BUT_SEEDS} selected={state.text("group") === BUT_SEEDS}>all but the seed</option></Show>
              <For each={qualities().filter((quality) => quality.kind !== "metric")}>{(quality) => <option value={quality.key} selected={state.text("group") === quality.key}>{quality.kind === "hyperparameter" ? quality.name : `${quality.kind}: ${quality.name}`}</option>}</For>
            </select>
          </label>
          <button type="button" onClick={() => setAdding(true)}>Add jobs…</button>
          <button type="button" aria-expanded={legend()} onClick={() => setLegend(!legend())}>Legend</button>
        </div>
      </header>
      <Show when={legend()}>
        <ul class="job-legend" aria-label={groups() ? "Groups" : "Jobs"}>
          <For each={entries()}>{(name) => {
            const label = (): string => titles().get(name) ?? name;
            return (
              <li classList={{ off: hidden().has(name) }}>
                <input type="color" class="colour" aria-label={`Colour of ${label()}`} value={colours().get(name)} onChange={(event) => state.set({ colours: formatColours({ ...own(), [name]: event.currentTarget.value }) })} />
                <button type="button" class="quiet small cut" aria-pressed={!hidden().has(name)} title={`Show or hide ${label()}`} onClick={() => hide(name)}>{label()}</button>
                <Show when={!groups()}>
                  <a href={jobAddress(name)} aria-label={`Open ${label()}`}>↗</a>
                  <button type="button" class="quiet small" aria-label={`Remove ${label()}`} onClick={() => state.set({ jobs: names().filter((each) => each !== name), q: null })}>×</button>
                </Show>
              </li>
            );
          }}</For>
        </ul>
      </Show>
      <Tabs tabs={TABS} selected={tabOf()} onSelect={(key) => state.set({ tab: key === "curves" ? null : key }, true)} label="Comparison">
        <Show when={tabOf() === "curves"}>
          <Show when={charts().length} fallback={<Empty title={props.compare.whole ? "These jobs have logged no curves." : reading(props.compare)} />}>
            <ChartWall charts={charts()} state={state} cursor="compare" legend={false} axes={axesOf(props.compare)} onPick={(line) => !groups() && enter(parsePlace(jobAddress(line.split("\n")[0]!)))} />
          </Show>
        </Show>
        <Show when={tabOf() !== "curves"}>
          <div class="tools">
            <label class="field">Metrics
              <select onChange={(event) => state.set({ stat: event.currentTarget.value === "last" ? null : event.currentTarget.value })}><For each={STATS}>{([key, title]) => <option value={key} selected={key === props.stat}>{title}</option>}</For></select>
            </label>
            <Show when={props.stat === "at"}><label class="field">step<input type="number" min="0" value={state.number("step") ?? 0} onChange={(event) => state.set({ step: event.currentTarget.value })} /></label></Show>
            <Show when={props.compare.same}><span class="muted">{grouped(props.compare.same)} facts are the same in all and left out</span></Show>
          </div>
        </Show>
        <Show when={tabOf() === "table"}><Show when={props.compare.whole} fallback={<Empty title={reading(props.compare)} />}><CompareTable shown={shown} /></Show></Show>
        <Show when={tabOf() === "scatter"}><Scatter shown={shown} /></Show>
        <Show when={tabOf() === "parallel"}><Parallel shown={shown} /></Show>
      </Tabs>
      <Show when={adding()}><CompareWith jobs={names()} onClose={() => setAdding(false)} /></Show>
    </>
  );
}

const same = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((name, at) => name === b[at]);

// What differs is known when all are read.
const reading = (compare: Comparison): string => `${grouped(compare.read)} of ${plural(compare.jobs.length, "job")} read${compare.read < compare.jobs.length ? "" : "; finding what differs"}…`;

function chartsOf(compare: Comparison, groups: JobGroup[] | null, colours: Map<string, string>, hidden: ReadonlySet<string>): ChartSpec[] {
  return compare.metrics.map((metric) => {
    const member = (job: number): Member[] => {
      const { name, shown, status } = compare.jobs[job]!;
      const id = metric.ids[job];
      return id && !hidden.has(name) ? [{ job: name, id, label: shown, colour: colours.get(name) ?? "", final: FINAL.has(status) }] : [];
    };
    const members = compare.jobs.flatMap((_, job) => member(job));
    const chart: ChartSpec = { key: metric.name, title: metric.name, group: groupOf(metric.name), unit: "", members };
    if (groups) {
      chart.groups = groups.filter((group) => !hidden.has(group.label)).map((group) => ({ key: group.label, label: group.label, colour: colours.get(group.label) ?? "", members: group.members.flatMap(member) })).filter((group) => group.members.length);
    }
    return chart;
  }).filter((chart) => chart.groups?.length ?? chart.members.length);
}

// An id means the same metric in every job.
function axesOf(compare: Comparison): [string, string][] {
  return compare.metrics.flatMap((metric) => {
    const ids = new Set(metric.ids.filter((id) => id !== null));
    return ids.size === 1 ? [[[...ids][0]!, metric.name] as [string, string]] : [];
  });
}
