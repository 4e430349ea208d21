// Many charts in groups, of which only those in view exist; and the tools for all of them.
import { createMemo, createSignal, For, type JSX, onCleanup, onMount, Show } from "solid-js";
import { CARD_HEIGHT, type ChartSpec, groupsOf, type Layout, layoutOf, matcher, type Placed, visibleItems, WIDE_HEIGHT } from "../charts";
import { grouped, plural } from "../format";
import type { UrlState } from "../state";
import { ChartCard, type Look } from "./ChartCard";
import type { Mark } from "./Chart";
import { Empty } from "./Card";

export interface WallProps {
  charts: ChartSpec[];
  state: UrlState;
  marks?: (look: Look) => Mark[];
  axes?: readonly (readonly [string, string])[];   // metrics that can be x: id and name
  cursor: string;
  legend?: boolean;                    // each chart names its lines; default true
  closed?: boolean;                    // groups start folded
  tools?: JSX.Element;
  onPick?: (line: string) => void;     // a click on a line
}

const PINNED = "Pinned";
const MARGIN = 240;
const HEAD = 42;                       // title and padding of a card

export function ChartWall(props: WallProps): JSX.Element {
  let box!: HTMLDivElement;
  const [width, setWidth] = createSignal(0);
  const [span, setSpan] = createSignal<[number, number]>([0, 1200]);
  const look = createMemo(() => readLook(props.state));
  const pins = createMemo(() => new Set(props.state.list("pins")));
  const wide = createMemo(() => new Set(props.state.list("wide")));
  const toggled = createMemo(() => new Set(props.state.list("folded")));
  const shown = createMemo(() => {
    const fits = matcher(props.state.text("find"));
    return props.charts.filter((chart) => [chart.title, ...(chart.names ?? [])].some(fits));
  });
  const groups = createMemo(() => {
    const pinned = shown().filter((chart) => pins().has(chart.key));
    const others = groupsOf(shown());
    return pinned.length ? [{ name: PINNED, charts: pinned.map((chart) => ({ ...chart, key: `pin:${chart.key}` })) }, ...others] : others;
  });
  // While something is searched, every group that has it is open.
  const folded = createMemo(() => {
    if (props.state.text("find")) return new Set<string>();
    return new Set(groups().map((group) => group.name).filter((name) => toggled().has(name) !== (!!props.closed && name !== PINNED)));
  });
  const byKey = createMemo(() => new Map(groups().flatMap((group) => group.charts.map((chart) => [chart.key, chart] as const))));
  const layout = createMemo((): Layout => layoutOf(groups(), Math.max(width(), 200), folded(), wide()));
  const places = createMemo(() => new Map(layout().items.map((item) => [`${item.kind}:${item.key}`, item])));
  const visible = createMemo(() => (width() ? visibleItems(layout(), span()[0] - MARGIN, span()[1] + MARGIN).map((item) => `${item.kind}:${item.key}`) : []));
  const marks = createMemo(() => props.marks?.(look()));

  const measure = (): void => {
    const top = -box.getBoundingClientRect().top;
    const [from, to] = span();
    const next: [number, number] = [Math.floor(top / 60) * 60, Math.ceil((top + window.innerHeight) / 60) * 60];
    if (next[0] !== from || next[1] !== to) setSpan(next);
    if (Math.abs(box.clientWidth - width()) > 1) setWidth(box.clientWidth);
  };
  onMount(() => {
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box);
    watcher.observe(document.body);
    window.addEventListener("scroll", measure, { passive: true });
    window.addEventListener("resize", measure);
    onCleanup(() => {
      watcher.disconnect();
      window.removeEventListener("scroll", measure);
      window.removeEventListener("resize", measure);
    });
  });
  const flip = (key: string, list: Set<string>, name: string): void => {
    const next = new Set(list);
    if (!next.delete(name)) next.add(name);
    props.state.set({ [key]: [...next] });
  };
  const zoom = (range: [number, number] | null): void => props.state.set({ zoom: range?.map(shortest) });
  return (
    <>
      <WallTools state={props.state} look={look()} axes={props.axes ?? []} count={shown().length} total={props.charts.length}>{props.tools}</WallTools>
      <Show when={!shown().length}><Empty title="No chart has such a name."><button type="button" onClick={() => props.state.set({ find: null })}>Show all {props.charts.length}</button></Empty></Show>
      <div ref={box} class="wall" style={{ height: `${layout().height}px` }}>
        <For each={visible()}>{(name) => {
          const place = (): Placed => places().get(name) ?? { key: "", kind: "chart", top: 0, left: 0, width: 0, height: 0 };
          const key = name.slice(name.indexOf(":") + 1);
          const plain = key.replace(/^pin:/, "");
          return (
            <div class="wall-item" style={{ transform: `translate(${place().left}px, ${place().top}px)`, width: `${place().width}px`, height: `${place().height}px` }}>
              <Show when={name.startsWith("chart:")} fallback={
                <h3 class="fold-head"><button type="button" class="fold-button" aria-expanded={!folded().has(key)} onClick={() => flip("folded", toggled(), key)}>
                  <span class="fold-arrow" aria-hidden="true">{folded().has(key) ? "▸" : "▾"}</span>{key || "Main"}<span class="count">{groups().find((group) => group.name === key)?.charts.length}</span>
                </button></h3>
              }>
                <Show when={byKey().get(key)}>{(chart) => (
                  <ChartCard chart={chart()} look={look()} marks={marks()} cursor={props.cursor} height={(wide().has(key) ? WIDE_HEIGHT : CARD_HEIGHT) - HEAD} onZoom={zoom}
                    pinned={pins().has(plain)} onPin={() => flip("pins", pins(), plain)} onPick={props.onPick} legend={props.legend} wide={wide().has(key)} onWide={() => flip("wide", wide(), key)} />
                )}</Show>
              </Show>
            </div>
          );
        }}</For>
      </div>
    </>
  );
}

export function readLook(state: UrlState): Look {
  const [from, to] = state.list("zoom").map(Number);
  const zoom: [number, number] | null = from !== undefined && to !== undefined && from < to ? [from, to] : null;
  return { x: state.text("x", "step"), smooth: Math.min(Math.max(state.number("smooth") ?? 0, 0), 0.9999), log: state.flag("log"), all: state.flag("all"), zoom };
}

export function WallTools(props: { state: UrlState; look: Look; axes: readonly (readonly [string, string])[]; count: number; total: number; children?: JSX.Element }): JSX.Element {
  return (
    <div class="tools wall-tools">
      <input type="search" class="find" aria-label="Find charts" placeholder={`Find in ${plural(props.total, "chart")}`} value={props.state.text("find")} onInput={(event) => props.state.set({ find: event.currentTarget.value })} />
      <Show when={props.count !== props.total}><span class="muted">{grouped(props.count)} of {grouped(props.total)}</span></Show>
      <label class="field">x
        <select value={props.look.x} onChange={(event) => props.state.set({ x: event.currentTarget.value === "step" ? null : event.currentTarget.value, zoom: null })}>
          <option value="step">step</option><option value="time">time of day</option><option value="relative">time since the start</option>
          <Show when={props.axes.length}><optgroup label="Metrics"><For each={props.axes}>{([id, name]) => <option value={`curve:${id}`} selected={props.look.x === `curve:${id}`}>{name}</option>}</For></optgroup></Show>
        </select>
      </label>
      <label class="field">Smoothing
        <input type="range" min="0" max="100" step="1" value={slideOf(props.look.smooth)} aria-valuetext={props.look.smooth.toFixed(3)} onInput={(event) => props.state.set({ smooth: weightOf(Number(event.currentTarget.value)) || null })} />
        <output class="smooth-value">{props.look.smooth ? props.look.smooth.toFixed(3).replace(/0+$/, "") : "off"}</output>
      </label>
      <button type="button" aria-pressed={props.look.log} onClick={() => props.state.set({ log: !props.look.log })}>Log</button>
      <button type="button" aria-pressed={props.look.all} title="Show far outliers, too" onClick={() => props.state.set({ all: !props.look.all })}>All values</button>
      <Show when={props.look.zoom}><button type="button" onClick={() => props.state.set({ zoom: null })}>Reset zoom</button></Show>
      {props.children}
    </div>
  );
}

// The slider is fine where smoothing is strong: 33 is 0.9, 67 is 0.99, 100 is 0.999.
export const weightOf = (slide: number): number => (slide <= 0 ? 0 : Math.round((1 - 10 ** (-3 * slide / 100)) * 10_000) / 10_000);
export const slideOf = (weight: number): number => (weight <= 0 ? 0 : Math.round((-100 / 3) * Math.log10(1 - weight)));

// As few digits as the eye needs, so that links stay short.
function shortest(value: number): string {
  return String(Number(value.toPrecision(10)));
}
