// The width of an element, as it changes.
import { type Accessor, createSignal, onCleanup, onMount } from "solid-js";

export function createWidth(element: () => HTMLElement): Accessor<number> {
  const [width, setWidth] = createSignal(0);
  onMount(() => {
    const watcher = new ResizeObserver(() => setWidth(element().clientWidth));
    watcher.observe(element());
    setWidth(element().clientWidth);
    onCleanup(() => watcher.disconnect());
  });
  return width;
}
