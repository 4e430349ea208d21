// Small parts that the tabs share: labelled choices, text that waits until typing pauses.
import { createEffect, createSignal, Index, type JSX, on, onCleanup } from "solid-js";

export function Choice(props: { label: string; value: string; options: readonly (readonly [string, string])[]; onChange: (value: string) => void }): JSX.Element {
  return (
    <label class="field">{props.label}
      <select onChange={(event) => props.onChange(event.currentTarget.value)}>
        <Index each={props.options}>{(option) => <option value={option()[0]} selected={option()[0] === props.value}>{option()[1]}</option>}</Index>
      </select>
    </label>
  );
}

export function TextField(props: { label: string; value: string; placeholder?: string; list?: string; wide?: boolean; wait?: number; onChange: (value: string) => void; onKeyDown?: (event: KeyboardEvent) => void; ref?: (input: HTMLInputElement) => void }): JSX.Element {
  const [text, setText] = createSignal(props.value);
  let timer: ReturnType<typeof setTimeout> | undefined;
  createEffect(on(() => props.value, (value) => setText(value)));
  onCleanup(() => clearTimeout(timer));
  const typed = (value: string): void => {
    setText(value);
    clearTimeout(timer);
    timer = setTimeout(() => props.onChange(value), props.wait ?? 250);
  };
  const now = (): void => {
    clearTimeout(timer);
    if (text() !== props.value) props.onChange(text());
  };
  return (
    <label class="field" classList={{ wide: props.wide }}>{props.label}
      <input type="text" ref={props.ref} value={text()} placeholder={props.placeholder} list={props.list} spellcheck={false} autocomplete="off" onInput={(event) => typed(event.currentTarget.value)} onChange={now}
        onKeyDown={(event) => {
          if (event.key === "Enter") now();
          props.onKeyDown?.(event);
        }} />
    </label>
  );
}
