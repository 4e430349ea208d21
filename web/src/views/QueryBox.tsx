// The query: one language for jobs everywhere. The server parses it; an error is shown at its position.
import { createSignal, type JSX, Show } from "solid-js";
import { ApiError } from "../client";
import { useShortcuts } from "../keys";
import { Dialog } from "../parts/Dialog";
import { Prose } from "../parts/Prose";
import { state } from "../state";

const EXAMPLES: [string, string][] = [
  ["status:failed,stopped", "one of several; also is:live, is:sick"],
  ["lr>1e-3 batch_size=32", "hyperparameters, compared as numbers"],
  ["loss<0.5", "the last value of a metric"],
  ["name~/bert-\\d+/", "a regular expression on the name"],
  ["tag:baseline tag.team=nlp", "tags, with or without a value"],
  ["owner:ci", "whose it is"],
  ["findings>0 finding~NaN", "by what was found"],
  ["age<2d seconds>1h", "not older than two days, longer than an hour"],
  ["-status:completed (lr>1 or lr<1e-5)", "not, or, parentheses; words alone are searched in names and tags"],
];

export function QueryBox(props: { error: ApiError | null; columns: string[] }): JSX.Element {
  let input!: HTMLInputElement;
  const [help, setHelp] = createSignal(false);
  useShortcuts([{ key: "/", does: "go to the query", run: () => { input.focus(); input.select(); } }]);
  const bad = (): ApiError | null => (props.error?.code === "bad_query" ? props.error : null);
  return (
    <div class="query">
      <input ref={input} type="search" class="query-input mono" aria-label="Query" placeholder="status:failed lr>1e-3 name~/bert/" spellcheck={false} autocapitalize="off" autocomplete="off"
        value={state.text("q")} aria-invalid={!!bad()} aria-describedby={bad() ? "query-error" : undefined} onInput={(event) => state.set({ q: event.currentTarget.value })} />
      <button type="button" class="quiet" aria-label="How to write a query" onClick={() => setHelp(true)}>?</button>
      <Show when={bad()}>{(error) => (
        <p id="query-error" class="query-error" role="alert">
          <Show when={error().at !== null}><code class="query-place">{state.text("q").slice(0, error().at!)}<mark>{state.text("q").slice(error().at!) || " "}</mark></code></Show>
          <Prose text={`${error().message} ${error().advice}`} />
        </p>
      )}</Show>
      <Show when={help()}>
        <Dialog title="Queries" onClose={() => setHelp(false)}>
          <dl class="facts">{EXAMPLES.map(([text, meaning]) => <><dt><button type="button" class="quiet small mono" onClick={() => { state.set({ q: text }); setHelp(false); }}>{text}</button></dt><dd>{meaning}</dd></>)}</dl>
        </Dialog>
      </Show>
    </div>
  );
}
