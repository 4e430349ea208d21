// Requests to the API. Addresses are relative to the page, so that a path prefix needs no setting.
import { createSignal } from "solid-js";
import type { Session } from "./api";
import { decodeFrame, type FrameItem, FrameReader } from "./frames";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly advice: string,
    readonly at: number | null,   // position in a query that cannot be parsed
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

const [session, setSession] = createSignal<Session | null>(null);
const [loginNeeded, setLoginNeeded] = createSignal(false);
let opening: Promise<unknown> | undefined;          // the first request for the session
export { loginNeeded, session };

export function apiAddress(path: string, query: Query = {}): string {
  const url = new URL(`api/${path}`, document.baseURI.split("#")[0]);
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(key, value === true ? "1" : value === false ? "0" : String(value));
  }
  return url.href;
}

// The part of a path that is a name: names of jobs are anything.
export const part = encodeURIComponent;

export async function getJson<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await request(apiAddress(path, query), { signal })).json() as Promise<T>;
}

export async function getText(path: string, query: Query = {}, signal?: AbortSignal): Promise<string> {
  return (await request(apiAddress(path, query), { signal })).text();
}

export async function getFrame<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<FrameItem<T>[]> {
  return decodeFrame<T>(await (await request(apiAddress(path, query), { signal })).arrayBuffer());
}

export async function postJson<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await post(path, body, signal)).json() as Promise<T>;
}

// As a stream: items are handed over as they arrive.
export async function postFrames<T>(path: string, body: object, take: (items: FrameItem<T>[]) => void, signal?: AbortSignal): Promise<void> {
  const response = await post(path, { ...body, stream: true }, signal);
  const frames = new FrameReader<T>(take);
  const reader = response.body!.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (value) frames.add(value);
    if (done) return frames.end();
  }
}

export async function postFrame<T>(path: string, body: unknown, signal?: AbortSignal): Promise<FrameItem<T>[]> {
  return decodeFrame<T>(await (await post(path, body, signal)).arrayBuffer());
}

// Newline-delimited JSON, handed over as it arrives.
export async function getLines<T>(path: string, query: Query, each: (entries: T[]) => void, signal?: AbortSignal): Promise<void> {
  await takeLines(await request(apiAddress(path, query), { signal }), each);
}

// The same; a line that is an error ends it.
export async function postLines<T>(path: string, body: object, each: (entries: T[]) => void, signal?: AbortSignal): Promise<void> {
  await takeLines<T | ErrorBody>(await post(path, body, signal), (entries) => {
    each(entries.filter((entry): entry is T => !isError(entry)));
    const failure = entries.find(isError);
    if (failure) throw errorOf(200, failure);
  });
}

const isError = (entry: unknown): entry is ErrorBody => typeof entry === "object" && entry !== null && "error" in entry;

async function takeLines<T>(response: Response, each: (entries: T[]) => void): Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop()!;
    const entries = lines.filter(Boolean).map((line) => JSON.parse(line) as T);
    if (entries.length) each(entries);
    if (done) return;
  }
}

// Views do not wait for it: what they ask for needs no session to be known, only a cookie.
export function openSession(): Promise<Session | null> {
  const asked = askForSession();
  opening = asked.catch(() => null);
  return asked;
}

async function askForSession(): Promise<Session | null> {
  try {
    const opened = await getJson<Session>("session");
    setSession(opened);
    setLoginNeeded(false);
    return opened;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

export async function login(keyId: string, secret: string): Promise<void> {
  setSession(await postJson<Session>("login", { key_id: keyId, secret }));
  setLoginNeeded(false);
}

export async function logout(): Promise<void> {
  await postJson("logout", {});
  setSession(null);
  setLoginNeeded(true);
}

async function post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  if (!session()) await opening;
  try {
    return await postOnce(path, body, signal);
  } catch (error) {
    // The server was started again: its token is another one.
    if (!(error instanceof ApiError) || error.code !== "stale_page" || !(await openSession())) throw error;
    return postOnce(path, body, signal);
  }
}

function postOnce(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers = { "content-type": "application/json", "x-trackside-csrf": session()?.csrf ?? "" };
  return request(apiAddress(path), { method: "POST", body: JSON.stringify(body), headers, signal });
}

async function request(address: string, options: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not respond.", "Is trackside ui still running?", null);
  }
  if (response.ok) return response;
  const failure = await apiError(response);
  if (failure.status === 401 && !address.endsWith("/login")) setLoginNeeded(true);
  throw failure;
}

interface ErrorBody { error: { code: string; message: string; advice?: string }; at?: number }

function errorOf(status: number, body: ErrorBody): ApiError {
  const { code, message, advice = "" } = body.error;
  return new ApiError(status, code, message, message.endsWith(advice) ? "" : advice, body.at ?? null);   // some messages end with the advice
}

async function apiError(response: Response): Promise<ApiError> {
  try {
    return errorOf(response.status, (await response.json()) as ErrorBody);
  } catch {
    return new ApiError(response.status, "unknown", `The server responded with status ${response.status}.`, "", null);
  }
}
