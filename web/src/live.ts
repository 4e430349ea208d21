// Live updates over server-sent events: only what is new, and only what is asked for.
// A page has one connection, whatever is on it: browsers allow six per server, for all tabs together.
import { createEffect, createSignal, onCleanup } from "solid-js";
import type { Job, JobRow, Num } from "./api";
import { apiAddress, openSession, type Query } from "./client";
import { formatList, parseList } from "./location";

export interface LivePoints { items: { job: string; id: string; x: number[]; t: number[]; y: Num[]; replace?: boolean }[] }
export interface LiveTensors { job: string; last_step: number }
export interface LiveLog { host: string; first: number; lines: { time: number; text: string }[] }
export interface LiveHandlers {
  jobs?: (event: { revision: string; rows: JobRow[]; gone: string[] }) => void;
  job?: (event: Job) => void;
  gone?: (event: { job: string }) => void;   // the job was deleted
  issues?: (event: unknown) => void;
  points?: (event: LivePoints) => void;
  tensors?: (event: LiveTensors) => void;
  log?: (event: LiveLog) => void;
  open?: (again: boolean) => void;   // again: events may have been missed
}

interface Subscription { query: Query; handlers: LiveHandlers }

const EVENTS = ["jobs", "job", "gone", "issues", "points", "tensors", "log"] as const;
const HIDDEN_MS = 60_000;           // a tab that nobody sees lets its connection go
const LOST_MS = 4_000;

const subscriptions = new Set<Subscription>();
const [connected, setConnected] = createSignal(true);
let source: EventSource | undefined;
let address = "";
let planned = false;
let lost: ReturnType<typeof setTimeout> | undefined;
let hiding: ReturnType<typeof setTimeout> | undefined;
let asleep = false;
export { connected };

// Follows the query as it changes; null asks for nothing.
export function createLive(query: () => Query | null, handlers: LiveHandlers): void {
  createEffect(() => {
    const asked = query();
    if (!asked) return;
    const subscription = { query: asked, handlers };
    subscriptions.add(subscription);
    plan();
    onCleanup(() => {
      subscriptions.delete(subscription);
      plan();
    });
  });
}

// Lists of several parts of the page are joined; of anything else the last counts.
export function mergeQueries(queries: readonly Query[]): Query {
  const merged: Query = {};
  for (const query of queries) {
    for (const [key, value] of Object.entries(query)) {
      if (value === null || value === undefined || value === "") continue;
      const before = merged[key];
      merged[key] = key === "curves" && before ? joined(String(before), String(value)) : value;
    }
  }
  return merged;
}

// Sorted, so that a part that asks again for the same does not change the address.
const joined = (a: string, b: string): string => formatList([...new Set([...parseList(a), ...parseList(b)])].sort());

function plan(): void {
  if (planned) return;
  planned = true;
  queueMicrotask(() => {
    planned = false;
    connect();
  });
}

function connect(): void {
  if (asleep) return;
  const wanted = subscriptions.size ? apiAddress("live", mergeQueries([...subscriptions].map((each) => each.query))) : "";
  if (wanted === address) return;
  source?.close();
  source = undefined;
  address = wanted;
  if (!wanted) return;
  const opened = new EventSource(wanted);
  let again = false;
  source = opened;
  opened.onopen = () => {
    clearTimeout(lost);
    lost = undefined;
    setConnected(true);
    for (const { handlers } of subscriptions) handlers.open?.(again);
    again = true;
  };
  opened.onerror = () => {
    lost ??= setTimeout(() => setConnected(false), LOST_MS);
    if (opened.readyState !== EventSource.CLOSED) return;
    setTimeout(reconnect, LOST_MS);   // the browser has given up
    openSession().catch(() => null);  // and does not say why: if the session is over, somebody has to sign in
  };
  for (const name of EVENTS) {
    opened.addEventListener(name, (event) => {
      const data: unknown = JSON.parse(event.data as string);
      for (const { handlers } of [...subscriptions]) (handlers[name] as ((data: unknown) => void) | undefined)?.(data);
    });
  }
}

function reconnect(): void {
  if (source?.readyState !== EventSource.CLOSED) return;
  address = "";
  connect();
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  hiding = undefined;
  if (document.hidden) {
    hiding = setTimeout(() => {
      asleep = true;
      source?.close();
    }, HIDDEN_MS);
  } else if (asleep) {
    asleep = false;
    address = "";
    connect();
    for (const { handlers } of subscriptions) handlers.open?.(true);
  }
});
