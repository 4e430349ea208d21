// The JSON API of the page, under <base>/ui/api/. Python produces exactly this; the page consumes exactly this.
// Times are seconds since the epoch. Numbers that JSON lacks are the strings "NaN", "Infinity", "-Infinity".
// An error is an HTTP status with {error: {code, message, advice}}; messages are complete sentences for people.
// Every request that changes something is a POST with the header x-trackside-csrf: <session.csrf>.

export type Num = number | "NaN" | "Infinity" | "-Infinity";

// GET session → Session; 401 {error:{code:"login_needed"}} when a login is needed
export interface Session {
  user: string;                       // owner name of what this person submits
  rights: "read" | "submit" | "admin";
  csrf: string;
  version: string;
  is_server: boolean;                 // a team's server, or one machine's jobs
  tensorboard: boolean;               // whether TensorBoard can be started here
}
// POST login {key_id, secret} → Session    GET /ui/login/<one-time token> → redirect to /ui/    POST logout

// GET jobs?q=QUERY&sort=NAME&desc=0|1&offset=0&limit=100&columns=a,b → JobList
export interface JobList {
  revision: string;                   // changes whenever any row may have changed
  total: number;                      // jobs in all
  matching: number;                   // of them, jobs that match the query
  rows: JobRow[];
  columns: string[];                  // names that can be shown and sorted by: hyperparameters (param.x), metrics (metric.x), tags (tag.x)
}
export interface JobRow {
  name: string; shown: string;        // wire name (for URLs), name as people see it
  owner: string; status: string; secondary: string;
  created: number; started: number | null; ended: number | null; seconds: number | null;
  progress: { step: number; of: number | null } | null;
  loss: { name: string; last: Num; spark: number[] } | null;   // spark: at most 40 values, extremes kept
  findings: { count: number; sentence: string; rule: string; step: number | null } | null;  // the first diagnosis
  failure: string;                    // why it failed, in short; else ""
  hosts: number;
  use: { cpu: number | null; memory: number | null; gpu: number | null } | null;            // per cent, latest or mean
  tags: Record<string, string>; note: string;
  values: Record<string, string | Num>;                        // of the requested columns
  may_change: boolean;
}
// A query that cannot be parsed: 400 {error:{code:"bad_query", message, advice}, at: number}

// GET issues?q=QUERY&state=open,regressed → {issues: Issue[], sentence: string, num_unread: number}
//   (num_unread, added: older jobs that are not counted yet; ask again)
export interface Issue {
  id: string; cause: string;          // rule name; of jobs that failed the exception: "KeyError"
  title: string;                      // "3 of 41 jobs learn nothing since yesterday 14:02: the learning rate is 0; first in bert-77"
  message: string; advice: string;
  place: string;                      // layer path with indices folded: layers.*.mlp.up
  line: string;                       // train.py:31 where known, else ""
  state: "open" | "fixed" | "muted" | "regressed";
  num_jobs: number; of_jobs: number; jobs: string[];           // newest first, at most 50
  seconds: number;                                             // training time of the jobs hit
  first: Sighting; last: Sighting; spark: number[];            // sightings over time
  suspects: Suspect[]; healthy: string | null;                 // last healthy job of the same script, against first.job
  mute: { more_jobs: number } | null;
  sick: string;                       // added: the job that healthy is compared with: first.job or, if regressed, the first since it was fixed
  said: { id: string; state: string; by: string; time: number; job: string; code: string; more_jobs: number } | null;  // added: who set the state
}
export interface Sighting { job: string; shown: string; step: number | null; time: number; tensor: string; }
export interface Suspect { kind: "code" | "hyperparameter" | "package" | "data" | "host" | "environment" | "git"; name: string; before: string; after: string; }
// POST issues/ID {state: "open"|"fixed"|"muted", more_jobs?: number} → Issue

// GET jobs/NAME → Job
export interface Job {
  row: JobRow;
  sentence: string;                   // one line: what is wrong, or that nothing is, or what is not watched
  diagnoses: Diagnosis[];
  failure: {
    cause: string; text: string; hint: string;
    death: string; words: string; host: string;   // one of twelve causes (docs/deaths.md), in words, and where; "" if unknown
    tail: string; curves: string[];               // the last lines of that host; of its memory, where memory is the cause
  } | null;
  remarks: Remark[];                  // what reading the script found, and no rule has seen
  gaps: string[];                     // what cannot be shown and how to get it next time
  rules: { configuration: string; rule: string; status: string; details: string; last_step: number | null }[];
  hosts: string[]; workers: string[]; attempts: number;
  has: { curves: boolean; vitals: boolean; tensors: boolean; ranks: boolean; machine: boolean; logs: boolean };
  phases: { name: string; start: number; end: number | null }[];
  command: string;                    // repeats the job
}
export interface Remark { rule: string; line: string; message: string; advice: string; }
export interface Diagnosis {
  cause: string; sentence: string; advice: string;
  certainty: "certain" | "likely" | "possible" | "";
  step: number | null; last_step: number | null; mode: string; worker: string; tensor: string; line: string;
  value: Num | null; threshold: Num | null; time: number;
  issue: string;                      // id of the Issue
  num_findings: number; explains: string[];
  findings: { rule: string; message: string; step: number | null; tensor: string; worker: string; mode: string; time: number }[];
  evidence: {
    curves: string[];                 // curve ids, most telling first
    vitals: string[];                 // curve ids (kind "vital")
    heat: { kind: string; figure: string } | null;
    log: { host: string; time: number } | null;
    texts: boolean;                   // the first texts show it
  };
}
// POST jobs/stop {jobs} · POST jobs/tag {jobs, put: {k: v}, remove: [k]} · POST jobs/delete {jobs, data: boolean}
//   → {done: string[], failed: {job: string, message: string}[]}
// POST jobs/NAME/note {text} → {note} · POST jobs/NAME/again {hyperparameters: {k: v|null}, name?: string} → {name}

// GET jobs/NAME/curves → {curves: Curve[]}
export interface Curve {
  id: string;                         // opaque, stable; for series requests
  name: string; group: string;        // group: prefix before the last "/" ("" if none)
  chart: string;                      // curves with the same chart belong in one chart (train and validation of one metric)
  phase: "" | "train" | "val" | "test";
  kind: "metric" | "vital" | "machine";
  unit: string; host: string; same_as: string; more_is_better: boolean;
  count: number; first_step: number; last_step: number; last: Num; min: Num; max: Num; best: Num; best_step: number | null;
}
// POST series {curves: {job, id}[], x: "step"|"time"|"relative"|"curve:<id>", from?: number, to?: number, points: number} → binary, see below
// POST groups {groups: {key: string, curves: {job, id}[]}[], x, from?, to?, points} → binary; arrays x, mean, low, high, min, max
//   (low/high = mean ∓ one standard deviation), over all points of all curves, whatever else is shown.
// Binary frame: bytes "TSB1", u32 little-endian length n of the header, n bytes of JSON, zero padding to 8 bytes, then arrays, each
// padded to 8 bytes. Header: {items: [{..., arrays: {x: [offset, count, "f8"], y: [...]}}]}, offsets from the first array's byte.
// POST series and groups accept stream: true: then the body is several frames, one after the other, each sent as soon as its items are ready (the order of
//   items is not that of the request); without it, one frame with all items.
// series item: {job, id, total (points in range), thinned: boolean, first: number, last: number (x of the whole curve), arrays: {x, y}, error?: string (then no points)}.
//   The last point before the range and the first after it come too (lines reach the edges); they are not in total. x: relative = seconds after the job's first point.
// groups item: {key, total, thinned, curves: number (that were found), errors: string[], arrays: {x, mean, low, high, min, max}}.
// Thinned points keep every column's first,
//   min, max, last and NaN. The result depends only on the curve and the range, never on what else was asked.

// GET jobs/NAME/tensors → Tensors
export interface Tensors {
  kinds: { kind: string; title: string; count: number; figures: string[]; figure: string }[];  // gradients, weights, biases, activations, …; figure: default
  workers: string[]; modes: string[]; first_step: number; last_step: number;
  draft?: Draft;
}
// tensors and heat with draft=1: of some files, if reading all takes seconds; they say so, and are asked for again without it
export interface Draft { files: number; of: number }
// GET jobs/NAME/heat?kind=&figure=&mode=&worker=&columns=1000&from=&to=&filter=REGEX&dark=&bright= (the scale of a map that grows) → binary frame, one item
//   {names: string[], figure, log: boolean, low, high, dark, bright, diverging: boolean, arrays: {cells: [o, rows*columns, "u1"], starts: [..."f8"], steps: [..."f8"]}}
//   also left_out: number of tensors that are not among the rows (more than 4,000 match); low … bright are log10 of the figure where log; mode TRAIN|EVAL|PREDICT counts steps of that mode, without it all steps;
//   errors 400 {code: "no_tensors"|"bad_pattern"} with what there is instead
//   cells: 0..250 from dark to bright, 251 zero, 252 not finite, 255 not saved; rows in the model's order.
// GET jobs/NAME/tensor?name=&worker=&mode=&after=STEP (only later steps) → {name, shape, dtype, steps: number[], figures: Record<string, Num[]>,
//   histogram: {steps: number[], edges: number[][], counts: number[][]} | null}
// GET jobs/NAME/tensor/values?name=&step=&worker= → {shape, values: nested (at most 4,096 numbers), whole: boolean, step: number (the saved step that is shown: the last one up to the wanted)}
//   tensor: shape is null and dtype "" where only figures were saved; figures of a tensor of one number: {value: [...]}

// GET jobs/NAME/texts → Texts; pieces are [kind, text], kinds "trained", "given", "special", "special trained", "padding"
export interface Texts { model: string; num_tokens: number; num_trained: number; rows: [string, string][][]; }
// GET jobs/NAME/ranks → binary frame, items per quantity: {quantity: "step"|"compute"|"wait"|"loss"|"gradient_norm", unit, ranks: string[], arrays: {steps, cells (f4 rank-major)}}
//   also quantity "slowest" (longest single step of each column) and note: string (where it comes from, or why ranks are missing or the item is empty: ranks [] and no steps); unmeasured cells are NaN;
//   steps are the first steps of the columns (at most 2,000); Job.workers has all ranks, also those that save no tensors
// GET jobs/NAME/machine?points=1000 → {start, end, phases: Job["phases"], bands: {kind, label, start, end}[], marks: {time, step, text}[], charts: {title, unit, lines: {name, host, curve: id}[]}[]}  (data by series with x: "time")

// GET jobs/NAME/log?host=&attempt=&at=tail|line:N|time:T|step:N&count=500 → LogPage
export interface LogPage {
  host: string; attempt: number; total: number; first: number;       // line number of lines[0]; total so far
  lines: { time: number; text: string }[];                          // \r already applied; ANSI colours still in the text
  revision: string;
  // Lines are numbered from 1. line:N gives lines N, N+1, …; time and step give some lines before `target` too.
  // A page may have fewer lines than `count` (also when lines are very long): ask for the next one at first + lines.length.
  target: number | null;               // the line that was asked for by line:, time: or step: (mark it); null for tail
}
// GET jobs/NAME/log/search?q=REGEX&host=&attempt=&from=LINE&most=1000 → newline-delimited JSON, sent as found: {host, line, time, text} …, last {done: true, matches: n, more: boolean}
//   each hit also has attempt; more: there are further hits than `most`, continue with from=last line + 1. A pattern that is wrong: 400 {error:{code:"bad_pattern",…}};
//   one that takes too long ends the stream with {done: true, matches: n, more: false, error: {code: "slow_pattern", message, advice}}. Without host=: all hosts. (?i) ignores case.

// GET jobs/NAME/setup → Setup
export interface Setup {
  command: string; command_notes: string[];
  typed: string;                                              // added: the command line that submitted it, as typed; "" if unknown
  arguments: string[]; hyperparameters: Record<string, string>; environment: Record<string, string>;  // secrets masked
  git: { commit: string; branch: string; remote: string; is_changed: boolean | null; diff: boolean } | null;
  python: string; packages: Record<string, string>;
  machine: Record<string, string>;                            // facts of the host
  channels: { name: string; location: string; mode: string; files: number | null; bytes: number | null; digest: string }[];
  image: string; files: { path: string; bytes: number }[];   // code
  artifacts: { name: string; location: string; bytes: number | null; modified: number | null }[];
  history: { status: string; time: number; message: string }[];
}
// GET jobs/NAME/code?path= → {path, text, truncated, binary} (binary, added: then text is "") (path "git.diff" is the uncommitted change)
// GET jobs/NAME/artifact?name=&… → the file, as attachment

// POST compare {jobs: string[], at_step?: number} → Compare; with stream: true, newline-delimited JSON: a ComparedPart for each job as soon as it is
//   read (the order is not that of the request), without what differs. An error is the last line: {error: {code, message, advice}}.
// POST compare/differences {jobs: string[]} → ComparedRest
export interface ComparedPart {
  at: number;                                                  // place of the job among those of the request, each of which counts once
  job: Compare["jobs"][number];
  curves: [name: string, id: string, more_is_better: boolean, last: Num, best: Num, min: Num, max: Num, at: Num | null][];
}
export interface ComparedRest { same: number; rows: Compare["rows"] }
export interface Compare {
  jobs: { name: string; shown: string; status: string; seconds: number | null }[];
  same: number;                                                // rows left out because they are equal
  rows: { kind: "hyperparameter" | "argument" | "package" | "data" | "environment" | "host" | "git" | "code" | "tag"; name: string; values: (string | null)[] }[];   // tag: added
  metrics: { name: string; more_is_better: boolean; last: (Num | null)[]; best: (Num | null)[]; min: (Num | null)[]; max: (Num | null)[]; at: (Num | null)[]; ids: (string | null)[] }[];
}
// GET compare/code?a=JOB&b=JOB → {files: {path, status: "added"|"removed"|"changed", hunks: {old: number, new: number, lines: [" "|"+"|"-", string][]}[]}[]}

// GET live?jobs=1&issues=1&job=NAME&curves=ID,ID&log=HOST&from=LINE… (EventSource). Events, only what is new and asked for:
//   jobs {revision, rows: JobRow[]} (rows that changed) · job {Job without evidence} · issues {}
//   tensors=1: tensors {job, last_step} (more was saved: ask for the columns from there on)
//   points {items: [{job, id, x: number[] (steps), t: number[], y: Num[], replace?: true (a resumed script: drop points with x >= x[0] first)}]} · log {host, first, lines}
//   Idle connections get a comment every 25 s.
// POST tensorboard {jobs} → {path: "/ui/tensorboard/…"}

// Addresses of the page itself (for links that other parts print): <base>/ui/#/ home, #/job/NAME?tab=curves|vitals|tensors|ranks|machine|logs|setup,
// #/issue/ID, #/compare?jobs=A,B (a comma or backslash inside a name is written with a backslash). The fragment never reaches the server, so
// only <base>/ui/ needs index.html (and <base>/ui must redirect to <base>/ui/). All files it loads are relative: ./assets/…, ./api/….
