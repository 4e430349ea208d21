// What can be done with one job.
import { createSignal, type JSX, Show } from "solid-js";
import { deleteJobs, openTensorboard, stopJobs } from "../actions";
import type { Job, JobRow } from "../api";
import { part, postJson, session } from "../client";
import { isLive } from "../columns";
import { Dialog } from "../parts/Dialog";
import { attempt, toast } from "../parts/Toast";
import { enter } from "../state";
import { AgainDialog } from "./AgainDialog";
import { CompareWith } from "./CompareWith";
import { TagDialog } from "./TagDialog";

type Open = "" | "tag" | "note" | "compare" | "again";

export function JobActions(props: { job: Job; onChange: () => void }): JSX.Element {
  const [open, setOpen] = createSignal<Open>("");
  const close = (): void => void setOpen("");
  const row = (): JobRow => props.job.row;
  const remove = async (): Promise<void> => {
    if (await deleteJobs([row().name], () => row())) enter({ path: [], values: {} });
  };
  return (
    <div class="job-actions" role="toolbar" aria-label="Actions">
      <Show when={row().may_change && isLive(row())}><button type="button" class="danger" onClick={() => void stopJobs([row().name], () => row()).then((done) => done && props.onChange())}>Stop</button></Show>
      <button type="button" onClick={() => setOpen("compare")}>Compare with…</button>
      <Show when={session()?.rights !== "read"}><button type="button" onClick={() => setOpen("again")}>Run again…</button></Show>
      <Show when={row().may_change}>
        <button type="button" onClick={() => setOpen("tag")}>Tag</button>
        <button type="button" onClick={() => setOpen("note")}>Note</button>
      </Show>
      <Show when={session()?.tensorboard}><button type="button" onClick={() => void openTensorboard([row().name])}>TensorBoard</button></Show>
      <Show when={row().may_change && !isLive(row())}><button type="button" onClick={() => void remove()}>Delete</button></Show>
      <Show when={open() === "tag"}><TagDialog jobs={[row().name]} tags={row().tags} onClose={close} onDone={props.onChange} /></Show>
      <Show when={open() === "note"}><NoteDialog job={row()} onClose={close} onDone={props.onChange} /></Show>
      <Show when={open() === "compare"}><CompareWith jobs={[row().name]} onClose={close} /></Show>
      <Show when={open() === "again"}><AgainDialog job={props.job} onClose={close} /></Show>
    </div>
  );
}

function NoteDialog(props: { job: JobRow; onClose: () => void; onDone: () => void }): JSX.Element {
  const [text, setText] = createSignal(props.job.note);
  const save = async (): Promise<void> => {
    if (!(await attempt(() => postJson(`jobs/${part(props.job.name)}/note`, { text: text() })))) return;
    toast("The note is saved.");
    props.onDone();
    props.onClose();
  };
  return (
    <Dialog title={`Note on ${props.job.shown}`} onClose={props.onClose} actions={<button type="button" class="primary" onClick={() => void save()}>Save</button>}>
      <textarea class="wide" rows={6} aria-label="Note" maxlength={4000} value={text()} onInput={(event) => setText(event.currentTarget.value)} />
    </Dialog>
  );
}
