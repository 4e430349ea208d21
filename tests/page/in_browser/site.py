"""`trackside ui` as a process, on a home with real jobs."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.job_processes import end_processes_of

TRACKSIDE = (sys.executable, "-m", "trackside.cli")

TRAIN = """
import argparse, os, time, torch
from pathlib import Path
from torch import nn
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--wait-for", default="")
args, _ = parser.parse_known_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
writer = SummaryWriter("runs")
def train(step):
    inputs = torch.randn(32, 8)
    labels = inputs[:, :3].argmax(1)
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss/train", loss.item(), step)
    return loss
for step in range(args.steps):
    loss = train(step)
    if step % 10 == 0:
        writer.add_scalar("loss/val", loss.item() * 1.1, step)
        writer.add_scalar("accuracy", 1 / (1 + loss.item()), step)
        print(f"\\033[32mstep\\033[0m {step} loss {loss.item():.3f}", flush=True)
while args.wait_for and not Path(args.wait_for).exists():
    step += 1
    train(step)
    writer.flush()
    print(f"waiting at step {step}", flush=True)
    time.sleep(0.2)
writer.close()
"""


@dataclass
class Site:
    url: str
    folder: Path
    environ: dict[str, str]

    def trackside(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        if words[0] == "run" and "--name" in words:
            self.remove(words[words.index("--name") + 1])
        done = subprocess.run(
            [*TRACKSIDE, *words],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, done.stderr[-3000:]
        return done

    def remove(self, name: str) -> None:
        """A job that an earlier try of the same test has left."""
        if (self.folder / "home" / "jobs" / name).exists():
            self.trackside("stop", name, "--wait", check=False)
            self.trackside("delete", name, "--data", "--yes")

    def train(self, name: str, *words: str, wait: bool = True) -> None:
        waiting = ["--wait"] if wait else []
        self.trackside("run", "train.py", "--name", name, *waiting, *words)

    def at(self, place: str) -> str:
        """The address of a view: `job/NAME`, `compare?jobs=…`."""
        return f"{self.url}#/{place}"


@contextmanager
def site_started(folder: Path, *options: str) -> Iterator[Site]:
    home = folder / "home"
    environ = {
        **os.environ,
        "TRACKSIDE_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    (folder / "train.py").write_text(TRAIN)
    server = subprocess.Popen(
        [*TRACKSIDE, "ui", "--no-open", "--port", "0", *options],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None, "no address was printed"
        yield Site(found[0], folder, environ)
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
        end_processes_of(home)
