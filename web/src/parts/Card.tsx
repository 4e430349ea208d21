// A box with a title, and one that can be folded.
import { type JSX, Show } from "solid-js";
import { Prose } from "./Prose";

export function Card(props: { title?: JSX.Element; actions?: JSX.Element; class?: string; children: JSX.Element }): JSX.Element {
  return (
    <section class={`card ${props.class ?? ""}`}>
      <Show when={props.title || props.actions}>
        <header class="card-head"><h3 class="card-title">{props.title}</h3><div class="card-actions">{props.actions}</div></header>
      </Show>
      {props.children}
    </section>
  );
}

// The caller keeps what is open in the address.
export function Fold(props: { title: JSX.Element; open: boolean; onToggle: (open: boolean) => void; count?: number; children: JSX.Element }): JSX.Element {
  return (
    <section class="fold">
      <h3 class="fold-head">
        <button type="button" class="fold-button" aria-expanded={props.open} onClick={() => props.onToggle(!props.open)}>
          <span class="fold-arrow" aria-hidden="true">{props.open ? "▾" : "▸"}</span>{props.title}
          <Show when={props.count !== undefined}><span class="count">{props.count}</span></Show>
        </button>
      </h3>
      <Show when={props.open}>{props.children}</Show>
    </section>
  );
}

export function Empty(props: { title: string; children?: JSX.Element }): JSX.Element {
  return <div class="empty"><p class="empty-title">{props.title}</p><div class="empty-text">{props.children}</div></div>;
}

export function Failure(props: { error: { message: string; advice: string } | null }): JSX.Element {
  return <Show when={props.error}>{(error) => <p class="failure" role="alert"><Prose text={`${error().message} ${error().advice}`} /></p>}</Show>;
}

// A command that can be copied.
export function Command(props: { text: string }): JSX.Element {
  return <span class="command"><code>{props.text}</code><CopyButton text={props.text} /></span>;
}

export function CopyButton(props: { text: string; label?: string }): JSX.Element {
  let button!: HTMLButtonElement;
  const copy = async (): Promise<void> => {
    await copyText(props.text);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = props.label ?? "copy"), 1200);
  };
  return <button ref={button} type="button" class="quiet small" onClick={() => void copy()}>{props.label ?? "copy"}</button>;
}

// The clipboard's interface exists only on https and localhost.
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "off-screen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
