// A plain table for up to a few hundred rows; the job table has virtual rows of its own.
import { For, type JSX, Show } from "solid-js";

export interface Column<T> { key: string; title: string; cell: (row: T) => JSX.Element; number?: boolean; wide?: boolean }

export function Table<T>(props: { columns: Column<T>[]; rows: readonly T[]; label: string; sort?: string; desc?: boolean; onSort?: (key: string) => void }): JSX.Element {
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={props.label}>
      <table class="table">
        <caption class="off-screen">{props.label}</caption>
        <thead><tr>
          <For each={props.columns}>{(column) => (
            <th scope="col" classList={{ number: column.number, wide: column.wide }} aria-sort={props.sort === column.key ? (props.desc ? "descending" : "ascending") : undefined}>
              <Show when={props.onSort} fallback={column.title}>
                <button type="button" class="sort" onClick={() => props.onSort!(column.key)}>{column.title}<SortArrow on={props.sort === column.key} desc={!!props.desc} /></button>
              </Show>
            </th>
          )}</For>
        </tr></thead>
        <tbody>
          <For each={props.rows}>{(row) => <tr><For each={props.columns}>{(column) => <td classList={{ number: column.number, wide: column.wide }}>{column.cell(row)}</td>}</For></tr>}</For>
        </tbody>
      </table>
    </div>
  );
}

export function SortArrow(props: { on: boolean; desc: boolean }): JSX.Element {
  return <span class="sort-arrow" aria-hidden="true">{props.on ? (props.desc ? "↓" : "↑") : ""}</span>;
}

// Names and values, as in a list of facts.
export function Facts(props: { facts: readonly (readonly [string, JSX.Element])[] }): JSX.Element {
  return <dl class="facts"><For each={props.facts}>{([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>}</For></dl>;
}
