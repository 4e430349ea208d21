// Chooses jobs to compare one with.
import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import type { JobList } from "../api";
import { getJson } from "../client";
import { Findings, Status } from "../columns";
import { createFetched } from "../fetched";
import { Failure } from "../parts/Card";
import { Dialog } from "../parts/Dialog";
import { parsePlace } from "../location";
import { compareAddress, enter, path, state } from "../state";

const MOST = 30;

export function CompareWith(props: { jobs: string[]; onClose: () => void }): JSX.Element {
  const [query, setQuery] = createSignal("");
  const [chosen, setChosen] = createSignal<string[]>([]);
  const jobs = createFetched(() => ({ q: query(), limit: MOST }), (asked, signal) => getJson<JobList>("jobs", asked, signal));
  const others = createMemo(() => (jobs()?.rows ?? []).filter((row) => !props.jobs.includes(row.name)));
  const toggle = (name: string): void => void setChosen((names) => (names.includes(name) ? names.filter((each) => each !== name) : [...names, name]));
  // On the page that compares, what is shown there stays as it is.
  const compare = (): void => {
    const jobs = [...props.jobs, ...chosen()];
    props.onClose();
    if (path()[0] === "compare") state.set({ jobs, q: null });
    else enter(parsePlace(compareAddress(jobs)));
  };
  return (
    <Dialog title="Compare with" onClose={props.onClose}
      actions={<button type="button" class="primary" disabled={!chosen().length} onClick={compare}>Compare {chosen().length ? chosen().length + props.jobs.length : ""}</button>}>
      <input type="search" class="wide mono" aria-label="Query" placeholder="name~/bert/ lr>1e-3" value={query()} onInput={(event) => setQuery(event.currentTarget.value)} />
      <Failure error={jobs.error()} />
      <ul class="pick-list">
        <For each={others()}>{(row) => (
          <li><label class="check"><input type="checkbox" checked={chosen().includes(row.name)} onChange={() => toggle(row.name)} /><span class="cut pick-name">{row.shown}</span><Status row={row} /><Findings row={row} /></label></li>
        )}</For>
        <Show when={jobs() && !others().length}><li class="muted">No other job matches.</li></Show>
      </ul>
    </Dialog>
  );
}
