// What can be done with the selected jobs.
import { createSignal, For, type JSX, Show } from "solid-js";
import type { JobRow } from "../api";
import { session } from "../client";
import { compareAddress, enter } from "../state";
import { parsePlace } from "../location";
import { useShortcuts } from "../keys";
import { plural } from "../format";
import { deleteJobs, openTensorboard, stopJobs } from "../actions";
import { shownName } from "../shownName";
import { TagDialog } from "./TagDialog";

export function Bulk(props: { selected: string[]; row: (name: string) => JobRow | undefined; onClear: () => void; onDone: () => void }): JSX.Element {
  const [tagging, setTagging] = createSignal(false);
  const compare = (): void => { if (props.selected.length) enter(parsePlace(compareAddress(props.selected))); };
  const may = (): boolean => session()?.rights !== "read";
  useShortcuts([{ key: "c", does: "compare the selected jobs", run: compare }]);
  return (
    <Show when={props.selected.length}>
      <div class="bulk" role="toolbar" aria-label="Selected jobs">
        <b>{plural(props.selected.length, "job")} selected</b>
        <button type="button" class="primary" disabled={props.selected.length < 2} onClick={compare}>Compare</button>
        <Show when={session()?.tensorboard}><button type="button" onClick={() => void openTensorboard(props.selected)}>TensorBoard</button></Show>
        <Show when={may()}>
          <button type="button" onClick={() => setTagging(true)}>Tag</button>
          <button type="button" onClick={() => void stopJobs(props.selected, props.row).then((done) => done && props.onDone())}>Stop</button>
          <button type="button" onClick={() => void deleteJobs(props.selected, props.row).then((done) => { if (done) { props.onClear(); props.onDone(); } })}>Delete</button>
        </Show>
        <button type="button" class="quiet" onClick={props.onClear}>Clear</button>
      </div>
      <Show when={tagging()}><TagDialog jobs={props.selected} tags={common(props.selected.map(props.row))} onClose={() => setTagging(false)} onDone={props.onDone} /></Show>
    </Show>
  );
}

function common(rows: (JobRow | undefined)[]): Record<string, string> {
  return Object.assign({}, ...rows.map((row) => row?.tags ?? {})) as Record<string, string>;
}

export function Names(props: { names: string[] }): JSX.Element {
  return <ul class="names"><For each={props.names.slice(0, 12)}>{(name) => <li>{shownName(name)}</li>}</For><Show when={props.names.length > 12}><li>and {props.names.length - 12} more</li></Show></ul>;
}
