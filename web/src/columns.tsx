// Columns of the job table: what each is called, how wide it is, what it shows.
import { type JSX, Show } from "solid-js";
import type { JobRow, Num } from "./api";
import { session } from "./client";
import { ago, formatNumber, formatSeconds, formatTime, plural } from "./format";
import { Prose } from "./parts/Prose";
import { Sparkline } from "./parts/Sparkline";
import { plainText } from "./prose";
import { jobAddress } from "./state";

export interface JobColumn { key: string; title: string; width: string; cell: (row: () => JobRow) => JSX.Element; number?: boolean; first?: "desc" }

const COLUMNS: JobColumn[] = [
  { key: "name", title: "Job", width: "minmax(150px, 1.6fr)", cell: (row) => <JobName row={row()} /> },
  { key: "owner", title: "Owner", width: "minmax(56px, 84px)", cell: (row) => <span class="cut">{row().owner}</span> },
  { key: "status", title: "Status", width: "104px", cell: (row) => <Status row={row()} /> },
  { key: "progress", title: "Progress", width: "116px", cell: (row) => <Progress row={row()} />, first: "desc" },
  { key: "seconds", title: "Duration", width: "104px", cell: (row) => formatSeconds(row().seconds), number: true, first: "desc" },
  { key: "loss", title: "Last loss", width: "150px", cell: (row) => <Loss row={row()} />, number: true },
  { key: "findings", title: "Findings", width: "minmax(120px, 2.4fr)", cell: (row) => <Findings row={row()} />, first: "desc" },
  { key: "use", title: "Host use, %", width: "minmax(112px, 150px)", cell: (row) => <Use row={row()} />, first: "desc" },
  { key: "created", title: "Created", width: "108px", cell: (row) => <span title={new Date(row().created * 1000).toLocaleString()}>{formatTime(row().created)}</span>, number: true, first: "desc" },
  { key: "tags", title: "Tags", width: "minmax(80px, 1fr)", cell: (row) => <span class="cut">{Object.entries(row().tags).map(([name, value]) => (value ? `${name}=${value}` : name)).join(" ")}</span> },
  { key: "note", title: "Note", width: "minmax(80px, 1fr)", cell: (row) => <span class="cut" title={row().note}>{row().note}</span> },
  { key: "hosts", title: "Hosts", width: "60px", cell: (row) => row().hosts, number: true, first: "desc" },
];
export const BUILT_IN = COLUMNS.map((column) => column.key);
const DEFAULT = ["name", "owner", "status", "progress", "seconds", "loss", "findings", "use"];

// On one's own machine all jobs have the same owner.
export const defaultColumns = (): string[] => (session()?.is_server ? DEFAULT : DEFAULT.filter((key) => key !== "owner"));

export function columnOf(key: string): JobColumn {
  const known = COLUMNS.find((column) => column.key === key);
  if (known) return known;
  const cut = key.indexOf(".");
  return { key, title: key.slice(cut + 1), width: "minmax(72px, 128px)", cell: (row) => <Value value={row().values[key]} />, number: !key.startsWith("tag."), first: key.startsWith("metric.") ? "desc" : undefined };
}

export const isLive = (row: JobRow): boolean => !["Completed", "Failed", "Stopped"].includes(row.status);

export function JobName(props: { row: JobRow }): JSX.Element {
  return (
    <a class="job-name cut" href={jobAddress(props.row.name)} title={props.row.note || props.row.shown}>
      <Show when={isLive(props.row)}><span class="live-dot" aria-hidden="true" /></Show>{props.row.shown}
    </a>
  );
}

export function Status(props: { row: JobRow }): JSX.Element {
  const text = (): string => ({ InProgress: "Running" })[props.row.status] ?? props.row.status;
  const title = (): string => `${props.row.secondary}${props.row.ended ? `, ended ${ago(props.row.ended)}` : ""}`;
  return <span class={`status status-${props.row.status}`} title={title()}>{isLive(props.row) && props.row.secondary && props.row.secondary !== "Training" ? props.row.secondary : text()}</span>;
}

export function Progress(props: { row: JobRow }): JSX.Element {
  return (
    <Show when={props.row.progress}>{(progress) => (
      <span class="progress">
        <Show when={progress().of}>{(of) => <progress max={of()} value={Math.min(progress().step, of())} aria-label="Progress" />}</Show>
        <span class="progress-text">{progress().of ? "" : "step "}{formatNumber(progress().step)}</span>
      </span>
    )}</Show>
  );
}

export function Loss(props: { row: JobRow }): JSX.Element {
  return (
    <Show when={props.row.loss}>{(loss) => (
      <span class="loss" title={loss().name}>
        <Sparkline values={loss().spark} label={`Course of ${loss().name}`} />
        <span class="loss-value" classList={{ bad: typeof loss().last === "string" }}>{formatNumber(loss().last)}</span>
      </span>
    )}</Show>
  );
}

// Why it failed comes before what rules had found until then.
export function Findings(props: { row: JobRow }): JSX.Element {
  const count = (): number => props.row.findings?.count ?? 0;
  const said = (): string => [props.row.failure, props.row.findings?.sentence].filter(Boolean).join(" ");
  return (
    <Show when={said()}>
      <span class="finding cut" title={`${count() ? `${plural(count(), "finding")}. ` : ""}${plainText(said())}`}>
        <Show when={count() > 1}><b class="finding-count">{count()}</b> </Show><Prose text={said()} />
      </span>
    </Show>
  );
}

export function Use(props: { row: JobRow }): JSX.Element {
  return (
    <Show when={props.row.use}>{(use) => (
      <span class="use">
        <Bar name="CPU" value={use().cpu} /><Bar name="memory" value={use().memory} /><Bar name="GPU" value={use().gpu} />
      </span>
    )}</Show>
  );
}

function Bar(props: { name: string; value: number | null }): JSX.Element {
  return (
    <Show when={props.value !== null}>
      <span class="use-part" title={`${props.name} ${Math.round(props.value!)} %`}>
        <span class="use-name">{props.name === "memory" ? "RAM" : props.name}</span>{Math.round(props.value!)}
      </span>
    </Show>
  );
}

function Value(props: { value: string | Num | undefined }): JSX.Element {
  return <span class="cut">{props.value === undefined ? "" : typeof props.value === "number" ? formatNumber(props.value) : props.value}</span>;
}
