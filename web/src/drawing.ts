// Lines and bands on a canvas. Points that are not finite break a line and leave a mark at the top.

export interface Frame {
  left: number; top: number; width: number; height: number;   // device pixels
  x: [number, number]; y: [number, number];
  log: boolean;
}
export interface Pen { colour: string; width: number; alpha: number; dashed?: boolean }

export function drawLine(ctx: CanvasRenderingContext2D, frame: Frame, x: ArrayLike<number>, y: ArrayLike<number>, pen: Pen): void {
  const atX = toX(frame);
  const atY = toY(frame);
  ctx.save();
  ctx.globalAlpha = pen.alpha;
  ctx.strokeStyle = ctx.fillStyle = pen.colour;
  ctx.lineWidth = pen.width;
  ctx.lineJoin = "round";
  if (pen.dashed) ctx.setLineDash([5 * pen.width, 3 * pen.width]);
  ctx.beginPath();
  let open = false;
  let lone = -1;                    // a point without neighbours is drawn as a dot
  const dots: number[] = [];
  for (let at = 0; at < x.length; at++) {
    const value = y[at]!;
    if (!Number.isFinite(value) || (frame.log && value <= 0)) {
      if (lone >= 0) dots.push(lone);
      open = false;
      lone = -1;
    } else if (open) {
      ctx.lineTo(atX(x[at]!), atY(value));
      lone = -1;
    } else {
      ctx.moveTo(atX(x[at]!), atY(value));
      open = true;
      lone = at;
    }
  }
  if (lone >= 0) dots.push(lone);
  ctx.stroke();
  for (const at of dots) {
    ctx.beginPath();
    ctx.arc(atX(x[at]!), atY(y[at]!), pen.width * 1.6, 0, 2 * Math.PI);
    ctx.fill();
  }
  drawGaps(ctx, frame, x, y, atX, pen);
  ctx.restore();
}

export function drawBand(ctx: CanvasRenderingContext2D, frame: Frame, x: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>, colour: string): void {
  const atX = toX(frame);
  const atY = toY(frame);
  const floor = frame.log ? frame.y[0] : -Infinity;
  ctx.save();
  ctx.globalAlpha = 0.16;
  ctx.fillStyle = colour;
  ctx.beginPath();
  let started = false;
  for (let at = 0; at < x.length; at++) {
    if (!Number.isFinite(high[at]!) || !Number.isFinite(low[at]!)) continue;
    if (started) ctx.lineTo(atX(x[at]!), atY(Math.max(high[at]!, floor)));
    else ctx.moveTo(atX(x[at]!), atY(Math.max(high[at]!, floor)));
    started = true;
  }
  for (let at = x.length - 1; at >= 0; at--) {
    if (Number.isFinite(high[at]!) && Number.isFinite(low[at]!)) ctx.lineTo(atX(x[at]!), atY(Math.max(low[at]!, floor)));
  }
  ctx.closePath();
  ctx.fill();
  ctx.restore();
}

// Small crosses along the upper edge where a value is NaN or infinite.
function drawGaps(ctx: CanvasRenderingContext2D, frame: Frame, x: ArrayLike<number>, y: ArrayLike<number>, atX: (x: number) => number, pen: Pen): void {
  const size = 2.5 * pen.width;
  const top = frame.top + 2 * size;
  let last = -Infinity;
  ctx.setLineDash([]);
  ctx.beginPath();
  for (let at = 0; at < x.length; at++) {
    if (Number.isFinite(y[at]!)) continue;
    const left = atX(x[at]!);
    if (left - last < 3 * size) continue;
    last = left;
    ctx.moveTo(left - size, top - size);
    ctx.lineTo(left + size, top + size);
    ctx.moveTo(left + size, top - size);
    ctx.lineTo(left - size, top + size);
  }
  ctx.stroke();
}

export function toX(frame: Frame): (x: number) => number {
  const scale = frame.width / (frame.x[1] - frame.x[0] || 1);
  return (x) => frame.left + (x - frame.x[0]) * scale;
}

export function toY(frame: Frame): (y: number) => number {
  const bottom = frame.top + frame.height;
  if (frame.log) {
    const low = Math.log10(frame.y[0]);
    const scale = frame.height / (Math.log10(frame.y[1]) - low || 1);
    return (y) => bottom - (Math.log10(y) - low) * scale;
  }
  const scale = frame.height / (frame.y[1] - frame.y[0] || 1);
  return (y) => bottom - (y - frame.y[0]) * scale;
}
