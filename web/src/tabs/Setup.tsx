// What the job was made of, and how to run it again.
import { createMemo, For, type JSX, Show } from "solid-js";
import type { Job, Setup as SetupData } from "../api";
import { apiAddress, getJson, part } from "../client";
import { createFetched } from "../fetched";
import { formatBytes, formatSeconds, formatTime, grouped, plural } from "../format";
import { Card, CopyButton, Failure } from "../parts/Card";
import { Facts, Table } from "../parts/Table";
import type { UrlState } from "../state";
import { Code, GIT_DIFF } from "./code/Code";
import { TextField } from "./Fields";
import "./tabs.css";

export function Setup(props: { job: Job; state: UrlState }): JSX.Element {
  const name = createMemo(() => props.job.row.name);
  const status = createMemo(() => `${props.job.row.status} ${props.job.row.secondary}`);
  const setup = createFetched(() => ({ job: name(), status: status() }), (asked, signal) => getJson<SetupData>(`jobs/${part(asked.job)}/setup`, {}, signal));
  return (
    <>
      <h2 class="off-screen">Setup</h2>
      <Failure error={setup.error()} />
      <Show when={setup()} fallback={<Show when={setup.loading()}><p class="muted">…</p></Show>}>{(loaded) => (
        <div class="setup">
          <Card title="Run it again" actions={<CopyButton text={loaded().command} label="Copy" />}>
            <pre class="command-text" tabIndex={0}>{loaded().command}</pre>
            <Show when={loaded().typed}>{(typed) => <p class="muted">Submitted by <code>{typed()}</code></p>}</Show>
            <For each={loaded().command_notes}>{(note) => <p class="muted">{note}</p>}</For>
          </Card>
          <div class="setup-parts">
            <Pairs title="Hyperparameters" pairs={loaded().hyperparameters} none="No hyperparameters." />
            <Card title="Made of">
              <Facts facts={madeOf(loaded(), props.state)} />
              <Show when={loaded().arguments.length}><h4>Arguments</h4><ol class="arguments"><For each={loaded().arguments}>{(each) => <li class="mono">{each}</li>}</For></ol></Show>
            </Card>
            <History history={loaded().history} />
            <Pairs title="Machine" pairs={loaded().machine} none="Nothing is known about the machine." />
            <Channels channels={loaded().channels} />
            <Artifacts job={name()} artifacts={loaded().artifacts} />
            <Pairs title="Environment" note="Secrets are masked." pairs={loaded().environment} none="No environment variables were given." />
            <Pairs title="Packages" pairs={loaded().packages} none="The packages are recorded when the script has ended." filter={props.state.text("package")} onFilter={(text) => props.state.set({ package: text })} />
          </div>
          <Code job={name()} setup={loaded()} state={props.state} />
        </div>
      )}</Show>
    </>
  );
}

function madeOf(setup: SetupData, state: UrlState): [string, JSX.Element][] {
  const facts: [string, JSX.Element][] = [];
  const git = setup.git;
  if (git) {
    facts.push(["Commit", <><span class="mono">{git.commit}</span> <CopyButton text={git.commit} /></>]);
    if (git.branch) facts.push(["Branch", git.branch]);
    if (git.remote) facts.push(["Remote", <span class="mono">{git.remote}</span>]);
    const change = git.is_changed === null ? "unknown" : git.is_changed ? "yes" : "none";
    facts.push(["Uncommitted change", git.diff ? <button type="button" class="small" onClick={() => {
      state.set({ file: GIT_DIFF, against: null });
      document.querySelector(".code")?.scrollIntoView();
    }}>show it</button> : change]);
  } else facts.push(["Commit", "not in a git repository"]);
  if (setup.python) facts.push(["Python", setup.python]);
  if (setup.image) facts.push(["Image", <span class="mono">{setup.image}</span>]);
  return facts;
}

const FILTER_FROM = 12;

function Pairs(props: { title: string; pairs: Record<string, string>; none: string; note?: string; filter?: string; onFilter?: (text: string) => void }): JSX.Element {
  const all = createMemo(() => Object.entries(props.pairs));
  const shown = createMemo(() => {
    const wanted = (props.filter ?? "").toLowerCase();
    return wanted ? all().filter(([name, value]) => `${name} ${value}`.toLowerCase().includes(wanted)) : all();
  });
  return (
    <Card title={<>{props.title} <Show when={all().length}><span class="count">{all().length}</span></Show></>}>
      <Show when={all().length} fallback={<p class="muted">{props.none}</p>}>
        <Show when={props.onFilter && all().length >= FILTER_FROM}><TextField label="Filter" value={props.filter ?? ""} onChange={props.onFilter!} /></Show>
        <div class="pairs" tabIndex={0} role="region" aria-label={props.title}><Facts facts={shown().map(([name, value]) => [name, <span class="mono">{value}</span>] as const)} /></div>
        <Show when={props.note}><p class="muted">{props.note}</p></Show>
      </Show>
    </Card>
  );
}

function Channels(props: { channels: SetupData["channels"] }): JSX.Element {
  return (
    <Card title="Data">
      <Show when={props.channels.length} fallback={<p class="muted">The job has no input channels.</p>}>
        <Table label="Input channels" rows={props.channels} columns={[
          { key: "name", title: "Channel", cell: (row) => row.name },
          { key: "location", title: "Location", cell: (row) => <span class="mono">{row.location}</span> },
          { key: "mode", title: "Mode", cell: (row) => row.mode },
          { key: "files", title: "Files", number: true, cell: (row) => (row.files === null ? "–" : grouped(row.files)) },
          { key: "bytes", title: "Size", number: true, cell: (row) => formatBytes(row.bytes) },
          { key: "digest", title: "Digest", cell: (row) => <span class="mono digest" title={row.digest}>{row.digest || "–"}</span> },
        ]} />
      </Show>
    </Card>
  );
}

function Artifacts(props: { job: string; artifacts: SetupData["artifacts"] }): JSX.Element {
  return (
    <Card title="Artifacts">
      <Show when={props.artifacts.length} fallback={<p class="muted">Nothing was stored yet.</p>}>
        <Table label="Artifacts" rows={props.artifacts} columns={[
          { key: "name", title: "Name", cell: (row) => (
            <Show when={!row.name.endsWith("/")} fallback={<>{row.name} <span class="mono muted">{row.location}</span> <CopyButton text={row.location} /></>}>
              <a href={apiAddress(`jobs/${part(props.job)}/artifact`, { name: row.name })} download="" title={row.location}>{row.name}</a>
            </Show>
          ) },
          { key: "bytes", title: "Size", number: true, cell: (row) => formatBytes(row.bytes) },
          { key: "modified", title: "Modified", number: true, cell: (row) => (row.modified === null ? "–" : formatTime(row.modified)) },
        ]} />
      </Show>
    </Card>
  );
}

function History(props: { history: SetupData["history"] }): JSX.Element {
  const lasted = (at: number): string => {
    const next = props.history[at + 1];
    return next ? formatSeconds(next.time - props.history[at]!.time) : "";
  };
  return (
    <Card title={`History: ${plural(props.history.length, "status", "statuses")}`}>
      <ol class="history">
        <For each={props.history}>{(entry, at) => (
          <li><b>{entry.status}</b> <time datetime={new Date(entry.time * 1000).toISOString()} class="muted">{formatTime(entry.time)}</time> <span class="muted">{lasted(at()) && `for ${lasted(at())}`}</span><Show when={entry.message}><div class="history-text">{entry.message}</div></Show></li>
        )}</For>
      </ol>
    </Card>
  );
}
