// Problems first, then the jobs.
import { createEffect, type JSX } from "solid-js";
import { JobTable } from "./JobTable";
import { Problems } from "./Problems";

export function Home(): JSX.Element {
  createEffect(() => (document.title = "Trackside"));
  return <><Problems /><JobTable /></>;
}
