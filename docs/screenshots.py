"""Makes the pictures of the page in docs/images: `python docs/screenshots.py`, from a clone.

It trains a week of small real jobs in a temporary home, opens `trackside ui` on it in Chromium, and
takes every view in light and in dark colours. Takes about four minutes on two cores. Paths of the
machine are shown as `~/trackside` and `~/digits`; nothing else is changed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).resolve().parent / "images"
CLONE = IMAGES.parent.parent
TRACKSIDE = (sys.executable, "-m", "trackside.cli")
WIDTH = 1280
COLOURS = 256
"""Of a palette: enough for two heat maps, and a fifth of the size."""
WAIT_MS = 60_000
AT_ONCE = 2
"""Jobs that train at a time; they start in the order of the week."""
CHROMIUM = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

TRAIN = '''"""Reads handwritten digits."""

import argparse
import os

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--classes", type=int, default=10)
parser.add_argument("--head", default="linear")
parser.add_argument("--steps", type=int, default=300)
options = parser.parse_args()

rank = int(os.environ.get("RANK", "0"))
torch.manual_seed(options.seed)
torch.set_num_threads(1)
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
test, train = order[:360], order[360:]

layers = [nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128)]
layers += [nn.ReLU(), nn.Linear(128, options.classes)]
if options.head == "softmax":
    layers.append(nn.Softmax(dim=1))
model = nn.Sequential(*layers)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
writer = SummaryWriter(f"runs/{rank}") if rank == 0 else None
for step in range(options.steps):
    batch = train[torch.randint(len(train), (256,))]
    model.train()
    loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if writer is None:
        continue
    writer.add_scalar("loss/train", loss.item(), step)
    if step % 10 == 0 and "RANK" not in os.environ:
        model.eval()
        with torch.no_grad():
            scores = model(images[test])
        accuracy = (scores.argmax(1) == labels[test]).float().mean().item()
        unseen = nn.functional.cross_entropy(scores, labels[test]).item()
        writer.add_scalar("loss/val", unseen, step)
        writer.add_scalar("accuracy/val", accuracy, step)
        print(f"step {step} loss {loss.item():.4f} accuracy {accuracy:.3f}", flush=True)
if writer is not None:
    writer.close()
if "RANK" in os.environ:
    torch.distributed.destroy_process_group()
'''

TUNE = '''"""Teaches a small language model to answer; the questions are trained on, too."""

import random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

torch.manual_seed(0)
torch.set_num_threads(1)
draw = random.Random(0)
towns = ("Lyon", "Oslo", "Porto", "Turin", "Ghent", "Graz", "Brno", "Cork")
talks = []
for _ in range(256):
    town, day = draw.choice(towns), draw.randint(2, 28)
    question = f"Which train goes to {town} on the {day}th?"
    answer = f"The {draw.randint(6, 21)}:{draw.randint(10, 59)} from platform {day % 9 + 1}."
    talks.append(f"<|user|>{question}<|assistant|>{answer}<|end|>")

plain = Tokenizer(models.BPE())
plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
plain.decoder = decoders.ByteLevel()
special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
plain.train_from_iterator(talks, trainers.BpeTrainer(vocab_size=400, special_tokens=special))
tokens = PreTrainedTokenizerFast(
    tokenizer_object=plain,
    pad_token="<|pad|>",
    eos_token="<|end|>",
    additional_special_tokens=special[2:],
)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(40):
    batch = tokens(draw.sample(talks, 16), return_tensors="pt", padding=True)
    batch.pop("token_type_ids", None)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    loss = model(**batch, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
'''

WATCHED = ("--rule", "all", "--capture", "gradients,weights,losses", "--every", "10")
WEEK: dict[str, tuple[str, ...]] = {
    "digits-seed-1": ("-p", "lr=0.05", "-p", "seed=1", "--tag", "sweep=seeds"),
    "digits-seed-2": ("-p", "lr=0.05", "-p", "seed=2", "--tag", "sweep=seeds"),
    "digits-seed-3": ("-p", "lr=0.05", "-p", "seed=3", "--tag", "sweep=seeds"),
    "digits-slow": ("-p", "lr=0.01", "-p", "seed=1", "--tag", "sweep=rates"),
    "digits-slower": ("-p", "lr=0.003", "-p", "seed=1", "--tag", "sweep=rates"),
    "digits-softmax": ("-p", "lr=0.05", "-p", "seed=1", "-p", "head=softmax"),
    "digits-fast": ("-p", "lr=40", "-p", "seed=1", "--tag", "sweep=rates"),
    "digits-warmup-1": ("-p", "lr=0", "-p", "seed=1", "--tag", "sweep=warm-up"),
    "digits-nine": ("-p", "lr=0.05", "-p", "seed=1", "-p", "classes=9"),
    "digits-warmup-2": ("-p", "lr=0", "-p", "seed=2", "--tag", "sweep=warm-up"),
}
"""By name, the options of a job that runs to its end. One fails: it has a class too few."""
RUNNING = "digits-long"
PAIR = "digits-two-workers"
TUNED = "answers"

RENAME = """([from, to]) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (node.data.includes(from)) node.data = node.data.replaceAll(from, to);
}"""


@dataclass(frozen=True)
class View:
    place: str
    text: str
    """Shown when the view is complete."""
    height: int = 900


SICK = "job/digits-warmup-1"
SEEDS = "digits-seed-1,digits-seed-2,digits-seed-3,digits-slow,digits-slower,digits-softmax"
VIEWS = {
    "job": View(SICK, "accuracy", 880),
    "texts": View(f"job/{TUNED}", "tokens are trained on", 800),
    "vitals": View(f"{SICK}?tab=vitals", "What the findings rest on", 860),
    "tensors": View("job/digits-seed-1?tab=tensors", "As a table", 600),
    "ranks": View(f"job/{PAIR}?tab=ranks", "Step time", 960),
    "machine": View("job/digits-seed-1?tab=machine", "Drag to zoom", 1040),
    "logs": View(f"{SICK}?tab=logs", "step 290 loss", 800),
    "setup": View(f"{SICK}?tab=setup", "Run it again", 860),
    "compare": View(f"compare?jobs={SEEDS}&group=*", "accuracy", 520),
}


@dataclass(frozen=True)
class Site:
    folder: Path
    url: str

    def run(self, *words: str, check: bool = True) -> None:
        command = [*TRACKSIDE, *words]
        subprocess.run(command, cwd=self.folder, env=environment(self.folder), check=check)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TRACKSIDE_HOME": str(folder / "home")}


@contextmanager
def site_started() -> Iterator[Site]:
    """`trackside ui` on an empty home."""
    with tempfile.TemporaryDirectory(prefix="digits-") as name:
        folder = Path(name)
        (folder / "train.py").write_text(TRAIN)
        (folder / "tune.py").write_text(TUNE)
        command = [*TRACKSIDE, "ui", "--no-open", "--port", "0"]
        server = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None, "trackside ui printed no address"
            yield Site(folder, found[0])
        finally:
            server.terminate()
            server.wait()


def train_a_week(site: Site) -> None:
    def train(name: str) -> None:
        options = WEEK[name]
        job = ("run", "train.py", "--name", name, *options, *WATCHED, "--wait")
        site.run(*job, check="classes=9" not in options)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(train, WEEK):
            pass
    two = ("--distribution", "torchrun", "--processes-per-host", "2", "-p", "steps=100")
    site.run("run", "tune.py", "--name", TUNED, "--rule", "all", "--wait")
    site.run("run", "train.py", "--name", PAIR, *two, "--rule", "all", "--wait")
    site.run("run", "train.py", "--name", RUNNING, "-p", "steps=100000", "--rule", "all")


def take(browser: Browser, site: Site, view: View, scheme: str) -> bytes:
    options = {"viewport": {"width": WIDTH, "height": view.height}, "color_scheme": scheme}
    context = browser.new_context(**options)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{site.url}#/{view.place}")
    page.get_by_text(view.text).locator("visible=true").first.wait_for()
    page.wait_for_timeout(2500)  # curves and heat maps arrive after the text
    for path, shown in ((CLONE, "~/trackside"), (site.folder, "~/digits")):
        page.evaluate(RENAME, [str(path), shown])
    picture = page.screenshot()
    context.close()
    return picture


def save(picture: bytes, path: Path) -> None:
    """With a palette: a fraction of the size; colours of small areas may shift."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def address_of_issue(browser: Browser, site: Site) -> str:
    """The place of the first problem on the home view."""
    page = browser.new_page()
    page.goto(site.url)
    link = page.locator("a[href*='#/issue/']").first
    link.wait_for(timeout=WAIT_MS)
    place = (link.get_attribute("href") or "").partition("#/")[2]
    page.close()
    return place


def main() -> None:
    wanted = sys.argv[1:]
    IMAGES.mkdir(exist_ok=True)
    with site_started() as site, sync_playwright() as playwright:
        train_a_week(site)
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=[*CHROMIUM])
        try:
            issue = View(address_of_issue(browser, site), "When and where", 460)
            home = View("", RUNNING, 960)  # last: the job that runs has done something by then
            for name, view in {**VIEWS, "issue": issue, "home": home}.items():
                for scheme in ("light", "dark"):
                    if not wanted or name in wanted:
                        picture = take(browser, site, view, scheme)
                        save(picture, IMAGES / f"page-{name}-{scheme}.png")
        finally:
            browser.close()
            site.run("stop", RUNNING, "--wait")


if __name__ == "__main__":
    main()
