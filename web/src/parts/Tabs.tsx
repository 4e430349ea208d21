// Tabs with the keyboard behaviour of the ARIA pattern: arrows move, Home and End jump.
import { createEffect, For, type JSX, on, onMount, Show } from "solid-js";

export interface Tab { key: string; title: string; count?: number; missing?: string }

export function Tabs(props: { tabs: Tab[]; selected: string; onSelect: (key: string) => void; label: string; children: JSX.Element }): JSX.Element {
  let list!: HTMLDivElement;
  const move = (event: KeyboardEvent): void => {
    const keys = props.tabs.map((tab) => tab.key);
    const at = keys.indexOf(props.selected);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    props.onSelect(keys[(next + keys.length) % keys.length]!);
    list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  };
  // On a phone not all of them fit.
  const reveal = (): void => {
    const tab = list.querySelector<HTMLElement>('[aria-selected="true"]');
    if (tab) list.scrollLeft = Math.max(0, tab.offsetLeft + tab.offsetWidth - list.clientWidth);
  };
  onMount(() => requestAnimationFrame(reveal));
  createEffect(on(() => props.selected, () => requestAnimationFrame(reveal), { defer: true }));
  return (
    <>
      <div ref={list} class="tabs" role="tablist" aria-label={props.label} onKeyDown={move}>
        <For each={props.tabs}>{(tab) => (
          <button type="button" role="tab" id={`tab-${tab.key}`} aria-controls="tab-panel" aria-selected={tab.key === props.selected}
            tabIndex={tab.key === props.selected ? 0 : -1} class="tab" classList={{ missing: !!tab.missing }} title={tab.missing} onClick={() => props.onSelect(tab.key)}>
            {tab.title}<Show when={tab.count}><span class="count">{tab.count}</span></Show>
          </button>
        )}</For>
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${props.selected}`} class="tab-panel"><h2 class="off-screen">{props.tabs.find((tab) => tab.key === props.selected)?.title}</h2>{props.children}</div>
    </>
  );
}
