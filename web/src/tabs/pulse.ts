// While a job runs its views load again, but not at each event: at most once in a while.
import { type Accessor, createEffect, createSignal, on, onCleanup } from "solid-js";
import type { Job } from "../api";

export const isRunning = (job: Job): boolean => job.row.ended === null;

// Counts changes of the job. Read it in the source of a request.
export function createPulse(job: () => Job, seconds: number): Accessor<number> {
  const [pulse, setPulse] = createSignal(0);
  let last = Date.now();
  let timer: ReturnType<typeof setTimeout> | undefined;
  createEffect(on(() => [job().row.progress?.step, job().row.ended, job().row.secondary, job().diagnoses.length].join(), () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      last = Date.now();
      setPulse((count) => count + 1);
    }, Math.max(0, last + 1000 * seconds - Date.now()));
  }, { defer: true }));
  onCleanup(() => clearTimeout(timer));
  return pulse;
}
