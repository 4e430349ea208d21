// Exponential moving average that means the same on thinned points as on all points. Pure.

// `weight` is what one original point keeps of the average before it (0: no smoothing, 0.99: strong).
// `total` is the number of points before thinning; gaps between thinned points count as the points left out.
export function smooth(x: ArrayLike<number>, y: ArrayLike<number>, weight: number, total: number = x.length): Float64Array {
  const count = x.length;
  const result = new Float64Array(count);
  if (!count) return result;
  const range = x[count - 1]! - x[0]!;
  const density = range > 0 && total > 1 ? (total - 1) / range : 0;   // original points per unit of x
  let average = 0;
  let mass = 0;
  for (let at = 0; at < count; at++) {
    const value = y[at]!;
    const passed = at === 0 ? 1 : density ? Math.max((x[at]! - x[at - 1]!) * density, 0) : 1;
    const kept = weight ** passed;
    if (Number.isFinite(value)) {
      average = average * kept + value * (1 - kept);
      mass = mass * kept + (1 - kept);
      result[at] = mass > 0 ? average / mass : value;   // without the bias towards zero of the first points
    } else result[at] = value;
  }
  return result;
}
