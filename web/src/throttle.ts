// Runs something once, a while after it was first asked for. Ends with the component.
import { onCleanup } from "solid-js";

export function throttle(run: () => void, ms: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      run();
    }, ms);
  };
}
