// All jobs that match the query: live, virtual rows, sorted by anything, several selected.
import { createEffect, createMemo, createSignal, For, type JSX, on, onCleanup, Show } from "solid-js";
import type { JobList, JobRow } from "../api";
import { getJson } from "../client";
import { BUILT_IN, columnOf, defaultColumns, Findings, isLive, type JobColumn, JobName, Loss, Progress, Status } from "../columns";
import { formatSeconds, grouped, plural } from "../format";
import { useShortcuts } from "../keys";
import { createLive } from "../live";
import { narrow } from "../media";
import { Command, Empty, Failure } from "../parts/Card";
import { SortArrow } from "../parts/Table";
import { VirtualList } from "../parts/VirtualList";
import { createRows } from "../rows";
import { enter, jobAddress, state } from "../state";
import { parsePlace } from "../location";
import { Bulk } from "./Bulk";
import { ColumnChooser } from "./ColumnChooser";
import { QueryBox } from "./QueryBox";

const ROW = 32;
const CARD = 84;
const REFRESH_MS = 2000;

export function JobTable(): JSX.Element {
  const columns = createMemo(() => (state.list("columns").length ? state.list("columns") : defaultColumns()));
  const asked = createMemo(() => ({
    q: state.text("q"), sort: state.text("sort", "created"), desc: state.text("desc", "1") === "1", columns: columns().filter((key) => !BUILT_IN.includes(key)).join(","),
  }), undefined, { equals: (a, b) => JSON.stringify(a) === JSON.stringify(b) });
  const rows = createRows(asked, (key, offset, limit, signal) => getJson<JobList>("jobs", { ...key, offset, limit }, signal));
  const refresh = throttled(() => rows.refresh(), REFRESH_MS);
  createLive(() => ({ jobs: 1, columns: asked().columns }), {
    jobs: (event) => {
      const moved = event.rows.some((row) => rows.named(row.name)?.status !== row.status);
      // A row that has changed may have another place, or no longer match the query.
      const settled = (asked().sort === "created" || asked().sort === "name") && !asked().q;
      if (!rows.patch(event.rows) || moved || event.gone.length || !settled) refresh();
      const gone = event.gone.filter((name) => selection().has(name));
      if (gone.length) select(gone, false);
    },
    open: (again) => again && rows.refresh(),
  });
  const count = (): number => rows.head()?.matching ?? 0;
  const [chooser, setChooser] = createSignal(false);
  const [current, setCurrent] = createSignal(-1);
  let scroll: (index: number, where?: "top" | "middle" | "end") => void = () => {};

  const selection = createMemo(() => new Set(state.list("selected")));
  const select = (names: string[], on: boolean): void => {
    const next = new Set(selection());
    for (const name of names) on ? next.add(name) : next.delete(name);
    state.set({ selected: [...next] });
  };
  let anchor = -1;
  const toggle = async (index: number, extend: boolean): Promise<void> => {
    const row = rows.row(index);
    if (!row) return;
    const on = !selection().has(row.name);
    if (extend && anchor >= 0) {
      const [from, to] = [Math.min(anchor, index), Math.max(anchor, index)];
      select((await rows.range(from, to + 1)).map((each) => each.name), on);
    } else select([row.name], on);
    anchor = index;
  };
  const selectAll = async (): Promise<void> => {
    if (selection().size) state.set({ selected: null });
    else state.set({ selected: (await rows.range(0, count())).map((row) => row.name) });
  };
  const sortBy = (column: JobColumn): void => {
    const desc = asked().sort === column.key ? !asked().desc : column.first === "desc";
    state.set({ sort: column.key, desc: desc ? null : "0" });
  };
  const move = (by: number): void => {
    const next = Math.min(Math.max(current() + by, 0), count() - 1);
    setCurrent(next);
    const row = document.querySelector(`[aria-rowindex="${next + 2}"]`);
    if (row) row.scrollIntoView({ block: "nearest" });
    else scroll(next, "middle");
  };
  useShortcuts([
    { key: "j", does: "next job", run: () => move(1) },
    { key: "k", does: "previous job", run: () => move(-1) },
    { key: "x", does: "select the job", run: (event) => void toggle(current(), event.shiftKey) },
    { key: "o", does: "open the job", run: () => { const row = rows.row(current()); if (row) enter(parsePlace(jobAddress(row.name))); } },
  ]);
  createEffect(on(asked, () => setCurrent(-1), { defer: true }));
  const template = createMemo(() => ["28px", ...columns().map((key) => columnOf(key).width)].join(" "));

  return (
    <section class="jobs" aria-label="Jobs">
      <div class="jobs-head">
        <h2>Jobs <span class="count">{rows.head() ? (count() === rows.head()!.total ? grouped(count()) : `${grouped(count())} of ${grouped(rows.head()!.total)}`) : "…"}</span></h2>
        <QueryBox error={rows.error()} columns={rows.head()?.columns ?? []} />
        <Show when={narrow()}>
          <select aria-label="Sort by" value={asked().sort} onChange={(event) => state.set({ sort: event.currentTarget.value, desc: columnOf(event.currentTarget.value).first === "desc" ? null : "0" })}>
            <For each={[...new Set([...BUILT_IN, ...columns()])]}>{(key) => <option value={key}>{columnOf(key).title}</option>}</For>
          </select>
        </Show>
        <button type="button" onClick={() => setChooser(true)}>Columns</button>
      </div>
      <Show when={rows.error()?.code !== "bad_query"}><Failure error={rows.error()} /></Show>
      <Bulk selected={[...selection()]} row={rows.named} onClear={() => state.set({ selected: null })} onDone={() => rows.refresh()} />
      <Show when={count()} fallback={<Show when={rows.head()}><NoJobs total={rows.head()!.total} /></Show>}>
        <div class="job-table" role="table" aria-label="Jobs" aria-rowcount={count() + 1} classList={{ cards: narrow() }}>
          <div role="rowgroup" class="job-head">
            <div role="row" aria-rowindex={1} class="job-row" style={{ "grid-template-columns": template() }}>
              <span role="columnheader" class="job-check"><input type="checkbox" aria-label={`Select all ${plural(count(), "job")}`} checked={selection().size > 0} ref={(box) => createEffect(() => (box.indeterminate = selection().size > 0 && selection().size < count()))} onClick={() => void selectAll()} /></span>
              <For each={columns()}>{(key) => <Header column={columnOf(key)} sort={asked().sort} desc={asked().desc} onSort={sortBy} />}</For>
            </div>
          </div>
          <VirtualList count={count()} rowHeight={narrow() ? CARD : ROW} within="window" role="rowgroup" onVisible={rows.show} scrollTo={(to) => (scroll = to)}>
            {(index) => <Row index={index} row={rows.row(index)} columns={columns()} template={template()} current={current() === index} selected={selection().has(rows.row(index)?.name ?? "")} onToggle={toggle} />}
          </VirtualList>
        </div>
      </Show>
      <Show when={chooser()}><ColumnChooser available={rows.head()?.columns ?? []} shown={columns()} onClose={() => setChooser(false)} /></Show>
    </section>
  );
}

function Header(props: { column: JobColumn; sort: string; desc: boolean; onSort: (column: JobColumn) => void }): JSX.Element {
  const on = (): boolean => props.sort === props.column.key;
  return (
    <span role="columnheader" class="job-cell" classList={{ number: props.column.number }} aria-sort={on() ? (props.desc ? "descending" : "ascending") : undefined}>
      <button type="button" class="sort cut" title={props.column.key} onClick={() => props.onSort(props.column)}>{props.column.title}<SortArrow on={on()} desc={props.desc} /></button>
    </span>
  );
}

interface RowProps { index: number; row: JobRow | undefined; columns: string[]; template: string; current: boolean; selected: boolean; onToggle: (index: number, extend: boolean) => Promise<void> }

function Row(props: RowProps): JSX.Element {
  return (
    <div role="row" class="job-row" aria-rowindex={props.index + 2} classList={{ current: props.current, selected: props.selected, sick: !!props.row?.findings, live: !!props.row && isLive(props.row) }} style={{ "grid-template-columns": narrow() ? "28px 1fr" : props.template }}>
      <Show when={props.row}>{(row) => (
        <>
          <span role="cell" class="job-check"><input type="checkbox" aria-label={`Select ${row().shown}`} checked={props.selected} onClick={(event) => { event.preventDefault(); void props.onToggle(props.index, event.shiftKey); }} /></span>
          <Show when={narrow()} fallback={<For each={props.columns}>{(key) => <span role="cell" class="job-cell" classList={{ number: columnOf(key).number }}>{columnOf(key).cell(row)}</span>}</For>}>
            <span role="cell" class="job-card">
              <span class="job-card-line"><JobName row={row()} /><Status row={row()} /></span>
              <span class="job-card-line"><Progress row={row()} /><span class="muted">{formatSeconds(row().seconds)}</span><Loss row={row()} /></span>
              <span class="job-card-line"><Findings row={row()} /></span>
            </span>
          </Show>
        </>
      )}</Show>
    </div>
  );
}

function NoJobs(props: { total: number }): JSX.Element {
  return (
    <Show when={props.total} fallback={<Empty title="There is no job yet."><p>Run a training script, and it appears here:</p><Command text="trackside run train.py --rule all" /></Empty>}>
      <Empty title="No job matches the query."><button type="button" onClick={() => state.set({ q: null })}>Show all {grouped(props.total)}</button></Empty>
    </Show>
  );
}

// Runs at most once in a while, and once more for what came in between.
function throttled(run: () => void, ms: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      run();
    }, ms);
  };
}
