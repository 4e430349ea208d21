// One issue by its id; tabs/IssueView.tsx shows it.
import { type JSX, Show } from "solid-js";
import type { Issue } from "../api";
import { getJson, part } from "../client";
import { createFetched } from "../fetched";
import { createLive } from "../live";
import { Empty, Failure } from "../parts/Card";
import { IssueView } from "../tabs/IssueView";

export function IssuePage(props: { id: string }): JSX.Element {
  const issue = createFetched(() => props.id, (id, signal) => getJson<Issue>(`issues/${part(id)}`, {}, signal));
  createLive(() => ({ issues: 1 }), { issues: () => issue.refresh() });
  return (
    <>
      <Show when={issue.error()?.status !== 404} fallback={<Empty title="There is no such problem.">It may have been in jobs that were deleted.</Empty>}><Failure error={issue.error()} /></Show>
      <Show when={issue()}>
        {(found) => <IssueView issue={found()} onChange={(changed) => issue.put(changed)} />}
      </Show>
    </>
  );
}
