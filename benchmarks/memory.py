"""Whether memory stays flat over 10,000 saved steps: the hook's, and a live reader's.

A small training saves tensors and reductions at every step; a second process follows it and reads
what is new. Each says what it holds a fifth of the way and at the end.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Comparison, Target

TRAIN = """
import json, sys, psutil, torch
from torch import nn
from trackside.capture import Hook, ReductionConfig, SaveConfig
torch.set_num_threads(1)
out_dir, num_steps = sys.argv[1], int(sys.argv[2])
model, criterion = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)), nn.MSELoss()
hook = Hook(
    out_dir, save_config=SaveConfig(save_interval=1), save_all=True,
    reduction_config=ReductionConfig(["min", "max", "std"], save_raw_tensor=True),
)
hook.register_module(model)
hook.register_loss(criterion)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(64, 32), torch.randn(64, 8)
held = []
for step in range(num_steps):
    optimizer.zero_grad()
    criterion(model(inputs), targets).backward()
    optimizer.step()
    if step in (num_steps // 5, num_steps - 1):
        held.append(psutil.Process().memory_info().rss >> 10)
hook.close()
print(json.dumps(held))
"""

FOLLOW = """
import json, sys, psutil
from pathlib import Path
from trackside.capture.trial import create_trial
out_dir, num_steps = sys.argv[1], int(sys.argv[2])
trial = create_trial(out_dir, home=Path(out_dir))
held, last = [], -1
while last < num_steps - 1:
    trial.wait_for_steps([last + 1])
    last = trial.cube(reduction="max", after_step=last).steps[-1]
    # Pages of mapped files are the system's, which takes them back as it likes.
    memory = psutil.Process().memory_info()
    held.append((last, (memory.rss - memory.shared) >> 10))
early = next(figure for step, figure in held if step >= num_steps // 5)
print(json.dumps([early, held[-1][1]]))
"""


def run(quick: bool) -> list[Comparison]:
    num_steps = 1_000 if quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        trial = str(Path(folder) / "trial")
        started = [
            subprocess.Popen(
                [sys.executable, "-c", script, trial, str(num_steps)], stdout=subprocess.PIPE
            )
            for script in (TRAIN, FOLLOW)
        ]
        held = [json.loads(process.communicate(timeout=600)[0]) for process in started]
    return [
        Comparison(
            f"Memory of {who} over {num_steps:,} saved steps",
            "MiB",
            {"trackside": last / 1024, "a fifth of the way": early / 1024},
            targets=(Target("a fifth of the way", 0.9),),
        )
        for who, (early, last) in zip(("a watched training", "a live trial"), held, strict=True)
    ]
