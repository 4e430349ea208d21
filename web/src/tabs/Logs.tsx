// Live tail per host, search over everything, jump to a line, a time or a step. links.ts names what is in the address.
import { createEffect, createMemo, createSignal, For, type JSX, on, onCleanup, Show, untrack } from "solid-js";
import type { Job, LogPage } from "../api";
import { ApiError, getJson, getLines, part } from "../client";
import { formatClock, formatTime, grouped, plural } from "../format";
import { useShortcuts } from "../keys";
import { createLive } from "../live";
import { copyText, Empty, Failure } from "../parts/Card";
import { attempt, toast } from "../parts/Toast";
import { lowerBound } from "../scales";
import { plainText } from "../prose";
import type { UrlState } from "../state";
import { theme } from "../theme";
import { Choice, TextField } from "./Fields";
import { logAddress } from "./links";
import { cssOf, parseAnsi, withoutAnsi } from "./log/ansi";
import { Lines, type LinesHandle } from "./log/Lines";
import { LogPages } from "./log/pages";
import { cutAt, marker, type Marker, matches, parseLines, parseTarget } from "./log/targets";
import { isRunning } from "./pulse";
import { createSame } from "./same";
import "./tabs.css";

interface Hit { host: string; attempt: number; line: number; time: number; text: string }
interface Done { done: true; matches: number; more: boolean; error?: { message: string; advice: string } }

const AROUND = 60;                     // lines that are loaded beyond those in view
const MOST_COPIED = 5000;
const MOST_SHOWN = 4000;               // characters of a line
const FIRST_HITS = 1000;

export function Logs(props: { job: Job; state: UrlState }): JSX.Element {
  const host = (): string => (props.job.hosts.includes(props.state.text("host")) ? props.state.text("host") : props.job.hosts[0] ?? "");
  const attemptNumber = (): number => props.state.number("attempt") ?? props.job.attempts;
  return (
    <Show when={host() || props.job.has.logs} fallback={<Empty title="This job has written no log yet.">Its hosts have not started.</Empty>}>
      <Log {...props} host={host()} attempt={attemptNumber()} />
    </Show>
  );
}

function Log(props: { job: Job; state: UrlState; host: string; attempt: number }): JSX.Element {
  let lines: LinesHandle | undefined;
  let finder: HTMLInputElement | undefined;
  const job = createMemo(() => props.job.row.name);
  const [pages, setPages] = createSignal(new LogPages(), { equals: false });   // set again after each change
  const [total, setTotal] = createSignal(0);
  const [failure, setFailure] = createSignal<ApiError | null>(null);
  const [isLoaded, setLoaded] = createSignal(false);
  const [follows, setFollows] = createSignal(!props.state.text("line") && !props.state.text("at"));
  const [view, setView] = createSignal({ first: 0, last: 0 });
  const chosen = createSame(() => parseLines(props.state.text("line")));
  const wraps = (): boolean => props.state.flag("wrap");
  const source = createSame(() => ({ job: job(), host: props.host, attempt: props.attempt }));
  const page = (at: string, count: number, signal?: AbortSignal): Promise<LogPage> =>
    getJson<LogPage>(`jobs/${part(job())}/log`, { host: props.host, attempt: props.attempt, at, count }, signal);
  const keep = (loaded: { first: number; total?: number; lines: LogPage["lines"] }): void => {
    pages().put(loaded.first, loaded.lines);
    setTotal((known) => Math.max(known, loaded.total ?? 0, loaded.first + loaded.lines.length - 1));
    setPages((same) => same);
  };
  const fail = (error: unknown): void => {
    if (error instanceof ApiError) setFailure(error);
  };

  // Another host or attempt: begin again, at the end or at the place in the address.
  createEffect(on(source, () => {
    const aborter = new AbortController();
    onCleanup(() => aborter.abort());
    setPages(new LogPages());
    setTotal(0);
    setLoaded(false);
    const at = props.state.text("at") || (chosen() ? `line:${Math.max(1, chosen()![0] - AROUND)}` : "tail");
    page(at, 2 * AROUND + 80, aborter.signal).then((loaded) => {
      keep(loaded);
      setFailure(null);
      setLoaded(true);
      if (props.state.text("at")) arrive(loaded.target);
      else reveal();
    }, fail);
  }));
  const arrive = (target: number | null): void => {
    setFollows(false);
    props.state.set({ at: null, line: target });
  };
  const reveal = (): void => {
    if (!lines || !total()) return;
    if (chosen()) lines.show(Math.min(chosen()![0], total()) - 1, "middle");
    else if (follows()) lines.show(total() - 1, "end");
  };
  createEffect(on(chosen, (place) => {
    if (!place || !isLoaded()) return;
    const seen = lines?.visible();
    if (seen && place[0] - 1 >= seen.first && place[0] <= seen.last - 1) return;
    setFollows(false);
    reveal();
  }, { defer: true }));
  createEffect(on(() => props.state.text("at"), (at) => {
    if (at && isLoaded()) void attempt(async () => {
      const loaded = await page(at, 2 * AROUND + 80);
      keep(loaded);
      arrive(loaded.target);
      if (loaded.target === null) toast("The log has no line for this.");
    });
  }, { defer: true }));

  // Loads what is in view and not there; one request after the other.
  let loading: AbortController | null = null;
  let wanted: ReturnType<typeof setTimeout> | undefined;
  const load = async (): Promise<void> => {
    const { first, last } = view();
    const next = pages().missing(Math.max(1, first + 1 - AROUND), Math.min(total(), last + AROUND));
    if (!next || !isLoaded()) return;
    loading?.abort();
    const aborter = (loading = new AbortController());
    try {
      const loaded = await page(`line:${next.line}`, next.count, aborter.signal);
      keep(loaded);
      setFailure(null);
      if (loaded.lines.length && !aborter.signal.aborted) await load();
    } catch (error) {
      fail(error);
    }
  };
  createEffect(on([view, total, isLoaded], () => {
    clearTimeout(wanted);
    wanted = setTimeout(() => void load(), 40);
  }));
  onCleanup(() => {
    clearTimeout(wanted);
    loading?.abort();
  });

  // New lines while the job runs; they are written by the last attempt only.
  const isLive = createMemo(() => isLoaded() && isRunning(props.job) && props.attempt === props.job.attempts);
  createLive(() => (isLive() ? { job: job(), log: props.host, from: untrack(total) + 1 } : null), {
    log: (event) => event.host === props.host && keep(event),
  });
  createEffect(on(total, () => follows() && !chosen() && lines?.show(total() - 1, "end")));
  const follow = (on: boolean): void => {
    setFollows(on);
    if (!on) return;
    props.state.set({ line: null });
    lines?.show(total() - 1, "end");
  };

  const search = createSearch(() => ({ job: job(), find: props.state.text("search"), host: props.state.flag("here") ? props.host : "", attempt: props.attempt }));
  const marks = createMemo(() => marker(props.state.text("search")));
  const visit = (hit: Hit | undefined): void => {
    if (!hit) return;
    setFollows(false);
    props.state.set({ host: hit.host, line: hit.line, attempt: hit.attempt === props.job.attempts ? null : hit.attempt });
    if (hit.host === props.host) lines?.show(hit.line - 1, "middle");
  };
  const current = createMemo(() => {
    const line = chosen()?.[0];
    return line === undefined ? -1 : search.hits().findIndex((hit) => hit.host === props.host && hit.line === line);
  });
  const step = (by: 1 | -1): void => {
    const hits = search.hits();
    if (!hits.length) return;
    if (current() >= 0) return visit(hits[(current() + by + hits.length) % hits.length]);
    const here = chosen()?.[0] ?? (lines?.visible().first ?? 0) + 1;
    const own = hits.filter((hit) => hit.host === props.host);
    const at = lowerBound(own.map((hit) => hit.line), here);
    visit(by > 0 ? own[at] ?? hits[0] : own[at - 1] ?? hits.at(-1));
  };
  const hitLines = createMemo(() => new Set(search.hits().filter((hit) => hit.host === props.host).map((hit) => hit.line)));

  const numberWidth = createMemo(() => `calc(${String(total()).length + 1}ch + 4px)`);
  const choose = (line: number, isRange: boolean): void => {
    const first = chosen()?.[0];
    setFollows(false);
    if (isRange && first) props.state.set({ line: `${Math.min(first, line)}-${Math.max(first, line)}` });
    else props.state.set({ line: first === line ? null : line });
  };
  const copy = (): Promise<boolean> => attempt(async () => {
    const seen = lines!.visible();
    const [first, last] = chosen() ?? [seen.first + 1, Math.min(seen.last, total())];
    const end = Math.min(last, first + MOST_COPIED - 1, total());
    for (let next = pages().missing(first, end); next; next = pages().missing(first, end)) {
      const loaded = await page(`line:${next.line}`, next.count);
      keep(loaded);
      if (!loaded.lines.length) break;
    }
    const texts = Array.from({ length: end - first + 1 }, (_, at) => withoutAnsi(pages().get(first + at)?.text ?? ""));
    await copyText(`${texts.join("\n")}\n`);
    toast(`${plural(texts.length, "line")} copied.`);
  });
  const findings = createMemo(() => props.job.diagnoses.map((diagnosis, at) => [String(at), `${diagnosis.step === null ? "" : `step ${grouped(diagnosis.step)}: `}${plainText(diagnosis.sentence)}`] as const));
  const goToFinding = (value: string): void => {
    const diagnosis = props.job.diagnoses[Number(value)];
    if (!value || !diagnosis) return;
    const log = diagnosis.evidence?.log;
    props.state.set({ host: log?.host ?? props.host, line: null, at: log ? `time:${log.time}` : diagnosis.step === null ? `time:${diagnosis.time}` : `step:${diagnosis.step}` });
  };

  const [typed, setTyped] = createSignal("");
  const go = (): void => {
    const target = parseTarget(typed(), props.job.row.started ?? props.job.row.created);
    if (!target) toast("Write a line number, a range such as 812-840, “step 300”, or a time such as 14:02:07.", true);
    else if (target.line) {
      setFollows(false);
      const last = isLoaded() ? Math.max(total(), 1) : Infinity;
      props.state.set({ line: parseLines(target.line)?.map((line) => Math.min(line, last)).join("-") });
      reveal();
    } else props.state.set({ at: target.at!, line: null });
  };
  useShortcuts([
    { key: "/", does: "search the log", run: () => finder?.focus() },
    { key: "n", does: "next hit", run: () => step(1) },
    { key: "N", does: "previous hit", run: () => step(-1) },
    { key: "f", does: "follow the log, or stop", run: () => follow(!follows()) },
    { key: "w", does: "wrap lines", run: () => props.state.set({ wrap: !wraps() }) },
  ]);
  return (
    <section class="log-view" aria-labelledby="log-title" onKeyDown={(event) => {
      if (event.key === "F3" || ((event.ctrlKey || event.metaKey) && event.key === "g")) step(event.shiftKey ? -1 : 1);
      else if ((event.ctrlKey || event.metaKey) && event.key === "f") finder?.focus();
      else return;
      event.preventDefault();
    }}>
      <h2 id="log-title" class="off-screen">Log</h2>
      <div class="tools">
        <Show when={props.job.hosts.length > 1}><Choice label="Host" value={props.host} options={props.job.hosts.map((each) => [each, each] as const)} onChange={(value) => props.state.set({ host: value, line: null })} /></Show>
        <Show when={props.job.attempts > 1}><Choice label="Attempt" value={String(props.attempt)} options={Array.from({ length: props.job.attempts }, (_, at) => [String(at + 1), `${at + 1} of ${props.job.attempts}`] as const)} onChange={(value) => props.state.set({ attempt: Number(value) === props.job.attempts ? null : value, line: null })} /></Show>
        <TextField label="Search" wide value={props.state.text("search")} placeholder="regular expression; (?i) ignores case" ref={(input) => (finder = input)} onChange={(value) => props.state.set({ search: value })}
          onKeyDown={(event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1)} />
        <form class="inline-form" onSubmit={(event) => {
          event.preventDefault();
          go();
        }}>
          <label class="field">Go to<input class="short" type="text" value={typed()} placeholder="line, step 300, 14:02" onInput={(event) => setTyped(event.currentTarget.value)} /></label>
          <button type="submit">Go</button>
        </form>
        <Show when={findings().length}><Choice label="Finding" value="" options={[["", "go to…"], ...findings()]} onChange={goToFinding} /></Show>
        <div class="tool-buttons">
          <button type="button" aria-pressed={follows()} onClick={() => follow(!follows())}>Follow</button>
          <button type="button" aria-pressed={wraps()} onClick={() => props.state.set({ wrap: !wraps() })}>Wrap</button>
          <button type="button" onClick={() => void copy()}>{chosen() ? "Copy lines" : "Copy view"}</button>
        </div>
      </div>
      <Failure error={failure()} />
      <Show when={props.state.text("search")}>
        <Hits search={search} current={current()} hosts={props.job.hosts.length} here={props.state.flag("here")} onHere={(here) => props.state.set({ here })} onVisit={visit} onStep={step} marker={marks()} />
      </Show>
      <Lines count={total()} wrap={wraps()} class="log-box" label={`Log of ${props.host}, ${plural(total(), "line")}`} handle={(handle) => (lines = handle)} onView={(first, last) => setView({ first, last })}
        onScrolled={(by, isAtEnd) => setFollows(by >= 0 && (isAtEnd || follows()))}>
        {(index) => {
          const line = createMemo(() => pages().get(index + 1));
          const isChosen = (): boolean => !!chosen() && index + 1 >= chosen()![0] && index + 1 <= chosen()![1];
          return (
            <div class="log-line" classList={{ chosen: isChosen(), hit: hitLines().has(index + 1) }}>
              <a class="log-number" style={{ "min-width": numberWidth() }} href={logAddress(job(), { host: props.host, line: String(index + 1), attempt: props.attempt === props.job.attempts ? undefined : props.attempt })} tabIndex={-1} onClick={(event) => {
                event.preventDefault();
                choose(index + 1, event.shiftKey);
              }}>{index + 1}</a>
              <span class="log-time">{line() ? formatClock(line()!.time) : ""}</span>
              <LineText text={line()?.text} marker={hitLines().has(index + 1) ? marks() : null} />
            </div>
          );
        }}
      </Lines>
      <p class="log-under">{isLoaded() ? plural(total(), "line") : "…"}<Show when={chosen() && pages().get(chosen()![0])}>{(line) => <> · line {grouped(chosen()![0])} of {formatTime(line().time)}</>}</Show></p>
    </section>
  );
}

function LineText(props: { text: string | undefined; marker: Marker | null }): JSX.Element {
  const cut = (): string => (props.text ?? "").slice(0, MOST_SHOWN);
  const pieces = createMemo(() => {
    const spans = parseAnsi(cut());
    return cutAt(spans, matches(spans.map((span) => span.text).join(""), props.marker));
  });
  return (
    <Show when={props.text !== undefined} fallback={<span class="log-text muted">…</span>}>
      <span class="log-text" dir="ltr">
        <For each={pieces()}>{(piece) => <Show when={piece.marked} fallback={<span style={cssOf(piece.style, theme())}>{piece.text}</span>}><mark>{piece.text}</mark></Show>}</For>
        <Show when={props.text!.length > MOST_SHOWN}><i class="muted"> … {grouped(props.text!.length - MOST_SHOWN)} more characters</i></Show>
      </span>
    </Show>
  );
}

interface Search { hits: () => Hit[]; done: () => Done | null; error: () => { message: string; advice: string } | null; more: () => void }

// Hits arrive while the server still searches.
function createSearch(query: () => { job: string; find: string; host: string; attempt: number }): Search {
  const [hits, setHits] = createSignal<Hit[]>([]);
  const [done, setDone] = createSignal<Done | null>(null);
  const [error, setError] = createSignal<{ message: string; advice: string } | null>(null);
  const [most, setMost] = createSignal(FIRST_HITS);
  const asked = createSame(query);
  createEffect(on(asked, () => setMost(FIRST_HITS)));
  createEffect(on([asked, most], ([{ job, find, host, attempt }, limit]) => {
    setHits([]);
    setDone(null);
    setError(null);
    if (!find) return;
    const aborter = new AbortController();
    onCleanup(() => aborter.abort());
    const found: Hit[] = [];
    getLines<Hit | Done>(`jobs/${part(job)}/log/search`, { q: find, host, attempt, most: limit }, (entries) => {
      if (aborter.signal.aborted) return;
      for (const entry of entries) {
        if ("done" in entry) {
          setDone(entry);
          setError(entry.error ?? null);
        } else found.push(entry);
      }
      setHits([...found]);
    }, aborter.signal).catch((failure: unknown) => {
      if (!aborter.signal.aborted) setError(failure instanceof ApiError ? failure : { message: "The search was interrupted.", advice: "Search again." });
    });
  }));
  return { hits, done, error, more: () => setMost((limit) => limit * 10) };
}

function Hits(props: { search: Search; current: number; hosts: number; here: boolean; onHere: (here: boolean) => void; onVisit: (hit: Hit) => void; onStep: (by: 1 | -1) => void; marker: Marker | null }): JSX.Element {
  let lines: LinesHandle | undefined;
  const count = (): number => props.search.hits().length;
  createEffect(on(() => props.current, (at) => {
    const seen = lines?.visible();
    if (at >= 0 && seen && (at < seen.first || at >= seen.last - 1)) lines!.show(at, "middle");
  }));
  return (
    <section class="card log-hits" aria-label="Hits">
      <div class="log-hits-head">
        <span role="status">{props.current >= 0 ? `${grouped(props.current + 1)} of ` : ""}{plural(count(), "hit")}{props.search.done() || props.search.error() ? "" : ", searching…"}</span>
        <button type="button" class="small" disabled={!count()} onClick={() => props.onStep(-1)} title="Shift+Enter">Previous</button>
        <button type="button" class="small" disabled={!count()} onClick={() => props.onStep(1)} title="Enter">Next</button>
        <Show when={props.search.done()?.more}><button type="button" class="small" onClick={() => props.search.more()}>Find more</button></Show>
        <Show when={props.hosts > 1}><label><input type="checkbox" checked={props.here} onChange={(event) => props.onHere(event.currentTarget.checked)} /> this host only</label></Show>
      </div>
      <Failure error={props.search.error()} />
      <Show when={count()}>
        <Lines count={count()} label="Lines that match" handle={(handle) => (lines = handle)}>
          {(index) => {
            const hit = createMemo(() => props.search.hits()[index]);
            return (
              <Show when={hit()}>{(found) => (
                <button type="button" class="log-line log-hit" classList={{ chosen: index === props.current }} onClick={() => props.onVisit(found())}>
                  <Show when={props.hosts > 1}><span class="log-host">{found().host}</span></Show>
                  <span class="log-number log-hit-number">{found().line}</span><LineText text={found().text} marker={props.marker} />
                </button>
              )}</Show>
            );
          }}
        </Lines>
      </Show>
    </section>
  );
}
