// Text of a file with line numbers, or the lines in which two files differ.
import { createMemo, type JSX, Show } from "solid-js";
import { Lines } from "../log/Lines";
import { type Kind, type Row } from "./differences";

const MOST_SHOWN = 2000;               // characters of a line
const SIGNS: Record<Kind, string> = { same: " ", added: "+", removed: "-", gap: "", note: "" };
const cut = (text: string): string => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)} …` : text);

export function CodeText(props: { text: string; label: string }): JSX.Element {
  const lines = createMemo(() => props.text.replace(/\r?\n$/, "").split(/\r?\n/));
  return (
    <Lines count={lines().length} label={props.label} class="code-lines">
      {(index) => <div class="log-line"><span class="log-number code-number">{index + 1}</span><span class="log-text" dir="ltr">{cut(lines()[index] ?? "")}</span></div>}
    </Lines>
  );
}

export function DifferenceText(props: { rows: Row[]; label: string }): JSX.Element {
  return (
    <Lines count={props.rows.length} label={props.label} class="code-lines">
      {(index) => <Show when={props.rows[index]}>{(row) => <DifferenceLine row={row()} />}</Show>}
    </Lines>
  );
}

function DifferenceLine(props: { row: Row }): JSX.Element {
  const text = (): string => cut(props.row.text);
  return (
    <div class={`log-line difference ${props.row.kind}`}>
      <span class="log-number code-number">{props.row.old ?? ""}</span><span class="log-number code-number">{props.row.new ?? ""}</span>
      <span class="difference-sign">{SIGNS[props.row.kind]}</span>
      <span class="log-text" dir="ltr"><Show when={props.row.inner} fallback={text()}>{(inner) => <>{text().slice(0, inner()[0])}<b>{text().slice(...inner())}</b>{text().slice(inner()[1])}</>}</Show></span>
    </div>
  );
}
