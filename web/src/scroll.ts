// Where a view was scrolled to, kept with its entry in the browser's history: Back and reload return there.
import { createEffect, on } from "solid-js";
import { path } from "./state";

const PATIENCE_MS = 4000;          // views load what they show; until then they are too short
const SETTLED_MS = 120;

interface Kept { scroll?: number }

let search = 0;

export function keepScroll(): void {
  history.scrollRestoration = "manual";
  let timer: ReturnType<typeof setTimeout> | undefined;
  window.addEventListener("scroll", () => {
    clearTimeout(timer);
    timer = setTimeout(() => history.replaceState({ ...(history.state as Kept | null), scroll: Math.round(window.scrollY) }, ""), SETTLED_MS);
  }, { passive: true });
  for (const event of ["wheel", "touchstart", "keydown", "pointerdown"]) window.addEventListener(event, () => (search += 1), { passive: true });
  createEffect(on(path, () => {
    clearTimeout(timer);
    restore((history.state as Kept | null)?.scroll ?? 0);
  }));
}

// Tries until the view is long enough, or somebody scrolls.
function restore(top: number): void {
  const mine = ++search;
  const until = performance.now() + PATIENCE_MS;
  const attempt = (): void => {
    if (mine !== search) return;
    window.scrollTo({ top });
    if (Math.abs(window.scrollY - top) > 1 && performance.now() < until) requestAnimationFrame(attempt);
  };
  attempt();
}
