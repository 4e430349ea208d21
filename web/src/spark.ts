// The path of a sparkline. Pure.

export function sparkPath(values: readonly (number | string | null)[], width: number, height: number, bars = false): string {
  const numbers = values.map((value) => (typeof value === "number" ? value : NaN));
  const finite = numbers.filter(Number.isFinite);
  if (!finite.length) return "";
  const low = bars ? 0 : Math.min(...finite);
  const high = Math.max(...finite);
  const step = numbers.length > 1 ? (width - 2) / (numbers.length - (bars ? 0 : 1)) : 0;
  const y = (value: number): number => round(height - 1.5 - (high === low ? (bars ? 1 : 0.5) : (value - low) / (high - low)) * (height - 3));
  if (bars) return numbers.map((value, at) => (value > 0 ? `M${round(1 + at * step)} ${height - 1}V${y(value)}h${round(Math.max(step - 1, 1))}V${height - 1}z` : "")).join("");
  let path = "";
  let open = false;
  numbers.forEach((value, at) => {
    if (Number.isFinite(value)) path += `${open ? "L" : "M"}${round(1 + at * step)} ${y(value)}`;
    open = Number.isFinite(value);
  });
  return finite.length === 1 ? `${path}h1` : path;
}

const round = (value: number): number => Math.round(value * 10) / 10;
