// All scalars of a job, grouped by prefix; train and validation of one metric in one chart.
import { createMemo, type JSX, Show } from "solid-js";
import type { Curve, Job } from "../api";
import { chartsOf } from "../charts";
import { useCurves } from "../curvesOfJob";
import { Command, Empty, Failure } from "../parts/Card";
import type { Mark } from "../parts/Chart";
import type { Look } from "../parts/ChartCard";
import { ChartWall } from "../parts/ChartWall";
import { plainText } from "../prose";
import type { UrlState } from "../state";
import { isRunning } from "./pulse";

export function Curves(props: { job: Job; state: UrlState }): JSX.Element {
  const curves = useCurves();
  const metrics = createMemo(() => (curves() ?? []).filter((curve) => curve.kind === "metric"));
  const charts = createMemo(() => chartsOf(props.job.row.name, metrics(), { final: !isRunning(props.job) }));
  return (
    <>
      <Failure error={curves.error()} />
      <Show when={curves()}>
        <Show when={charts().length} fallback={<NoCurves />}>
          <ChartWall charts={charts()} state={props.state} cursor="job" marks={(look) => marksOf(props.job, look)} axes={axesOf(metrics())} />
        </Show>
      </Show>
    </>
  );
}

export function marksOf(job: Job, look: Look): Mark[] {
  return job.diagnoses.flatMap((diagnosis) => {
    const x = look.x === "step" ? diagnosis.step : look.x === "time" ? diagnosis.time : look.x === "relative" && job.row.started ? diagnosis.time - job.row.started : null;
    return x === null ? [] : [{ x, label: plainText(diagnosis.sentence) }];
  });
}

const axesOf = (curves: readonly Curve[]): [string, string][] => curves.filter((curve) => !curve.same_as).map((curve) => [curve.id, curve.name]);

function NoCurves(): JSX.Element {
  return (
    <Empty title="This job has logged no curves.">
      <p>Print lines such as <code>step 10 loss 0.31</code>, write TensorBoard events with <code>SummaryWriter</code>, or log from the script, after one <code>trackside.init("PROJECT")</code>:</p>
      <Command text={"trackside.log({\"loss\": loss.item()})"} />
    </Empty>
  );
}
