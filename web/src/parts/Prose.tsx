// A sentence, with what it has in backticks as code.
import { For, type JSX, Show } from "solid-js";
import { piecesOf } from "../prose";

export function Prose(props: { text: string }): JSX.Element {
  return <For each={piecesOf(props.text)}>{(piece) => <Show when={piece.isCode} fallback={piece.text}><code>{piece.text}</code></Show>}</For>;
}
