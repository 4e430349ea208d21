// State of the page that belongs in its address, as signals: one per key, so that a change of the
// zoom redraws what reads the zoom and nothing else.
import { type Accessor, batch, createSignal, type Setter, untrack } from "solid-js";
import { formatList, formatPlace, parseList, parsePlace, type Place, type Values } from "./location";

export type Change = string | number | boolean | readonly string[] | null | undefined;

export interface UrlState {
  text(key: string, otherwise?: string): string;
  number(key: string): number | null;
  flag(key: string): boolean;                 // "1" or absent
  list(key: string): string[];
  // null, "", false and [] remove a key. `push` makes a step for the Back button; else the address is replaced.
  set(changes: Record<string, Change>, push?: boolean): void;
}

const start = parsePlace(window.location.hash);
const [path, setPath] = createSignal<string[]>(start.path, { equals: samePath });
const signals = new Map<string, [Accessor<string>, Setter<string>]>();
let values: Values = start.values;

export { path };

function signal(key: string): [Accessor<string>, Setter<string>] {
  let found = signals.get(key);
  if (!found) {
    found = createSignal(values[key] ?? "");
    signals.set(key, found);
  }
  return found;
}

function show(place: Place): void {
  values = place.values;
  batch(() => {
    setPath(place.path);
    for (const [key, [, write]] of signals) write(values[key] ?? "");
  });
}

window.addEventListener("hashchange", () => show(parsePlace(window.location.hash)));
window.addEventListener("popstate", () => show(parsePlace(window.location.hash)));

export const state: UrlState = {
  text: (key, otherwise = "") => signal(key)[0]() || otherwise,
  number: (key) => {
    const text = signal(key)[0]();
    const value = Number(text);
    return text === "" || Number.isNaN(value) ? null : value;
  },
  flag: (key) => signal(key)[0]() === "1",
  list: (key) => parseList(signal(key)[0]()),
  set: (changes, push = false) => {
    const next = { ...values };
    for (const [key, change] of Object.entries(changes)) {
      const text = written(change);
      if (text) next[key] = text;
      else delete next[key];
    }
    enter({ path: untrack(path), values: next }, push);
  },
};

export function enter(place: Place, push = true): void {
  const address = formatPlace(place);
  if (address !== window.location.hash) {
    if (push) history.pushState(null, "", address);
    else history.replaceState(history.state, "", address);
  }
  show(place);
}

export function address(path: string[], values: Record<string, Change> = {}): string {
  const texts: Values = {};
  for (const [key, change] of Object.entries(values)) texts[key] = written(change);
  return formatPlace({ path, values: texts });
}

export const homeAddress = (values: Record<string, Change> = {}): string => address([], values);
export const jobAddress = (name: string, values: Record<string, Change> = {}): string => address(["job", name], values);
export const issueAddress = (id: string): string => address(["issue", id]);
export const compareAddress = (jobs: string[], values: Record<string, Change> = {}): string => address(["compare"], { jobs, ...values });

function written(change: Change): string {
  if (change === null || change === undefined || change === false) return "";
  if (change === true) return "1";
  return Array.isArray(change) ? formatList(change as string[]) : String(change);
}

function samePath(a: string[], b: string[]): boolean {
  return a.length === b.length && a.every((part, at) => part === b[at]);
}
