// Runs a job again, as it was or with other hyperparameters.
import { createSignal, For, type JSX, Show } from "solid-js";
import type { Job, Setup } from "../api";
import { getJson, part, postJson } from "../client";
import { createFetched } from "../fetched";
import { Command, Failure } from "../parts/Card";
import { Dialog } from "../parts/Dialog";
import { attempt, toast } from "../parts/Toast";
import { parsePlace } from "../location";
import { enter, jobAddress } from "../state";

export function AgainDialog(props: { job: Job; onClose: () => void }): JSX.Element {
  const setup = createFetched(() => props.job.row.name, (name, signal) => getJson<Setup>(`jobs/${part(name)}/setup`, {}, signal));
  const [changed, setChanged] = createSignal<Record<string, string | null>>({});
  const [added, setAdded] = createSignal<[string, string][]>([]);
  const [name, setName] = createSignal("");
  const put = (key: string, value: string | null): void => void setChanged((all) => ({ ...all, [key]: value }));
  const changes = (): Record<string, string | null> => {
    const before = setup()?.hyperparameters ?? {};
    const kept = Object.entries(changed()).filter(([key, value]) => value !== before[key]);
    return Object.fromEntries([...kept, ...added().filter(([key]) => key.trim()).map(([key, value]) => [key.trim(), value])]);
  };
  const start = async (): Promise<void> => {
    await attempt(async () => {
      const started = await postJson<{ name: string }>(`jobs/${part(props.job.row.name)}/again`, { hyperparameters: changes(), ...(name().trim() ? { name: name().trim() } : {}) });
      props.onClose();
      toast("The job is submitted.");
      enter(parsePlace(jobAddress(started.name)));
    });
  };
  return (
    <Dialog title={`Run ${props.job.row.shown} again`} onClose={props.onClose} actions={<button type="button" class="primary" disabled={!setup()} onClick={() => void start()}>Run</button>}>
      <Failure error={setup.error()} />
      <label class="again-row"><span>Name</span><input placeholder="chosen by Trackside" value={name()} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <h3>Hyperparameters</h3>
      <div class="again-list">
        <For each={Object.entries(setup()?.hyperparameters ?? {})} fallback={<Show when={setup()}><p class="muted">It has none.</p></Show>}>{([key, value]) => (
          <div class="again-row"><label class="again-field"><span class="mono cut" title={key}>{key}</span>
            <input class="mono" classList={{ changed: key in changes() }} value={changed()[key] ?? value} disabled={changed()[key] === null} onInput={(event) => put(key, event.currentTarget.value)} /></label>
            <button type="button" class="quiet small" onClick={() => put(key, changed()[key] === null ? value : null)} aria-label={`${changed()[key] === null ? "keep" : "leave out"} ${key}`}>{changed()[key] === null ? "keep" : "leave out"}</button>
          </div>
        )}</For>
        <For each={added()}>{(_, at) => (
          <div class="again-row">
            <input class="mono" aria-label="Name of the hyperparameter" placeholder="name" onInput={(event) => setAdded((all) => all.map((each, index) => (index === at() ? [event.currentTarget.value, each[1]] : each)))} />
            <input class="mono" aria-label="Its value" placeholder="value" onInput={(event) => setAdded((all) => all.map((each, index) => (index === at() ? [each[0], event.currentTarget.value] : each)))} />
          </div>
        )}</For>
      </div>
      <button type="button" class="quiet small" onClick={() => setAdded((all) => [...all, ["", ""]])}>Add one</button>
      <p class="hint">From a terminal:</p><Command text={props.job.command} />
    </Dialog>
  );
}
