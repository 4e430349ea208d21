// Dialogs on the browser's own <dialog>: it keeps the focus inside, and Escape closes it. Nothing else is in front of
// it, or read out, so short messages are in it, too.
import { createEffect, createSignal, type JSX, on, onMount, Show } from "solid-js";
import { Toasts } from "./Toast";

export function Dialog(props: { title: string; onClose: () => void; children: JSX.Element; actions?: JSX.Element; done?: boolean }): JSX.Element {
  let dialog!: HTMLDialogElement;
  let pressed: EventTarget | null = null;   // a text that is selected by a move beyond the edge closes nothing
  onMount(() => dialog.showModal());
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="dialog-title" onClose={() => props.onClose()} onPointerDown={(event) => (pressed = event.target)} onClick={(event) => event.target === dialog && pressed === dialog && dialog.close()}>
      <div class="dialog-inside">
        <h2 id="dialog-title">{props.title}</h2>
        {props.children}
        <div class="dialog-actions">
          <Show when={props.actions && !props.done}><button type="button" class="quiet" onClick={() => dialog.close()}>Cancel</button></Show>
          {props.actions}
          <Show when={!props.actions || props.done}><button type="button" onClick={() => dialog.close()}>Close</button></Show>
        </div>
      </div>
      <Toasts />
    </dialog>
  );
}

interface Question { title: string; text: JSX.Element; action: string; danger?: boolean; resolve: (yes: boolean) => void }
const [question, setQuestion] = createSignal<Question | null>(null);

// Asks before something is lost: `if (await confirm({…})) …`.
export function confirm(asked: Omit<Question, "resolve">): Promise<boolean> {
  return new Promise((resolve) => setQuestion({ ...asked, resolve }));
}

export function Confirmations(): JSX.Element {
  const answer = (yes: boolean): void => {
    question()?.resolve(yes);
    setQuestion(null);
  };
  const [shown, setShown] = createSignal<Question | null>(null);
  createEffect(on(question, setShown));
  return (
    <Show when={shown()}>{(asked) => (
      <Dialog title={asked().title} onClose={() => answer(false)}
        actions={<button type="button" class={asked().danger ? "danger" : "primary"} onClick={() => answer(true)}>{asked().action}</button>}>
        <div class="dialog-text">{asked().text}</div>
      </Dialog>
    )}</Show>
  );
}
