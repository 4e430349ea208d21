// The first texts of a language model: what of them is trained on, and what is only read. Open where a diagnosis rests on them.
import { createMemo, For, type JSX, Show } from "solid-js";
import type { Job, Texts } from "../api";
import { getJson, part } from "../client";
import { createFetched } from "../fetched";
import { grouped } from "../format";
import { Fold } from "../parts/Card";
import { state } from "../state";

const KINDS: [string, string][] = [["trained", "trained on"], ["given", "only read"], ["special", "special token, only read"], ["special trained", "special token, trained on"], ["padding", "padding"]];

export function FirstTexts(props: { job: Job }): JSX.Element {
  const asked = createMemo(() => (props.job.has.vitals || props.job.has.tensors) && JSON.stringify([props.job.row.name, props.job.row.status, props.job.diagnoses.length]));
  const texts = createFetched(asked, (_, signal) => getJson<Texts>(`jobs/${part(props.job.row.name)}/texts`, {}, signal));
  const open = (): boolean => (state.text("texts") || (props.job.diagnoses.some((diagnosis) => diagnosis.evidence?.texts) ? "1" : "0")) === "1";
  return (
    <Show when={texts()?.rows.length}>
      <Fold title={`First texts: ${grouped(texts()!.num_trained)} of ${grouped(texts()!.num_tokens)} tokens are trained on`} open={open()} onToggle={(on) => state.set({ texts: on ? "1" : "0" })}>
        <p class="text-kinds"><For each={KINDS}>{([kind, name]) => <Piece kind={kind} text={name} />}</For></p>
        <ol class="first-texts"><For each={texts()!.rows}>{(row) => <li><For each={row}>{([kind, text]) => <Piece kind={kind} text={text} />}</For></li>}</For></ol>
      </Fold>
    </Show>
  );
}

// What is trained on is marked for screen readers, too.
function Piece(props: { kind: string; text: string }): JSX.Element {
  const kind = (): string => `piece ${KINDS.some(([known]) => known === props.kind) ? props.kind : ""}`;
  return <Show when={props.kind.endsWith("trained")} fallback={<span class={kind()}>{props.text}</span>}><mark class={kind()}>{props.text}</mark></Show>;
}
