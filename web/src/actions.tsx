// Changes to jobs, each with the question that comes before.
import type { JobRow } from "./api";
import { postJson } from "./client";
import { isLive } from "./columns";
import { plural } from "./format";
import { confirm } from "./parts/Dialog";
import { attempt, toast } from "./parts/Toast";
import { shownName } from "./shownName";
import { Names } from "./views/Bulk";

export interface Done { done: string[]; failed: { job: string; message: string }[] }

const MOST_NAMED = 2;

// Whether anything was done.
export function report(verb: string, { done, failed }: Done): boolean {
  if (done.length) toast(`${verb} ${plural(done.length, "job")}.`);
  const named = failed.length > MOST_NAMED + 1 ? failed.slice(0, MOST_NAMED) : failed;
  for (const { job, message } of named) toast(`${shownName(job)}: ${message}`, true);
  if (named.length < failed.length) toast(`${plural(failed.length - named.length, "more job")} of ${failed.length + done.length} ${failed.length - named.length === 1 ? "was" : "were"} refused, too.`, true);
  return done.length > 0;
}

export async function stopJobs(names: string[], row: (name: string) => JobRow | undefined): Promise<boolean> {
  // A job that is not loaded here may run: the server knows.
  const running = names.filter((name) => { const known = row(name); return !known || isLive(known); });
  if (!running.length) {
    toast("None of these jobs is running.");
    return false;
  }
  const text = <><p>The training ends within its grace period. What it has written until then is kept: checkpoints, curves, logs.</p><Names names={running} /></>;
  if (!(await confirm({ title: `Stop ${plural(running.length, "job")}?`, text, action: "Stop", danger: true }))) return false;
  return change("Stopped", "jobs/stop", { jobs: running });
}

export async function deleteJobs(names: string[], row: (name: string) => JobRow | undefined): Promise<boolean> {
  let data = false;
  const running = names.filter((name) => { const known = row(name); return known !== undefined && isLive(known); });
  const text = (
    <>
      <p>Their records are lost for good: logs, curves, findings, tensors, status history.</p>
      {running.length ? <p class="bad">{plural(running.length, "job")} of these {running.length === 1 ? "is" : "are"} still running and will be refused. Stop them first.</p> : null}
      <Names names={names} />
      <label class="check"><input type="checkbox" onChange={(event) => (data = event.currentTarget.checked)} />Also delete what they have stored: models, checkpoints, artifacts</label>
    </>
  );
  if (!(await confirm({ title: `Delete ${plural(names.length, "job")}?`, text, action: "Delete", danger: true }))) return false;
  return change("Deleted", "jobs/delete", { jobs: names, data });
}

// Whether it was done for any of the jobs.
export async function change(verb: string, path: string, body: { jobs: string[]; [more: string]: unknown }): Promise<boolean> {
  let done = false;
  await attempt(async () => (done = report(verb, await postJson<Done>(path, body))));
  return done;
}

export async function openTensorboard(jobs: string[]): Promise<void> {
  const tab = window.open("", "_blank");
  const opened = await attempt(async () => {
    const { path } = await postJson<{ path: string }>("tensorboard", { jobs });
    const address = new URL(path, window.location.origin).href;
    if (tab) tab.location.href = address;
    else window.location.href = address;
  });
  if (!opened) tab?.close();
}
