// The job's code: its files, and where it differs from another job's.
import { createMemo, createUniqueId, For, type JSX, Show } from "solid-js";
import type { JobList, Setup } from "../../api";
import { getJson, part } from "../../client";
import { createFetched } from "../../fetched";
import { formatBytes } from "../../format";
import { Card, Empty, Failure } from "../../parts/Card";
import { compareAddress, type UrlState } from "../../state";
import { TextField } from "../Fields";
import { CodeText, DifferenceText } from "./CodeText";
import { counts, type DifferentFile, rowsOf, rowsOfGit } from "./differences";

export const GIT_DIFF = "git.diff";

export function Code(props: { job: string; setup: Setup; state: UrlState }): JSX.Element {
  const names = createUniqueId();
  const against = (): string => props.state.text("against");
  const jobs = createFetched(() => true, (_, signal) => getJson<JobList>("jobs", { limit: 200, sort: "created", desc: true }, signal));
  return (
    <Card title="Code" actions={<Show when={against()}><a class="card-link" href={compareAddress([props.job, against()])}>Compare everything</a></Show>}>
      <div class="tools">
        <TextField label="Differences from job" wide value={against()} list={names} placeholder="name of a job" wait={600} onChange={(value) => props.state.set({ against: value.trim() })} />
        <datalist id={names}><For each={jobs()?.rows.filter((row) => row.name !== props.job)}>{(row) => <option value={row.name}>{row.shown}</option>}</For></datalist>
        <Show when={against()}><button type="button" onClick={() => props.state.set({ against: null })}>Show files</button></Show>
      </div>
      <Show when={against()} fallback={<Files {...props} />}>{(other) => <Differences job={props.job} other={other()} />}</Show>
    </Card>
  );
}

function Files(props: { job: string; setup: Setup; state: UrlState }): JSX.Element {
  const files = (): Setup["files"] => props.setup.files;
  const path = (): string => props.state.text("file") || (files().find((file) => /(^|\/)(train|main)\.py$/.test(file.path)) ?? files()[0])?.path || "";
  const text = createFetched(() => path() !== "" && { job: props.job, path: path() }, (asked, signal) => getJson<{ path: string; text: string; truncated: boolean; binary: boolean }>(`jobs/${part(asked.job)}/code`, { path: asked.path }, signal));
  return (
    <Show when={files().length || path()} fallback={<Empty title="No code was stored for this job.">Jobs that <code>trackside run</code> or an estimator starts store theirs.</Empty>}>
      <div class="code">
        <ul class="code-files" aria-label="Files">
          <Show when={props.setup.git?.diff}><li><button type="button" class="quiet" aria-pressed={path() === GIT_DIFF} onClick={() => props.state.set({ file: GIT_DIFF })}>uncommitted change</button></li></Show>
          <For each={files()}>{(file) => (
            <li><button type="button" class="quiet" aria-pressed={path() === file.path} onClick={() => props.state.set({ file: file.path })}><span class="mono">{file.path}</span> <span class="muted">{formatBytes(file.bytes)}</span></button></li>
          )}</For>
        </ul>
        <div class="code-text">
          <Failure error={text.error()} />
          <Show when={!text.error() && text()}>{(loaded) => (
            <>
              <Show when={loaded().path === GIT_DIFF} fallback={<Show when={!loaded().binary} fallback={<p class="muted">{loaded().path} is not text.</p>}><CodeText text={loaded().text} label={`Text of ${loaded().path}`} /></Show>}><DifferenceText rows={rowsOfGit(loaded().text)} label="Uncommitted change" /></Show>
              <Show when={loaded().truncated}><p class="muted">The file is longer than what is shown.</p></Show>
            </>
          )}</Show>
        </div>
      </div>
    </Show>
  );
}

function Differences(props: { job: string; other: string }): JSX.Element {
  const found = createFetched(() => ({ a: props.other, b: props.job }), (asked, signal) => getJson<{ files: DifferentFile[] }>("compare/code", asked, signal));
  const files = createMemo(() => (found()?.files ?? []).map((file) => ({ ...file, rows: rowsOf(file.hunks) })));
  return (
    <>
      <Failure error={found.error()} />
      <Show when={!found.error() && found()}>
        <Show when={files().length} fallback={<p>The code of both jobs is the same.</p>}>
          <p class="muted">Removed: in {props.other} only. Added: in this job.</p>
          <For each={files()}>{(file) => (
            <section class="different-file">
              <h4><span class="mono">{file.path}</span> <span class="muted">{file.status}</span> <span class="good-text">+{counts(file.rows).added}</span> <span class="bad-text">−{counts(file.rows).removed}</span></h4>
              <Show when={file.rows.length} fallback={<p class="muted">No lines to show: the file is empty, or not text.</p>}><DifferenceText rows={file.rows} label={`Differences in ${file.path}`} /></Show>
            </section>
          )}</For>
        </Show>
      </Show>
    </>
  );
}
