// The address of a view as text: "#/job/NAME?tab=curves&smooth=0.6". Pure: no window, no signals.
// The fragment is never sent to a server, so a link may name hundreds of jobs.

export type Values = Record<string, string>;

export interface Place {
  path: string[];   // ["job", "bert-77"]; [] is home
  values: Values;
}

export function parsePlace(fragment: string): Place {
  const text = fragment.replace(/^#?\/?/, "");
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  const values: Values = {};
  for (const [key, value] of new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1))) {
    if (key) values[key] = value;
  }
  return { path: path.split("/").filter(Boolean).map(decoded), values };
}

export function formatPlace(place: Place): string {
  const path = place.path.map(encodeURIComponent).join("/");
  const query = Object.entries(place.values)
    .filter(([, value]) => value !== "")
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${readable(key)}=${readable(value)}`)
    .join("&");
  return `#/${path}${query ? `?${query}` : ""}`;
}

// Lists are joined by commas; a comma or a backslash inside an entry is written with a backslash.
export function parseList(text: string): string[] {
  if (!text) return [];
  const entries: string[] = [];
  let entry = "";
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === "\\" && at + 1 < text.length) entry += text[++at];
    else if (sign === ",") {
      entries.push(entry);
      entry = "";
    } else entry += sign;
  }
  entries.push(entry);
  return entries;
}

export function formatList(entries: readonly string[]): string {
  return entries.map((entry) => entry.replace(/[\\,]/g, "\\$&")).join(",");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Escapes what would end a value, and leaves the rest as people wrote it.
function readable(text: string): string {
  return encodeURIComponent(text).replace(/%(2C|3A|2F|40|24)/g, decodeURIComponent);
}
