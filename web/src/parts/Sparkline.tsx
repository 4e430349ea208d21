// A curve in a line of text.
import { createMemo, type JSX } from "solid-js";
import { sparkPath } from "../spark";

export function Sparkline(props: { values: readonly number[]; label: string; width?: number; height?: number; bars?: boolean }): JSX.Element {
  const width = (): number => props.width ?? 72;
  const height = (): number => props.height ?? 18;
  const path = createMemo(() => sparkPath(props.values, width(), height(), !!props.bars));
  return <svg class="spark" classList={{ bars: props.bars }} width={width()} height={height()} viewBox={`0 0 ${width()} ${height()}`} role="img" aria-label={props.label}><path d={path()} /></svg>;
}
