// Keyboard shortcuts: each view registers its own while it is shown; `?` lists them.
import { createSignal, onCleanup } from "solid-js";

export interface Shortcut { key: string; does: string; run: (event: KeyboardEvent) => void; hidden?: boolean }

const [shortcuts, setShortcuts] = createSignal<Shortcut[]>([]);
export { shortcuts };

export function useShortcuts(added: Shortcut[]): void {
  setShortcuts((known) => [...known, ...added]);
  onCleanup(() => setShortcuts((known) => known.filter((each) => !added.includes(each))));
}

window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const found = shortcuts().findLast((each) => each.key === event.key);
  if (!found) return;
  event.preventDefault();
  found.run(event);
});

// Keys that an element itself takes are not shortcuts.
function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
    || (target instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(target.type));
}
