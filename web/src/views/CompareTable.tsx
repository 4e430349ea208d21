// Only what differs. Few jobs are columns; many are rows, of which only those in view exist.
import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import { matcher } from "../charts";
import { bestOf, type Quality, sortedBy } from "../comparing";
import { toCsv } from "../csv";
import { download } from "../download";
import { formatNumber } from "../format";
import { Empty } from "../parts/Card";
import { SortArrow } from "../parts/Table";
import { VirtualList } from "../parts/VirtualList";
import { jobAddress, state } from "../state";
import type { Shown } from "./Compare";

const MOST_COLUMNS = 8;
const ROW = 30;

export function CompareTable(props: { shown: Shown }): JSX.Element {
  const fits = createMemo(() => matcher(state.text("rows")));
  const rows = createMemo(() => props.shown.qualities.filter((quality) => fits()(quality.name) || fits()(quality.key)));
  const jobs = createMemo(() => {
    const sorted = sortedBy(props.shown.qualities.find((quality) => quality.key === state.text("sort")), props.shown.compare.jobs.length, state.text("desc") === "1");
    return sorted.filter((job) => props.shown.visible(job));
  });
  const turned = (): boolean => (state.text("turn") ? state.text("turn") === "1" : jobs().length > MOST_COLUMNS);
  const best = createMemo(() => new Map(props.shown.qualities.map((quality) => [quality.key, bestOf(quality)])));
  const sort = (key: string): void => state.set(state.text("sort") === key ? { desc: state.text("desc") === "1" ? null : "1" } : { sort: key, desc: null });
  const save = (): void => {
    const head = ["job", ...rows().map((quality) => quality.key)];
    const lines = jobs().map((job) => [props.shown.compare.jobs[job]!.name, ...rows().map((quality) => quality.values[job] ?? "")]);
    download("compare.csv", new Blob([toCsv([head, ...lines])], { type: "text/csv" }));
  };
  return (
    <>
      <div class="tools">
        <input type="search" class="find" aria-label="Find rows by a regular expression" placeholder="Find rows: lr|batch" value={state.text("rows")} onInput={(event) => state.set({ rows: event.currentTarget.value })} />
        <button type="button" aria-pressed={turned()} onClick={() => state.set({ turn: turned() ? "0" : "1" })}>Jobs as rows</button>
        <button type="button" onClick={save}>csv</button>
        <Show when={jobs().length > 1 && props.shown.qualities.some((quality) => quality.kind === "code")}><CodeLink shown={props.shown} jobs={jobs()} /></Show>
      </div>
      <Show when={rows().length} fallback={<Empty title={props.shown.qualities.length ? "No row has such a name." : "These jobs do not differ in anything that was recorded."} />}>
        <Show when={turned()} fallback={<Upright shown={props.shown} rows={rows()} jobs={jobs()} best={best()} onSort={sort} />}>
          <Turned shown={props.shown} columns={rows()} jobs={jobs()} best={best()} onSort={sort} />
        </Show>
      </Show>
    </>
  );
}

// Code line by line is of two jobs: the Setup tab of one shows it against another.
function CodeLink(props: { shown: Shown; jobs: number[] }): JSX.Element {
  const [pair, setPair] = createSignal<[number, number]>([0, 1]);
  const name = (at: number): string => props.shown.compare.jobs[props.jobs[at] ?? props.jobs[0]!]!.name;
  const pick = (which: 0 | 1): JSX.Element => (
    <select aria-label={which ? "Second job" : "First job"} onChange={(event) => setPair((before) => (which ? [before[0], Number(event.currentTarget.value)] : [Number(event.currentTarget.value), before[1]]))}>
      <For each={props.jobs}>{(job, at) => <option value={at()} selected={pair()[which] === at()}>{props.shown.compare.jobs[job]!.shown}</option>}</For>
    </select>
  );
  return (
    <span class="code-link">
      <a href={jobAddress(name(pair()[1]), { tab: "setup", against: name(pair()[0]) })}>Code line by line</a>
      <Show when={props.jobs.length > 2}>{pick(0)}{pick(1)}</Show>
    </span>
  );
}

interface Parts { shown: Shown; jobs: number[]; best: Map<string, number>; onSort: (key: string) => void }

const sorting = (key: string): "ascending" | "descending" | undefined => (state.text("sort") === key ? (state.text("desc") === "1" ? "descending" : "ascending") : undefined);

function SortName(props: { quality: Quality; onSort: (key: string) => void }): JSX.Element {
  return (
    <button type="button" class="sort cut" title={`${props.quality.kind}: ${props.quality.name}; sorts the jobs`} onClick={() => props.onSort(props.quality.key)}>
      {props.quality.name}<SortArrow on={state.text("sort") === props.quality.key} desc={state.text("desc") === "1"} />
    </button>
  );
}

function JobHead(props: { shown: Shown; job: number }): JSX.Element {
  return <><i class="swatch" style={{ background: props.shown.colour(props.job) }} /><a href={jobAddress(props.shown.compare.jobs[props.job]!.name)}>{props.shown.compare.jobs[props.job]!.shown}</a></>;
}

function Value(props: { quality: Quality; job: number }): JSX.Element {
  const text = (): string => {
    const value = props.quality.values[props.job];
    if (value === null || value === undefined) return "–";
    return props.quality.kind === "metric" ? formatNumber(props.quality.numbers[props.job]) : value;
  };
  return <span title={props.quality.values[props.job] ?? "none"}>{text()}</span>;
}

function Upright(props: Parts & { rows: Quality[] }): JSX.Element {
  return (
    <div class="table-box compare-table" tabIndex={0} role="region" aria-label="What differs">
      <table class="table">
        <thead><tr><th scope="col">Kind</th><th scope="col">Name</th><For each={props.jobs}>{(job) => <th scope="col"><JobHead shown={props.shown} job={job} /></th>}</For></tr></thead>
        <tbody><For each={props.rows}>{(quality) => (
          <tr>
            <td class="muted">{quality.kind}</td>
            <th scope="row" aria-sort={sorting(quality.key)}><SortName quality={quality} onSort={props.onSort} /></th>
            <For each={props.jobs}>{(job) => <td classList={{ number: quality.isNumeric, best: props.best.get(quality.key) === job }}><Value quality={quality} job={job} /></td>}</For>
          </tr>
        )}</For></tbody>
      </table>
    </div>
  );
}

function Turned(props: Parts & { columns: Quality[] }): JSX.Element {
  const template = createMemo(() => `minmax(160px, 220px) repeat(${props.columns.length}, minmax(90px, 140px))`);
  return (
    <div class="table-box compare-table turned" tabIndex={0} role="table" aria-label="What differs" aria-rowcount={props.jobs.length + 1}>
      <div role="rowgroup"><div role="row" class="turned-row turned-head" aria-rowindex={1} style={{ "grid-template-columns": template() }}>
        <span role="columnheader">Job</span>
        <For each={props.columns}>{(quality) => <span role="columnheader" aria-sort={sorting(quality.key)} classList={{ number: quality.isNumeric }}><SortName quality={quality} onSort={props.onSort} /></span>}</For>
      </div></div>
      <VirtualList count={props.jobs.length} rowHeight={ROW} within="window" role="rowgroup">
        {(index) => (
          <div role="row" class="turned-row" aria-rowindex={index + 2} style={{ "grid-template-columns": template() }}>
            <span role="rowheader" class="cut"><JobHead shown={props.shown} job={props.jobs[index]!} /></span>
            <For each={props.columns}>{(quality) => <span role="cell" class="cut" classList={{ number: quality.isNumeric, best: props.best.get(quality.key) === props.jobs[index] }}><Value quality={quality} job={props.jobs[index]!} /></span>}</For>
          </div>
        )}
      </VirtualList>
    </div>
  );
}
