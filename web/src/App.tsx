// The frame of every view: who is signed in, the theme, help; and which view the address names.
import { createSignal, type JSX, Match, Show, Switch } from "solid-js";
import { ApiError, loginNeeded, logout, openSession, session } from "./client";
import { useShortcuts } from "./keys";
import { connected } from "./live";
import { Confirmations } from "./parts/Dialog";
import { Prose } from "./parts/Prose";
import { attempt, Toasts } from "./parts/Toast";
import { keepScroll } from "./scroll";
import { wireName } from "./shownName";
import { enter, homeAddress, path } from "./state";
import { theme, toggleTheme } from "./theme";
import { Compare } from "./views/Compare";
import { Home } from "./views/Home";
import { IssuePage } from "./views/IssuePage";
import { JobPage } from "./views/JobPage";
import { Login } from "./views/Login";
import { Help } from "./views/Help";

export function App(): JSX.Element {
  keepScroll();
  const [failure, setFailure] = createSignal<ApiError | null>(null);
  const [help, setHelp] = createSignal(false);
  useShortcuts([
    { key: "?", does: "show these shortcuts", run: () => setHelp(true) },
    { key: "h", does: "go home", run: () => enter({ path: [], values: {} }) },
    { key: "d", does: "light or dark colours", run: toggleTheme },
  ]);
  openSession().catch((error: ApiError) => setFailure(error));
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={homeAddress()}>Trackside</a>
        <span class="top-space" />
        <Show when={!connected()}><span class="offline" role="status">connection lost, trying again</span></Show>
        <Show when={session()?.is_server}>
          <span class="user">{session()!.user}</span>
          <button type="button" class="quiet" onClick={() => void attempt(logout)}>Sign out</button>
        </Show>
        <button type="button" class="quiet" aria-label="Keyboard shortcuts" onClick={() => setHelp(true)}>?</button>
        <button type="button" class="quiet" aria-label={theme() === "dark" ? "Switch to light colours" : "Switch to dark colours"} onClick={toggleTheme}>{theme() === "dark" ? "☀" : "☾"}</button>
      </header>
      <main id="main" tabIndex={-1}>
        <Switch fallback={<Home />}>
          <Match when={failure()}>{(error) => <p class="failure" role="alert"><Prose text={`${error().message} ${error().advice}`} /></p>}</Match>
          <Match when={loginNeeded()}><Login /></Match>
          <Match when={path()[0] === "job" && path()[1]} keyed>{(name) => <JobPage name={wireName(name)} />}</Match>
          <Match when={path()[0] === "issue" && path()[1]} keyed>{(id) => <IssuePage id={id} />}</Match>
          <Match when={path()[0] === "compare"}><Compare /></Match>
        </Switch>
      </main>
      <Show when={help()}><Help onClose={() => setHelp(false)} /></Show>
      <Confirmations />
      <Toasts />
    </>
  );
}
