// The list of a job's curves, loaded once for the header and the tabs that need it.
import { createContext, createMemo, useContext } from "solid-js";
import type { Curve, Job } from "./api";
import { createFetched, type Fetched } from "./fetched";
import { loadCurves } from "./series";
import { createPulse } from "./tabs/pulse";

const SECONDS = 10;          // how often a running job is asked for new curves

export const CurvesOfJob = createContext<Fetched<Curve[]>>();

export function createCurves(job: () => Job): Fetched<Curve[]> {
  const pulse = createPulse(job, SECONDS);
  const name = createMemo(() => job().row.name);     // events of the job do not ask again
  return createFetched(() => ({ job: name(), pulse: pulse() }), (asked, signal) => loadCurves(asked.job, signal));
}

export function useCurves(): Fetched<Curve[]> {
  return useContext(CurvesOfJob)!;
}
