// Bytes of charts in units that people read. Pure.

export interface Scale { unit: string; factor: number }

const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"];

export function scaleOf(unit: string, greatest: number): Scale {
  const found = /^bytes(\/second)?$/.exec(unit);
  if (!found) return { unit, factor: 1 };
  const power = Math.min(Math.max(Math.floor(Math.log10(greatest || 1) / 3), 0), SIZES.length - 1);
  return { unit: `${SIZES[power]}${found[1] ? "/s" : ""}`, factor: 1000 ** -power };
}

// "cpu/total_percent" as "total": the chart's title and unit say the rest.
export function shortName(name: string): string {
  const last = name.slice(name.lastIndexOf("/") + 1).replace(/_(percent|bytes_per_second|bytes|seconds)$/, "").replaceAll("_", " ");
  return last || name;
}
