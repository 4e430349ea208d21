// Points that a server sent and those that came in since. Pure.

// A point that was sent before is left out; so is what lies outside of the zoom.
export function joinPoints(x: ArrayLike<number>, y: ArrayLike<number>, fresh: { x: number[]; y: number[] } | undefined, zoom: [number, number] | null): [ArrayLike<number>, ArrayLike<number>] {
  if (!fresh?.x.length) return [x, y];
  const last = x.length ? x[x.length - 1]! : -Infinity;
  const [from, to] = zoom ?? [-Infinity, Infinity];
  const added: number[] = [];
  fresh.x.forEach((value, at) => {
    if (value > last && value >= from && value <= to) added.push(at);
  });
  if (!added.length) return [x, y];
  const allX = new Float64Array(x.length + added.length);
  const allY = new Float64Array(x.length + added.length);
  allX.set(x);
  allY.set(y);
  added.forEach((at, index) => {
    allX[x.length + index] = fresh.x[at]!;
    allY[x.length + index] = fresh.y[at]!;
  });
  return [allX, allY];
}
