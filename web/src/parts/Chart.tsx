// A line chart on a canvas: axes, lines that each have their own x, bands, marks; a cursor that charts share;
// zoom by dragging, by touch and by keyboard. A canvas above it has what follows the pointer.
import { batch, createEffect, createMemo, createSignal, For, type JSX, on, onCleanup, onMount, Show, type Signal } from "solid-js";
import { apart, fitted, linearTicks, logTicks, timeTicks } from "../axes";
import { drawBand, drawLine, type Frame, toX, toY } from "../drawing";
import { formatClock, formatNumber, formatSeconds, formatTicks, formatTime, grouped } from "../format";
import { extent, lowerBound, nearest, upperBound, yRange } from "../scales";
import { colour, theme } from "../theme";

export interface Line {
  key: string;
  label: string;
  colour: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  faint?: boolean;                 // behind the others, not read out
  dashed?: boolean;
  low?: ArrayLike<number>;         // a band around the line
  high?: ArrayLike<number>;
}
export interface Mark { x: number; label: string; tone?: "bad" | "note" }
export interface Band { from: number; to: number; label: string; colour: string }
export type XKind = "step" | "time" | "relative" | "value";

export interface ChartProps {
  lines: Line[];
  label: string;                   // what a screen reader says
  xKind?: XKind;
  unit?: string;
  height?: number;
  gutter?: number;                 // pixels left of the plot, for charts that stand one above the other
  log?: boolean;
  all?: boolean;                   // every value in view, also far outliers
  marks?: Mark[];
  bands?: Band[];
  range?: [number, number] | null; // zoom; null: everything
  onRange?: (range: [number, number] | null) => void;
  cursor?: string;                 // charts with the same key share the cursor
  readout?: boolean;               // values under the cursor; default true
  onCanvas?: (canvas: HTMLCanvasElement) => void;
  onWidth?: (pixels: number) => void;   // device pixels
  onPick?: (key: string) => void;  // a click on a line
}

interface Reading { key: string; label: string; colour: string; text: string; distance: number }

const MOST_READINGS = 8;
const TOP = 8;
const RIGHT = 8;
const BOTTOM = 22;
const FONT = "11px system-ui, sans-serif";
const LEAST_DRAG = 4;

// Where the pointer is, and on which line: the same place and the same job are shown in every chart.
interface Cursor { x: number; label?: string }

const cursors = new Map<string, Signal<Cursor | null>>();

function cursorOf(key: string | undefined): Signal<Cursor | null> {
  const known = key === undefined ? undefined : cursors.get(key);
  if (known) return known;
  const made = createSignal<Cursor | null>(null, { equals: (a, b) => a?.x === b?.x && a?.label === b?.label });
  if (key !== undefined) cursors.set(key, made);
  return made;
}

export function Chart(props: ChartProps): JSX.Element {
  let box!: HTMLDivElement;
  let canvas!: HTMLCanvasElement;
  let above!: HTMLCanvasElement;
  const [width, setWidth] = createSignal(0);
  const [pointerY, setPointerY] = createSignal<number | null>(null);     // a value; null: the pointer is elsewhere
  const [drag, setDrag] = createSignal<[number, number] | null>(null);   // values of x
  const cursor = createMemo(() => cursorOf(props.cursor));
  const at = createMemo(() => cursor()[0]()?.x ?? null);
  const kind = (): XKind => props.xKind ?? "step";
  const height = (): number => props.height ?? 180;
  const shownX = createMemo((): [number, number] => {
    if (props.range) return props.range;
    const [low, high] = extent(props.lines.map((line) => ends(line.x))) ?? [0, 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  });
  const shownY = createMemo(() => {
    const [from, to] = shownX();
    const parts = props.lines.flatMap((line) => {
      const [first, last] = [lowerBound(line.x, from), upperBound(line.x, to)];
      return [line.y, line.low, line.high].flatMap((values) => (values ? [{ values, from: first, to: last }] : []));
    });
    return yRange(parts, { log: !!props.log, safe: !props.all });
  });
  const ticksY = createMemo(() => {
    const most = Math.max(2, Math.floor((height() - TOP - BOTTOM) / 34));
    const { low, high } = shownY();
    const ticks = (props.log ? logTicks : linearTicks)(low, high, most);
    const texts = formatTicks(ticks);
    return ticks.map((value, at) => ({ value, text: texts[at]! }));
  });
  const left = createMemo(() => props.gutter ?? Math.min(76, 12 + Math.max(18, ...ticksY().map(({ text }) => text.length * 6.6))));
  const frame = createMemo((): Frame => {
    const scale = devicePixelRatio;
    const { low, high } = shownY();
    return { left: left() * scale, top: TOP * scale, width: Math.max(width() - left() - RIGHT, 20) * scale, height: Math.max(height() - TOP - BOTTOM, 20) * scale, x: shownX(), y: [low, high], log: !!props.log };
  });
  const ticksX = createMemo(() => {
    const [low, high] = shownX();
    const wide = frame().width / devicePixelRatio;
    const make = (most: number): Tick[] => {
      const ticks = kind() === "time" ? timeTicks(low, high, most, -60 * new Date(low * 1000).getTimezoneOffset()) : kind() === "relative" ? timeTicks(low, high, most) : linearTicks(low, high, most);
      return (kind() === "step" ? ticks.filter(Number.isInteger) : ticks).map((value, _, all) => ({ value, text: formatX(kind(), value, all) }));
    };
    return fitted(make, Math.max(2, Math.floor(wide / (kind() === "time" ? 76 : 60))), wide);
  });
  const readings = createMemo((): Reading[] => {
    const x = at();
    if (x === null || props.readout === false || x < shownX()[0] || x > shownX()[1]) return [];
    const all = read(props.lines, x, pointerY());
    const label = pointerY() === null && all.length > MOST_READINGS ? cursor()[0]()?.label : undefined;
    return label === undefined ? all.slice(0, MOST_READINGS) : all.filter((reading) => reading.label === label);
  });
  const nearestLine = createMemo((): Line | undefined => {
    if (props.lines.length < 2 || at() === null) return undefined;
    if (pointerY() === null) return props.lines.find((line) => !line.faint && line.label === cursor()[0]()?.label);
    const nearby = readings().reduce<Reading | undefined>((best, each) => (best && best.distance <= each.distance ? best : each), undefined);
    return props.lines.find((line) => line.key === nearby?.key);
  });

  const draw = (): void => {
    if (!width()) return;
    const ctx = sized(canvas, width(), height());
    if (!props.lines.some((line) => line.x.length)) return;
    const plot = frame();
    drawAxes(ctx, plot, ticksX(), ticksY());
    clipped(ctx, plot, () => {
      for (const band of props.bands ?? []) shade(ctx, plot, band);
      for (const line of props.lines) if (line.low && line.high) drawBand(ctx, plot, line.x, line.low, line.high, line.colour);
      const pen = devicePixelRatio * (props.lines.length > 30 ? 1 : 1.5);
      for (const line of props.lines) if (line.faint) drawLine(ctx, plot, line.x, line.y, { colour: line.colour, width: devicePixelRatio, alpha: 0.25 });
      for (const line of props.lines) if (!line.faint) drawLine(ctx, plot, line.x, line.y, { colour: line.colour, width: pen, alpha: 1, dashed: line.dashed });
    });
    for (const mark of props.marks ?? []) if (mark.x >= plot.x[0] && mark.x <= plot.x[1]) drawMark(ctx, plot, mark);
  };
  // What follows the pointer: the line under it, the cursor, the part that is being chosen.
  const drawAbove = (): void => {
    if (!width()) return;
    const ctx = sized(above, width(), height());
    const plot = frame();
    clipped(ctx, plot, () => {
      const line = nearestLine();
      if (line) drawLine(ctx, plot, line.x, line.y, { colour: line.colour, width: 2.5 * devicePixelRatio, alpha: 1 });
      const chosen = drag();
      if (chosen) {
        ctx.fillStyle = colour("accent");
        ctx.globalAlpha = 0.18;
        const from = toX(plot)(Math.min(...chosen));
        ctx.fillRect(from, plot.top, toX(plot)(Math.max(...chosen)) - from, plot.height);
        ctx.globalAlpha = 1;
      }
      const x = at();
      if (x !== null) vertical(ctx, plot, x, colour("muted"), [2, 2]);
    });
  };
  createEffect(on([width, height, frame, ticksX, ticksY, theme, () => props.lines, () => props.marks, () => props.bands], draw));
  createEffect(on([width, height, frame, at, nearestLine, drag, theme], drawAbove));
  createEffect(on(width, (pixels) => pixels && props.onWidth?.(pixels * devicePixelRatio)));

  onMount(() => {
    props.onCanvas?.(canvas);
    setWidth(box.clientWidth);
    const watcher = new ResizeObserver(() => setWidth(box.clientWidth));
    watcher.observe(box);
    onCleanup(() => watcher.disconnect());
  });
  onCleanup(() => cursor()[1](null));

  const valueAt = (event: PointerEvent): [number, number] => {
    const area = box.getBoundingClientRect();
    const plot = frame();
    const x = ((event.clientX - area.left) * devicePixelRatio - plot.left) / plot.width;
    const y = 1 - ((event.clientY - area.top) * devicePixelRatio - plot.top) / plot.height;
    const [low, high] = plot.log ? plot.y.map(Math.log10) as [number, number] : plot.y;
    const value = low + y * (high - low);
    return [plot.x[0] + Math.min(Math.max(x, 0), 1) * (plot.x[1] - plot.x[0]), plot.log ? 10 ** value : value];
  };
  const pixels = (from: number, to: number): number => Math.abs(toX(frame())(from) - toX(frame())(to)) / devicePixelRatio;
  const down = (event: PointerEvent): void => {
    if (event.button !== 0 || !props.onRange) return;
    box.setPointerCapture(event.pointerId);
    const [x] = valueAt(event);
    setDrag([x, x]);
  };
  const moved = (event: PointerEvent): void => {
    const [x, y] = valueAt(event);
    const [place, setPlace] = cursor();
    batch(() => {
      setPointerY(y);
      setPlace({ x, label: place()?.label });
    });
    setPlace({ x, label: nearestLine()?.label });
    setDrag((before) => before && [before[0], x]);
  };
  const up = (): void => {
    const chosen = drag();
    setDrag(null);
    if (chosen && pixels(...chosen) >= LEAST_DRAG) props.onRange?.([Math.min(...chosen), Math.max(...chosen)]);
    else if (chosen && nearestLine()) props.onPick?.(nearestLine()!.key);
  };
  const leave = (): void => {
    setPointerY(null);
    if (!drag()) cursor()[1](null);
  };
  const keyed = (event: KeyboardEvent): void => {
    const [low, high] = shownX();
    const x = at() ?? (low + high) / 2;
    const step = (high - low) / (event.shiftKey ? 10 : 50);
    const zoom = (factor: number): void => props.onRange?.([x - (x - low) * factor, x + (high - x) * factor]);
    const actions: Record<string, () => void> = {
      ArrowRight: () => cursor()[1]({ x: Math.min(x + step, high) }), ArrowLeft: () => cursor()[1]({ x: Math.max(x - step, low) }),
      "+": () => zoom(0.5), "-": () => zoom(2), "0": () => props.onRange?.(null), Escape: () => cursor()[1](null),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  };
  return (
    <div class="chart">
      <div ref={box} class="chart-box" style={{ height: `${height()}px` }} role="group" aria-roledescription="chart" aria-label={props.label} tabIndex={0}
        onPointerDown={down} onPointerMove={moved} onPointerUp={up} onPointerCancel={() => setDrag(null)} onPointerLeave={leave} onDblClick={() => props.onRange?.(null)} onKeyDown={keyed}>
        <canvas ref={canvas} class="chart-canvas" /><canvas ref={above} class="chart-canvas" />
      </div>
      <Show when={shownY().clipped}><span class="chart-note" title="A few values lie far outside and are cut off. “All values” shows them.">outliers cut</span></Show>
      <Show when={readings().length}>
        <div class="readout" classList={{ right: toX(frame())(at()!) < frame().left + frame().width / 2 }} aria-hidden="true">
          <span class="readout-x">{formatX(kind(), at()!, null)}</span>
          <For each={readings()}>{(reading) => <span class="readout-line cut" classList={{ near: reading.key === nearestLine()?.key }}><i class="swatch" style={{ background: reading.colour }} />{reading.label} <b>{reading.text}</b></span>}</For>
        </div>
      </Show>
    </div>
  );
}

export function formatX(kind: XKind, value: number, ticks: readonly number[] | null): string {
  if (kind === "step") return ticks ? (Math.abs(value) >= 1e6 ? formatNumber(value, 3) : grouped(value)) : `step ${grouped(Math.round(value))}`;
  if (kind === "relative") return ticks ? formatSeconds(value).replace(/ 00 (s|min|h)$/, "") : formatSeconds(value);
  if (kind === "value") return formatNumber(value, 4);
  const step = ticks && ticks.length > 1 ? ticks[1]! - ticks[0]! : 0;
  if (!ticks) return formatTime(value).replace(/\d\d:\d\d$/, formatClock(value));
  return step >= 43200 ? formatTime(value).replace(/ 00:00$/, "") : formatClock(value).slice(0, step >= 60 ? 5 : 8);
}

function read(lines: Line[], x: number, y: number | null): Reading[] {
  const found: Reading[] = [];
  for (const line of lines) {
    if (line.faint) continue;
    const index = nearest(line.x, x);
    if (index < 0) continue;
    const value = line.y[index]!;
    const spread = line.low && line.high ? ` (${formatNumber(line.low[index]!)} … ${formatNumber(line.high[index]!)})` : "";
    found.push({ key: line.key, label: line.label, colour: line.colour, text: formatNumber(value) + spread, distance: y === null ? 0 : Math.abs(value - y) });
  }
  return found.length > MOST_READINGS ? found.sort((a, b) => a.distance - b.distance) : found;
}

function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const [wide, high] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const ctx = canvas.getContext("2d")!;
  ctx.clearRect(0, 0, wide, high);
  return ctx;
}

interface Tick { value: number; text: string }

function drawAxes(ctx: CanvasRenderingContext2D, frame: Frame, ticksX: Tick[], ticksY: Tick[]): void {
  const scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour("grid");
  ctx.fillStyle = colour("muted");
  ctx.lineWidth = Math.max(1, Math.floor(scale));
  ctx.font = FONT.replace(/^\d+/, (size) => String(Number(size) * scale));
  ctx.beginPath();
  const right = frame.left + frame.width;
  const bottom = frame.top + frame.height;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const { value, text } of ticksY) {
    const y = Math.round(toY(frame)(value)) + 0.5;
    ctx.moveTo(frame.left, y);
    ctx.lineTo(right, y);
    ctx.fillText(text, frame.left - 6 * scale, y);
  }
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  const texts = ticksX.map(({ value, text }) => {
    const x = Math.round(toX(frame)(value)) + 0.5;
    ctx.moveTo(x, frame.top);
    ctx.lineTo(x, bottom);
    const half = ctx.measureText(text).width / 2;
    return { text, half, middle: Math.min(x, right + 6 * scale - half) };
  });
  const shown = apart(texts.map(({ middle, half }) => [middle - half, middle + half] as const), 4 * scale);
  texts.forEach(({ text, middle }, at) => shown[at] && ctx.fillText(text, middle, bottom + 6 * scale));
  ctx.stroke();
  ctx.restore();
}

function clipped(ctx: CanvasRenderingContext2D, frame: Frame, paint: () => void): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(frame.left, frame.top, frame.width, frame.height);
  ctx.clip();
  paint();
  ctx.restore();
}

function shade(ctx: CanvasRenderingContext2D, frame: Frame, band: Band): void {
  const from = toX(frame)(band.from);
  ctx.globalAlpha = 0.14;
  ctx.fillStyle = band.colour;
  ctx.fillRect(from, frame.top, Math.max(toX(frame)(band.to) - from, 1), frame.height);
  ctx.globalAlpha = 1;
}

function vertical(ctx: CanvasRenderingContext2D, frame: Frame, value: number, tone: string, dashes: number[]): number {
  const x = Math.round(toX(frame)(value)) + 0.5;
  ctx.strokeStyle = tone;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(dashes.map((dash) => dash * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(x, frame.top);
  ctx.lineTo(x, frame.top + frame.height);
  ctx.stroke();
  ctx.setLineDash([]);
  return x;
}

function drawMark(ctx: CanvasRenderingContext2D, frame: Frame, mark: Mark): void {
  const tone = colour(mark.tone === "note" ? "muted" : "bad");
  const x = vertical(ctx, frame, mark.x, tone, [4, 3]);
  const size = devicePixelRatio;
  ctx.fillStyle = tone;
  ctx.beginPath();
  ctx.moveTo(x - 4 * size, frame.top);
  ctx.lineTo(x + 4 * size, frame.top);
  ctx.lineTo(x, frame.top + 6 * size);
  ctx.fill();
}

const ends = (x: ArrayLike<number>): number[] => (x.length ? [x[0]!, x[x.length - 1]!] : []);
