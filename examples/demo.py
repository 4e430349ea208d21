"""`make demo`: examples/digits trained twice, well and badly, in a home of its own below the clone.

Everything is done by commands that are shown before they run: type them again, and change them.
"""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
CLONE = EXAMPLES.parent
HOME = CLONE / ".demo"
TRACKSIDE = (sys.executable, "-m", "trackside.cli")

sys.path.insert(0, str(EXAMPLES / "digits"))
from digits import prepare  # type: ignore[import-not-found]  # noqa: E402


def main() -> int:
    prepare(HOME / "data")
    moment = f"{time.time():.0f}"  # names are taken once, and checkpoints are gone on from
    well, badly = f"digits-{moment}", f"digits-too-fast-{moment}"
    print(f"Everything goes to {HOME}, and nothing anywhere else.")
    say("A training that goes well: data, curves, checkpoints, a model, and rules that watch.")
    trains = run(well, "--tensorboard", "s3://demo/curves")
    say("The same script with a learning rate far too high: rules say so, and end it.")
    run(badly, "-p", "lr=20", "--stop-on", "all")
    say("One page about each, to keep and to send.")
    for name in (well, badly):
        trackside("report", name, "-o", f".demo/{name}.html")
    say("All that there is now.")
    trackside("jobs")
    trackside("artifacts", well)
    say_what_is_next(well)
    return trains


def say(text: str) -> None:
    print(f"\n── {text}", flush=True)


def run(name: str, *options: str) -> int:
    return trackside(
        *("run", "train.py", "--source-dir", "examples/digits", "--name", name),
        *("--channel", "training=.demo/data", "-p", "epochs=15"),
        *("--checkpoint-uri", f"s3://demo/checkpoints/{name}", "--output", "s3://demo/jobs"),
        *("--metric", "accuracy=accuracy=([0-9.]+)", "--rule", "all", *options, "--wait"),
    )


def trackside(*arguments: str) -> int:
    """Show a command and run it; its exit code."""
    command = shlex.join(["trackside", *arguments])
    if len(command) > 90:
        command = command.replace(" --", " \\\n    --")
    print(f"\n$ {command}", flush=True)
    environ = {**os.environ, "TRACKSIDE_HOME": str(HOME)}
    return subprocess.run([*TRACKSIDE, *arguments], cwd=CLONE, env=environ).returncode


def say_what_is_next(name: str) -> None:
    command = f"{Path(sys.executable).parent}/trackside"
    say("What to type next:")
    print(
        f"""
  export TRACKSIDE_HOME={shlex.quote(str(HOME))}
  {command} show {name}
  {command} metrics {name}
  {command} tensorboard {name}

and open .demo/{name}.html in a browser. Remove .demo when you have seen enough."""
    )


if __name__ == "__main__":
    sys.exit(main())
