// The keyboard shortcuts of what is shown.
import { For, type JSX } from "solid-js";
import { shortcuts } from "../keys";
import { Dialog } from "../parts/Dialog";

export function Help(props: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keyboard shortcuts" onClose={props.onClose}>
      <dl class="facts keys"><For each={shortcuts().filter((each) => !each.hidden)}>{(each) => <><dt><kbd>{each.key}</kbd></dt><dd>{each.does}</dd></>}</For></dl>
      <p class="hint">In charts: drag to zoom, double-click to see everything again. Shift selects a range of jobs.</p>
    </Dialog>
  );
}
