// Lines of one height, of which only those in view exist: logs of millions of lines, code, differences.
import { createEffect, createMemo, createSignal, For, type JSX, on, onCleanup, onMount } from "solid-js";
import { anchor, inView, isLong, moved, space, toBar, travel } from "./scroll";

export interface LinesHandle { show: (index: number, where: "top" | "middle" | "end") => void; visible: () => { first: number; last: number } }
export interface LinesProps {
  count: number;
  label: string;
  wrap?: boolean;
  class?: string;
  children: (index: number) => JSX.Element;
  handle?: (handle: LinesHandle) => void;
  onView?: (first: number, last: number) => void;            // last: not in view
  onScrolled?: (by: number, isAtEnd: boolean) => void;       // by a person
}

export const LINE_HEIGHT = 18;
const JUMP_MS = 400;
const FEW = 300;                       // so many wrapped lines are all there, and the browser scrolls
const AT_END = 2;                      // pixels
const UP_KEYS = ["ArrowUp", "PageUp"];

export function Lines(props: LinesProps): JSX.Element {
  let box!: HTMLDivElement;
  let rows!: HTMLDivElement;
  const [height, setHeight] = createSignal(400);
  const [top, setTop] = createSignal(0);
  const [bar, setBar] = createSignal(0);
  const [shift, setShift] = createSignal(0);
  const extent = createMemo(() => ({ count: props.count, lineHeight: LINE_HEIGHT, height: height() }));
  const isNative = (): boolean => !!props.wrap && props.count <= FEW;
  const view = createMemo(() => {
    if (isNative()) return { first: 0, last: props.count };
    if (!props.wrap) return inView(extent(), top());
    const { line } = anchor(extent(), top());
    const around = Math.ceil(height() / LINE_HEIGHT) + 2;
    return { first: Math.max(0, line - around), last: Math.min(props.count, line + around) };
  }, undefined, { equals: (a, b) => a.first === b.first && a.last === b.last });
  const shown = createMemo(() => Array.from({ length: Math.max(view().last - view().first, 0) }, (_, at) => view().first + at));
  createEffect(() => props.onView?.(view().first, view().last));

  const place = (next: number): void => {
    setTop(Math.min(Math.max(next, 0), travel(extent())));
    box.scrollTop = toBar(extent(), top());
    setBar(box.scrollTop);
    settle();
  };
  // Puts the lines where the scroll position wants them.
  const settle = (): void => {
    if (isNative()) setShift(0);
    else if (!props.wrap) setShift(bar() + view().first * LINE_HEIGHT - top());
    else {
      const { line, part, y } = anchor(extent(), top());
      const row = rows.children[line - view().first] as HTMLElement | undefined;
      if (row) setShift(bar() + y - (row.offsetTop + part * row.offsetHeight));
    }
  };
  let jumped = -JUMP_MS;               // browsers animate long ways, and their last steps are short
  let idle: ReturnType<typeof setTimeout> | undefined;
  const scrolled = (): void => {
    const now = box.scrollTop;
    if (now === bar()) return;
    const before = top();
    if (isLong(extent(), now - bar())) jumped = performance.now();
    const next = isNative() ? now : moved(extent(), before, bar(), now, performance.now() - jumped < JUMP_MS);
    setBar(now);
    setTop(next);
    settle();
    props.onScrolled?.(next - before, next >= end() - AT_END);
    clearTimeout(idle);
    idle = setTimeout(align, 200);
  };
  // After short ways, the bar is where it belongs. Setting it ends a scroll of the browser, so it is set only if it is elsewhere.
  const align = (): void => {
    if (!isNative() && Math.abs(toBar(extent(), top()) - box.scrollTop) >= 1) place(top());
  };
  const end = (): number => (isNative() ? box.scrollHeight - box.clientHeight : travel(extent()));
  // A browser takes its time for a long way, and new lines at the end would call it back: Home and End arrive at once,
  // and who starts to scroll up has left the end before the first pixel.
  const jump = (to: number): void => {
    clearTimeout(idle);
    const before = top();
    if (isNative()) {
      box.scrollTop = to;
      setBar(box.scrollTop);
      setTop(box.scrollTop);
    } else place(to);
    props.onScrolled?.(top() - before, top() >= end() - AT_END);
  };
  const leave = (): void => {
    if (top() > 0) props.onScrolled?.(-1, false);
  };
  const keyed = (event: KeyboardEvent): void => {
    if (event.target !== box || event.altKey || event.metaKey || event.shiftKey) return;
    if (UP_KEYS.includes(event.key)) return leave();
    if (event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    jump(event.key === "Home" ? 0 : end());
  };
  const handle: LinesHandle = {
    show: (index, where) => {
      if (isNative()) {
        const row = rows.children[index] as HTMLElement | undefined;
        if (row) box.scrollTop = where === "end" ? row.offsetTop + row.offsetHeight - height() : row.offsetTop - (where === "middle" ? height() / 2 : 0);
        setBar(box.scrollTop);
      } else if (props.wrap) place(((index + (where === "end" ? 1 : 0.5)) / props.count) * travel(extent()));
      else place(index * LINE_HEIGHT - (where === "top" ? 0 : (height() - LINE_HEIGHT) * (where === "end" ? 1 : 0.5)));
    },
    visible: () => (props.wrap ? view() : inView(extent(), top(), 0)),
  };
  onMount(() => {
    setHeight(box.clientHeight || 400);
    const watcher = new ResizeObserver(() => {
      const isAtEnd = !isNative() && top() > 0 && top() >= end() - AT_END;
      setHeight(box.clientHeight || 400);
      if (isAtEnd) place(end());
      else settle();
    });
    watcher.observe(box);
    watcher.observe(rows);
    props.handle?.(handle);
    onCleanup(() => {
      watcher.disconnect();
      clearTimeout(idle);
    });
  });
  createEffect(on([extent, () => props.wrap], () => {
    const most = travel(extent());
    if (top() > most) setTop(most);
    if (!isNative()) settle();
    else setShift(0);
  }));
  createEffect(on(shown, settle));
  return (
    <div ref={box} class={`lines ${props.class ?? ""}`} classList={{ wraps: props.wrap }} tabIndex={0} role="region" aria-label={props.label} onScroll={scrolled} onKeyDown={keyed} onWheel={(event) => event.deltaY < 0 && leave()}>
      <div classList={{ "lines-space": !isNative() }} style={{ height: isNative() ? "auto" : `${space(extent())}px` }}>
        <div ref={rows} classList={{ "lines-rows": !isNative() }} style={{ transform: isNative() ? "none" : `translateY(${shift()}px)` }}><For each={shown()}>{(index) => props.children(index)}</For></div>
      </div>
    </div>
  );
}
