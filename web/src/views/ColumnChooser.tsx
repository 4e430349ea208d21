// Which columns the job table has: its own, hyperparameters, metrics, tags.
import { createMemo, createSignal, For, type JSX } from "solid-js";
import { BUILT_IN, columnOf, defaultColumns } from "../columns";
import { Dialog } from "../parts/Dialog";
import { state } from "../state";

const KINDS: [string, string][] = [["", "Job"], ["param.", "Hyperparameters"], ["metric.", "Metrics"], ["tag.", "Tags"]];
const MOST = 200;

export function ColumnChooser(props: { available: string[]; shown: string[]; onClose: () => void }): JSX.Element {
  const [filter, setFilter] = createSignal("");
  const names = createMemo(() => [...new Set([...BUILT_IN, ...props.shown, ...props.available])].filter((name) => columnOf(name).title.toLowerCase().includes(filter().toLowerCase())));
  const ofKind = (prefix: string): string[] => names().filter((name) => (prefix ? name.startsWith(prefix) : BUILT_IN.includes(name))).slice(0, MOST);
  const put = (name: string, on: boolean): void => state.set({ columns: on ? [...props.shown, name] : props.shown.filter((each) => each !== name) });
  return (
    <Dialog title="Columns" onClose={props.onClose} done
      actions={<button type="button" class="quiet" onClick={() => state.set({ columns: null })} disabled={props.shown.join() === defaultColumns().join()}>Default columns</button>}>
      <input type="search" class="wide" aria-label="Find a column" placeholder="Find a column" value={filter()} onInput={(event) => setFilter(event.currentTarget.value)} />
      <div class="chooser">
        <For each={KINDS}>{([prefix, title]) => (
          <fieldset hidden={!ofKind(prefix).length}>
            <legend>{title}</legend>
            <For each={ofKind(prefix)}>{(name) => <label class="check"><input type="checkbox" checked={props.shown.includes(name)} disabled={name === "name"} onChange={(event) => put(name, event.currentTarget.checked)} />{columnOf(name).title}</label>}</For>
          </fieldset>
        )}</For>
      </div>
    </Dialog>
  );
}
