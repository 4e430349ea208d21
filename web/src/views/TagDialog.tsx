// Puts tags on jobs and takes them off.
import { createSignal, For, type JSX } from "solid-js";
import { change } from "../actions";
import { plural } from "../format";
import { shownName } from "../shownName";
import { Dialog } from "../parts/Dialog";

export function TagDialog(props: { jobs: string[]; tags: Record<string, string>; onClose: () => void; onDone: () => void }): JSX.Element {
  const [name, setName] = createSignal("");
  const [value, setValue] = createSignal("");
  const [removed, setRemoved] = createSignal<string[]>([]);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const put = name().trim() ? { [name().trim()]: value().trim() } : {};
    if (await change("Tagged", "jobs/tag", { jobs: props.jobs, put, remove: removed() })) {
      props.onDone();
      props.onClose();
    }
  };
  return (
    <Dialog title={`Tags of ${props.jobs.length === 1 ? shownName(props.jobs[0]!) : plural(props.jobs.length, "job")}`} onClose={props.onClose}
      actions={<button type="submit" form="tag-form" class="primary" disabled={!name().trim() && !removed().length}>Save</button>}>
      <form id="tag-form" class="tag-form" onSubmit={(event) => void save(event)}>
        <label>Tag<input value={name()} onInput={(event) => setName(event.currentTarget.value)} maxlength={128} /></label>
        <label>Value (may be empty)<input value={value()} onInput={(event) => setValue(event.currentTarget.value)} maxlength={256} /></label>
      </form>
      <ul class="tag-list"><For each={Object.entries(props.tags)}>{([tag, text]) => (
        <li><label class="check"><input type="checkbox" checked={!removed().includes(tag)} onChange={(event) => setRemoved((gone) => (event.currentTarget.checked ? gone.filter((each) => each !== tag) : [...gone, tag]))} />{text ? `${tag}=${text}` : tag}</label></li>
      )}</For></ul>
    </Dialog>
  );
}
