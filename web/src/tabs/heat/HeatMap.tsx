// A heat map of rows and steps on a canvas: scrolls over the rows, zooms over the steps by dragging.
import { createEffect, createMemo, createSignal, createUniqueId, For, type JSX, on, onCleanup, Show } from "solid-js";
import { formatNumber, grouped, plural } from "../../format";
import { colour, theme } from "../../theme";
import { createWidth } from "../width";
import { cellText, clamp, colourCells, columnAt, type HeatData, joinRows, shorten, shortNames, span, summarise, ticks } from "./cells";
import { css, gradient, type Look, NOT_FINITE, NOT_SAVED, palette, ZERO } from "./palettes";

export interface HeatMark { step: number; label: string; row?: string }
export interface HeatProps {
  data: HeatData;
  label: string;                     // what a screen reader says
  rows: string;                      // "tensor" or "rank"
  unit?: string;
  absent?: string;                   // what cells without a value are; default: not saved
  hint?: boolean;                    // how to use it, while nothing is pointed at; default true
  marks?: HeatMark[];
  rowHeight?: number | null;         // null: all rows fit
  selected?: string;
  zoomed: boolean;
  onRange: (range: [number, number] | null) => void;
  onOpen?: (name: string, step: number) => void;
}

interface Place { row: number; column: number }

const TOP = 12;
const BOTTOM = 20;
const MOST_HEIGHT = 560;
const FONT = 11;
const MOST_LABELS = 0.32;            // of the width
const SIGN = 6.7;                    // width of a character of the labels

export function HeatMap(props: HeatProps): JSX.Element {
  let box!: HTMLDivElement;
  let canvas!: HTMLCanvasElement;
  const help = createUniqueId();
  const width = createWidth(() => box);
  const [scrolled, setScrolled] = createSignal(0);
  const [cursor, setCursor] = createSignal<{ name: string; step: number } | null>(null);   // a place that outlives new data
  const [focused, setFocused] = createSignal(false);
  const [drag, setDrag] = createSignal<[number, number] | null>(null);                     // pixels

  const look = (): Look => ({ dark: theme() === "dark", diverging: props.data.diverging });
  const colours = createMemo(() => palette(look()));
  const count = (): number => props.data.names.length;
  const columns = (): number => props.data.steps.length;
  const labels = createMemo(() => shortNames(props.data.names));
  const labelWidth = createMemo(() => clamp(Math.max(...labels().slice(0, 5000).map((name) => name.length), 4) * SIGN + 22, 40, Math.max(90, width() * MOST_LABELS)));
  const rowHeight = (): number => props.rowHeight ?? clamp(MOST_HEIGHT / count(), 0, 20);
  const plotHeight = (): number => Math.min(Math.max(rowHeight() * count(), 1), props.rowHeight ? MOST_HEIGHT : Infinity);
  const plotWidth = (): number => Math.max(width() - labelWidth() - 8, 10);
  const bounds = createMemo(() => span(props.data.starts));
  const toX = (step: number): number => labelWidth() + ((step - bounds()[0]) / (bounds()[1] - bounds()[0])) * plotWidth();
  const toStep = (x: number): number => bounds()[0] + ((x - labelWidth()) / plotWidth()) * (bounds()[1] - bounds()[0]);
  const broken = createMemo(() => new Set(props.data.names.flatMap((_, row) => (summarise(props.data, row).notFinite === null ? [] : [row]))));
  const place = createMemo((): Place | null => {
    const at = cursor();
    const row = at ? props.data.names.indexOf(at.name) : -1;
    return row < 0 ? null : { row, column: columnAt(props.data.starts, at!.step) };
  });

  // One pixel per cell; fewer rows where several share a pixel of the screen.
  const picture = createMemo(() => {
    const height = props.rowHeight ? count() : Math.min(count(), Math.max(1, Math.floor(plotHeight() * devicePixelRatio)));
    const cells = joinRows(props.data.cells, count(), columns(), height, props.data.diverging);
    const made = document.createElement("canvas");
    made.width = Math.max(columns(), 1);
    made.height = Math.max(height, 1);
    const pixels = new ImageData(made.width, made.height);
    colourCells(cells, colours(), new Uint32Array(pixels.data.buffer));
    made.getContext("2d")!.putImageData(pixels, 0, 0);
    return made;
  });

  const nameAt = (row: number): string => props.data.names[row] ?? "";
  const stepAt = (column: number): number => Math.round(props.data.steps[column] ?? 0);
  const reading = createMemo(() => {
    const at = place();
    if (!at) return "";
    const value = cellText(props.data, props.data.cells[at.row * columns() + at.column]!, props.absent);
    const near = (props.marks ?? []).filter((mark) => Math.abs(toX(mark.step) - toX(stepAt(at.column))) < 5 && (!mark.row || mark.row === nameAt(at.row)));
    const unit = props.unit && /\d/.test(value) ? ` ${props.unit}` : "";
    return `${nameAt(at.row)}, step ${grouped(stepAt(at.column))}: ${value}${unit}${near.map((mark) => `; ${mark.label}`).join("")}`;
  });

  const draw = (): void => {
    const ratio = devicePixelRatio;
    const [wide, high] = [width(), TOP + plotHeight() + BOTTOM];
    if (!wide) return;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    const ctx = canvas.getContext("2d")!;
    ctx.scale(ratio, ratio);
    ctx.font = `${FONT}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace`;
    drawCells(ctx);
    drawLabels(ctx);
    drawSteps(ctx);
    drawMarks(ctx);
    drawCursor(ctx);
  };
  const clipped = (ctx: CanvasRenderingContext2D, paint: () => void): void => {
    ctx.save();
    ctx.beginPath();
    ctx.rect(labelWidth(), TOP, plotWidth(), plotHeight());
    ctx.clip();
    paint();
    ctx.restore();
  };
  const rowTop = (row: number): number => TOP + row * rowHeight() - (props.rowHeight ? scrolled() : 0);
  const drawCells = (ctx: CanvasRenderingContext2D): void => clipped(ctx, () => {
    ctx.fillStyle = hatch(ctx) ?? colour("sunken");
    ctx.fillRect(labelWidth(), TOP, plotWidth(), plotHeight());
    ctx.imageSmoothingEnabled = false;
    if (!props.rowHeight) ctx.drawImage(picture(), labelWidth(), TOP, plotWidth(), plotHeight());
    else {
      const first = Math.floor(scrolled() / rowHeight());
      const shown = Math.min(count() - first, Math.ceil(plotHeight() / rowHeight()) + 1);
      if (shown > 0) ctx.drawImage(picture(), 0, first, columns(), shown, labelWidth(), rowTop(first), plotWidth(), shown * rowHeight());
    }
    if (rowHeight() < 10) return;
    ctx.fillStyle = colour("surface");
    for (let row = 1; row < count(); row++) if (rowTop(row) > TOP && rowTop(row) < TOP + plotHeight()) ctx.fillRect(labelWidth(), rowTop(row) - 0.5, plotWidth(), 1);
  });
  const drawLabels = (ctx: CanvasRenderingContext2D): void => {
    const every = Math.ceil((FONT + 2) / rowHeight());
    const most = Math.floor((labelWidth() - 20) / SIGN);
    const current = place()?.row ?? -1;
    ctx.textBaseline = "middle";
    const label = (row: number): void => {
      const y = rowTop(row) + rowHeight() / 2;
      if (y < TOP || y > TOP + plotHeight() + 1) return;
      ctx.fillStyle = colour(row === current || nameAt(row) === props.selected ? "text" : "muted");
      ctx.fillText(shorten(labels()[row]!, most), 2, y);
    };
    for (let row = 0; row < count(); row += every) if (Math.abs(row - current) >= every || current < 0) label(row);
    if (current >= 0) label(current);
    ctx.fillStyle = css(colours(), NOT_FINITE);
    const crossed = new Set<number>();
    for (const row of broken()) {
      const y = Math.round(rowTop(row) + rowHeight() / 2);
      if (y < TOP || y > TOP + plotHeight() || crossed.has(Math.round(y / 6))) continue;
      crossed.add(Math.round(y / 6));
      ctx.fillText("×", labelWidth() - 11, y);
    }
  };
  const drawSteps = (ctx: CanvasRenderingContext2D): void => {
    ctx.fillStyle = colour("muted");
    ctx.textBaseline = "top";
    for (const step of ticks(bounds()[0], bounds()[1], plotWidth() / 80)) {
      const text = step >= 1e7 ? formatNumber(step, 3) : grouped(step);
      const x = toX(step);
      ctx.fillRect(x, TOP + plotHeight(), 1, 4);
      ctx.fillText(text, clamp(x - (text.length * SIGN) / 2, labelWidth(), width() - text.length * SIGN), TOP + plotHeight() + 6);
    }
  };
  const drawMarks = (ctx: CanvasRenderingContext2D): void => {
    for (const mark of props.marks ?? []) {
      const x = toX(mark.step);
      if (x < labelWidth() || x > labelWidth() + plotWidth()) continue;
      ctx.fillStyle = ctx.strokeStyle = colour("bad");
      ctx.beginPath();
      ctx.moveTo(x - 5, 1);
      ctx.lineTo(x + 5, 1);
      ctx.lineTo(x, TOP - 2);
      ctx.fill();
      const row = mark.row ? props.data.names.indexOf(mark.row) : -1;
      if (row >= 0) clipped(ctx, () => ring(ctx, x, rowTop(row) + rowHeight() / 2, colour("bad")));
    }
  };
  const ring = (ctx: CanvasRenderingContext2D, x: number, y: number, tone: string): void => {
    for (const [width, stroke] of [[4, colour("surface")], [2, tone]] as const) {
      ctx.lineWidth = width;
      ctx.strokeStyle = stroke;
      ctx.beginPath();
      ctx.arc(x, y, 5, 0, 2 * Math.PI);
      ctx.stroke();
    }
  };
  const frame = (ctx: CanvasRenderingContext2D, x: number, y: number, wide: number, high: number): void => {
    for (const [width, tone] of [[3, "surface"], [1.5, "text"]] as const) {
      ctx.lineWidth = width;
      ctx.strokeStyle = colour(tone);
      ctx.strokeRect(x, y, wide, high);
    }
  };
  const drawCursor = (ctx: CanvasRenderingContext2D): void => clipped(ctx, () => {
    const row = props.selected ? props.data.names.indexOf(props.selected) : -1;
    const tall = Math.max(rowHeight(), 3);
    if (row >= 0) frame(ctx, labelWidth() + 1, rowTop(row), plotWidth() - 2, tall);
    const at = place();
    if (at) {
      const wide = plotWidth() / columns();
      frame(ctx, labelWidth() + at.column * wide - 1, rowTop(at.row) - 1, Math.max(wide, 2) + 2, tall + 2);
    }
    const dragged = drag();
    if (!dragged) return;
    ctx.globalAlpha = 0.3;
    ctx.fillStyle = colour("accent");
    ctx.fillRect(Math.min(...dragged), TOP, Math.abs(dragged[1] - dragged[0]), plotHeight());
  });

  let asked = 0;
  const redraw = (): void => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
  createEffect(on([picture, width, scrolled, place, drag, () => props.marks, () => props.selected, () => props.rowHeight, plotHeight, colours, focused], redraw));
  onCleanup(() => cancelAnimationFrame(asked));

  const under = (event: PointerEvent): Place | null => {
    const edges = canvas.getBoundingClientRect();
    const x = event.clientX - edges.left;
    const y = event.clientY - edges.top;
    const row = Math.floor((y - rowTop(0)) / rowHeight());
    if (x > labelWidth() + plotWidth() || y < TOP || y > TOP + plotHeight() || row < 0 || row >= count()) return null;
    return { row, column: x < labelWidth() ? columns() - 1 : columnAt(props.data.starts, toStep(x)) };
  };
  const point = (at: Place | null): void => void setCursor(at ? { name: nameAt(at.row), step: stepAt(at.column) } : null);
  const across = (event: PointerEvent): number => clamp(event.clientX - canvas.getBoundingClientRect().left, labelWidth(), labelWidth() + plotWidth());
  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    setDrag([across(event), across(event)]);
  };
  const move = (event: PointerEvent): void => {
    const dragged = drag();
    if (dragged) setDrag([dragged[0], across(event)]);
    point(under(event));
  };
  const up = (event: PointerEvent): void => {
    const dragged = drag();
    setDrag(null);
    if (!dragged) return;
    if (Math.abs(dragged[1] - dragged[0]) > 6) zoomTo(toStep(Math.min(...dragged)), toStep(Math.max(...dragged)));
    else open(under(event));
  };
  const open = (at: Place | null): void => void (at && props.onOpen?.(nameAt(at.row), stepAt(at.column)));
  const zoomTo = (from: number, to: number): void => props.onRange([Math.floor(from), Math.max(Math.ceil(to) - 1, Math.floor(from) + 1)]);

  const reveal = (row: number): void => {
    if (!props.rowHeight) return;
    const top = row * rowHeight();
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + rowHeight() > box.scrollTop + plotHeight()) box.scrollTop = top + rowHeight() - plotHeight();
  };
  const keys = (event: KeyboardEvent): void => {
    const at = place() ?? { row: 0, column: columns() - 1 };
    const far = event.shiftKey ? 10 : 1;
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [0, -far], ArrowRight: [0, far], ArrowUp: [-far, 0], ArrowDown: [far, 0],
      PageUp: [-20, 0], PageDown: [20, 0], Home: [0, -columns()], End: [0, columns()],
    };
    const by = moves[event.key];
    const half = (bounds()[1] - bounds()[0]) / 4;
    if (by) {
      const next = { row: clamp(at.row + by[0], 0, count() - 1), column: clamp(at.column + by[1], 0, columns() - 1) };
      point(next);
      reveal(next.row);
    } else if (event.key === "Enter" || event.key === " ") open(at);
    else if (event.key === "+") zoomTo(stepAt(at.column) - half, stepAt(at.column) + half);
    else if (event.key === "-" && props.zoomed) props.onRange(null);
    else return;
    event.preventDefault();
  };

  return (
    <div class="heat">
      <p class="heat-reading">{reading() || <Show when={props.hint ?? true}><span class="muted">Point at a cell, or move with the arrow keys. Drag to zoom.</span></Show>}</p>
      <div ref={box} class="heat-box" classList={{ scrolls: !!props.rowHeight }} style={{ height: `${TOP + plotHeight() + BOTTOM}px` }} tabIndex={0} role="application" aria-label={props.label}
        aria-describedby={help} onKeyDown={keys} onScroll={() => setScrolled(box.scrollTop)} onFocus={() => setFocused(true)} onBlur={() => setFocused(false)}>
        <canvas ref={canvas} class="heat-canvas" classList={{ opens: !!props.onOpen }} style={{ height: `${TOP + plotHeight() + BOTTOM}px` }} aria-hidden="true" onPointerDown={down} onPointerMove={move} onPointerUp={up}
          onPointerCancel={() => setDrag(null)} onPointerLeave={() => !drag() && !focused() && setCursor(null)} onDblClick={() => props.onRange(null)} />
        <div style={{ height: `${Math.max(rowHeight() * count() - plotHeight(), 0)}px` }} />
      </div>
      <p id={help} class="off-screen">Arrow keys move over {props.rows}s and steps, Shift for ten at once. {props.onOpen ? `Enter opens the ${props.rows}. ` : ""}Plus zooms in, minus shows all steps. A table of the same follows.</p>
      <p class="off-screen" aria-live="polite">{focused() ? reading() : ""}</p>
      <div class="heat-under">
        <Legend data={props.data} look={look()} colours={colours()} unit={props.unit} absent={props.absent ?? "not saved"} />
        <Show when={props.zoomed}><button type="button" class="small" onClick={() => props.onRange(null)}>Show all steps</button></Show>
      </div>
      <AsTable data={props.data} rows={props.rows} />
    </div>
  );
}

function Legend(props: { data: HeatData; look: Look; colours: Uint32Array; unit?: string; absent: string }): JSX.Element {
  const end = (level: number): string => formatNumber(props.data.log ? 10 ** level : level, 2);
  const has = createMemo(() => [ZERO, NOT_FINITE].filter((cell) => props.data.cells.includes(cell)));
  return (
    <p class="heat-legend">
      <span>{props.data.figure} {end(props.data.dark)}</span>
      <i class="heat-scale" style={{ background: gradient(props.look) }} />
      <span>{end(props.data.bright)} {props.unit}</span>
      <For each={has()}>{(cell) => <span><i class="swatch" style={{ background: css(props.colours, cell) }} />{cell === ZERO ? "zero" : "× not finite"}</span>}</For>
      <Show when={props.data.cells.includes(NOT_SAVED)}><span><i class="swatch not-saved" />{props.absent}</span></Show>
    </p>
  );
}

const MOST_IN_TABLE = 200;

function AsTable(props: { data: HeatData; rows: string }): JSX.Element {
  const [open, setOpen] = createSignal(false);
  const rows = createMemo(() => (open() ? props.data.names.slice(0, MOST_IN_TABLE).map((_, row) => summarise(props.data, row)) : []));
  return (
    <details class="heat-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      <Show when={open()}>
        <div class="table-box" tabIndex={0} role="region" aria-label="The heat map as a table">
          <table class="table">
            <thead><tr><th scope="col">{props.rows}</th><th scope="col">last value</th><th scope="col">not finite since step</th><th scope="col">zeros</th></tr></thead>
            <tbody><For each={rows()}>{(row) => <tr><td class="mono">{row.name}</td><td>{row.last}</td><td>{row.notFinite === null ? "" : grouped(row.notFinite)}</td><td>{row.zeros ? "yes" : ""}</td></tr>}</For></tbody>
          </table>
        </div>
        <Show when={props.data.names.length > MOST_IN_TABLE}><p class="muted">The first {MOST_IN_TABLE} of {plural(props.data.names.length, props.rows)}. The name filter narrows them down.</p></Show>
      </Show>
    </details>
  );
}

let hatched: { theme: string; pattern: CanvasPattern | null } | null = null;

// Cells that were not saved are hatched: no colour of a scale looks like it.
function hatch(ctx: CanvasRenderingContext2D): CanvasPattern | null {
  if (hatched?.theme === theme()) return hatched.pattern;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d")!;
  pen.fillStyle = colour("sunken");
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = colour("line");
  pen.beginPath();
  pen.moveTo(-1, 7);
  pen.lineTo(7, -1);
  pen.stroke();
  hatched = { theme: theme(), pattern: ctx.createPattern(tile, "repeat") };
  return hatched.pattern;
}

export const heatRange = (text: string): [number, number] | null => {
  const [from, to] = text.split("-").map(Number);
  return from !== undefined && to !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from ? [from, to] : null;
};
// Columns to ask for: each has a pixel of its own, whatever the labels take, so that none is lost.
export const columnsOf = (width: number): number => Math.max(100, 100 * Math.floor((width * (1 - MOST_LABELS) * devicePixelRatio - 100) / 100));
