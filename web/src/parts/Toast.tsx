// Short messages at the lower edge, read out by screen readers.
import { createSignal, For, type JSX } from "solid-js";
import { ApiError } from "../client";
import { Prose } from "./Prose";

interface Toast { id: number; text: string; bad: boolean }
const [toasts, setToasts] = createSignal<Toast[]>([]);
let next = 0;

export function toast(text: string, bad = false): void {
  const id = next++;
  setToasts((shown) => [...shown.slice(-3), { id, text, bad }]);
  setTimeout(() => setToasts((shown) => shown.filter((each) => each.id !== id)), bad ? 9000 : 4000);
}

// Runs what a button does, and shows what went wrong.
export async function attempt(action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (error) {
    toast(error instanceof ApiError ? `${error.message} ${error.advice}` : String(error), true);
    return false;
  }
}

export function Toasts(): JSX.Element {
  return <div class="toasts" role="status" aria-live="polite"><For each={toasts()}>{(each) => <div class="toast" classList={{ bad: each.bad }}><Prose text={each.text} /></div>}</For></div>;
}
