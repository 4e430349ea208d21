// Rows of one height, of which only those in view exist. Scrolls in its own box, or with the window.
import { createMemo, createSignal, For, type JSX, onCleanup, onMount } from "solid-js";

export interface VirtualListProps {
  count: number;
  rowHeight: number;
  children: (index: number) => JSX.Element;
  class?: string;
  label?: string;
  role?: JSX.HTMLAttributes<HTMLElement>["role"];
  within?: "box" | "window";            // what scrolls; default: the box
  onVisible?: (first: number, last: number) => void;
  scrollTo?: (scroll: (index: number, where?: "top" | "middle" | "end") => void) => void;   // receives a function
}

const OVERSCAN = 6;
const MOST_PIXELS = 8_000_000;          // browsers cut elements that are higher than this times two

export function VirtualList(props: VirtualListProps): JSX.Element {
  let box!: HTMLDivElement;
  const [top, setTop] = createSignal(0);
  const [height, setHeight] = createSignal(600);
  const total = (): number => Math.min(props.count * props.rowHeight, MOST_PIXELS);
  // With more rows than pixels allow, a pixel of scrolling is worth more than a pixel of rows.
  const factor = (): number => {
    const travel = total() - height();
    return travel > 0 ? Math.max((props.count * props.rowHeight - height()) / travel, 1) : 1;
  };
  const first = createMemo(() => Math.max(0, Math.floor((top() * factor()) / props.rowHeight) - OVERSCAN));
  const last = createMemo(() => Math.min(props.count, Math.ceil((top() * factor() + height()) / props.rowHeight) + OVERSCAN));
  const shown = createMemo((before: number[]) => {
    const rows = Array.from({ length: Math.max(0, last() - first()) }, (_, at) => first() + at);
    queueMicrotask(() => props.onVisible?.(first(), last()));
    return before.length === rows.length && before[0] === rows[0] ? before : rows;
  }, []);
  const offset = (): number => first() * props.rowHeight - top() * (factor() - 1);

  const measure = (): void => {
    if (props.within === "window") {
      setTop(Math.max(0, -box.getBoundingClientRect().top));
      setHeight(window.innerHeight);
    } else {
      setTop(box.scrollTop);
      setHeight(box.clientHeight || 600);
    }
  };
  const scroll = (index: number, where: "top" | "middle" | "end" = "top"): void => {
    const room = where === "top" ? 0 : (height() - props.rowHeight) * (where === "middle" ? 0.5 : 1);
    const target = Math.max(0, index * props.rowHeight - room) / factor();
    if (props.within === "window") window.scrollTo({ top: window.scrollY + box.getBoundingClientRect().top + target });
    else box.scrollTop = target;
    measure();
  };
  onMount(() => {
    props.scrollTo?.(scroll);
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box);
    const target: EventTarget = props.within === "window" ? window : box;
    target.addEventListener("scroll", measure, { passive: true });
    window.addEventListener("resize", measure);
    onCleanup(() => {
      watcher.disconnect();
      target.removeEventListener("scroll", measure);
      window.removeEventListener("resize", measure);
    });
  });
  return (
    <div ref={box} class={props.class} classList={{ "virtual-box": props.within !== "window" }} role={props.role} aria-label={props.label} tabIndex={props.within === "window" ? undefined : 0}>
      <div class="virtual-space" role="presentation" style={{ height: `${total()}px` }}>
        <div class="virtual-rows" role="presentation" style={{ transform: `translateY(${offset()}px)` }}>
          <For each={shown()}>{(index) => props.children(index)}</For>
        </div>
      </div>
    </div>
  );
}
