// A request that follows signals: a new one replaces the old, the last answer stays until then.
import { type Accessor, createEffect, createSignal, on, onCleanup } from "solid-js";
import { ApiError } from "./client";

export interface Fetched<T> {
  (): T | undefined;
  error: Accessor<ApiError | null>;
  loading: Accessor<boolean>;
  refresh: () => void;
  put: (value: T) => void;           // what a live event brought
}

export function createFetched<S, T>(source: () => S | null | undefined | false, load: (source: S, signal: AbortSignal) => Promise<T>): Fetched<T> {
  const [value, setValue] = createSignal<T | undefined>(undefined, { equals: false });
  const [error, setError] = createSignal<ApiError | null>(null);
  const [loading, setLoading] = createSignal(false);
  const [turn, setTurn] = createSignal(0);
  createEffect(on([source, turn], ([asked]) => {
    if (asked === null || asked === undefined || asked === false) return;
    const aborter = new AbortController();
    onCleanup(() => aborter.abort());
    setLoading(true);
    load(asked, aborter.signal).then(
      (loaded) => {
        if (aborter.signal.aborted) return;
        setValue(() => loaded);
        setError(null);
        setLoading(false);
      },
      (failure: unknown) => {
        if (aborter.signal.aborted) return;
        setError(failure instanceof ApiError ? failure : new ApiError(0, "page", String(failure), "Reload the page.", null));
        setLoading(false);
      },
    );
  }));
  return Object.assign(() => value(), { error, loading, refresh: () => setTurn((n) => n + 1), put: (next: T) => setValue(() => next) });
}
