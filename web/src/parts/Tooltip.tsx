// More about something, on hover and on focus.
import { createSignal, createUniqueId, type JSX, Show } from "solid-js";

export function Tooltip(props: { text: JSX.Element; children: JSX.Element }): JSX.Element {
  const id = createUniqueId();
  const [open, setOpen] = createSignal(false);
  return (
    <span class="tooltip-anchor" onMouseEnter={() => setOpen(true)} onMouseLeave={() => setOpen(false)} onFocusIn={() => setOpen(true)} onFocusOut={() => setOpen(false)}
      onKeyDown={(event) => event.key === "Escape" && setOpen(false)} aria-describedby={open() ? id : undefined}>
      {props.children}
      <Show when={open()}><span id={id} role="tooltip" class="tooltip">{props.text}</span></Show>
    </span>
  );
}
