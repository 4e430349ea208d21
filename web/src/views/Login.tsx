// Sign-in with an access key; a one-time link of `trackside login --browser` does without.
import { createSignal, type JSX } from "solid-js";
import { ApiError, login } from "../client";
import { Command, Failure } from "../parts/Card";

export function Login(): JSX.Element {
  const [failure, setFailure] = createSignal<ApiError | null>(null);
  const [keyId, setKeyId] = createSignal("");
  const [secret, setSecret] = createSignal("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await login(keyId(), secret());
    } catch (error) {
      setFailure(error as ApiError);
    }
  };
  return (
    <form class="card login" onSubmit={(event) => void submit(event)}>
      <h1>Sign in</h1>
      <label>Access key ID<input name="username" autocomplete="username" required value={keyId()} onInput={(event) => setKeyId(event.currentTarget.value)} /></label>
      <label>Secret<input type="password" name="password" autocomplete="current-password" required value={secret()} onInput={(event) => setSecret(event.currentTarget.value)} /></label>
      <Failure error={failure()} />
      <button type="submit" class="primary">Sign in</button>
      <p class="hint">Or open the link that this command prints:</p>
      <Command text="trackside login --browser" />
    </form>
  );
}
