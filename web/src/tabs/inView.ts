// Which of some elements can be seen.
import { type Accessor, createSignal, onCleanup } from "solid-js";

export interface InView { keys: Accessor<ReadonlySet<string>>; watch: (element: Element, key: () => string) => void }

export function createInView(): InView {
  const [keys, setKeys] = createSignal<ReadonlySet<string>>(new Set());
  const names = new Map<Element, () => string>();
  const seen = new Set<Element>();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) seen.add(entry.target);
      else seen.delete(entry.target);
    }
    setKeys(new Set([...seen].flatMap((element) => names.get(element)?.() ?? [])));
  });
  onCleanup(() => observer.disconnect());
  const watch = (element: Element, key: () => string): void => {
    names.set(element, key);
    observer.observe(element);
    onCleanup(() => {
      names.delete(element);
      seen.delete(element);
      observer.unobserve(element);
    });
  };
  return { keys, watch };
}
