"""`alive.py CASE`: a training that makes a pause that looks like a hang, and goes on, in one of 20
ways. Written before the rule that finds hangs. It imports nothing of Trackside.
"""

import gzip
import hashlib
import http.server
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
STEPS = 40
PAUSE = 25.0
RANK = int(os.environ.get("RANK", "0"))


class Slow(Dataset):
    """`seconds` for the first sample of each worker, spent with work or with reading."""

    def __init__(self, work):
        self.work, self.is_first = work, True

    def __len__(self):
        return 80

    def __getitem__(self, index):
        if self.is_first:
            self.is_first = False
            self.work()
        return torch.randn(8), torch.randn(1)


def network(width=8):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))


def train(model, batches, after=lambda step: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        time.sleep(0.02)
        after(step)


def random_batches(num=80):
    for _ in range(num):
        yield torch.randn(4, 8), torch.randn(4, 1)


def pausing(pause, steps=(STEPS,)):
    return lambda now: pause() if now in steps else None


# Pauses


def compute():
    ends = time.monotonic() + PAUSE
    while time.monotonic() < ends:
        torch.randn(200, 200) @ torch.randn(200, 200)


def one_long_call():
    """One call into C without a return to Python."""
    began = time.monotonic()
    data = b"x" * 1_000_000
    rounds = 1
    while time.monotonic() - began < PAUSE:
        rounds *= 2
        hashlib.pbkdf2_hmac("sha512", data[:10], b"salt", rounds * 4000)


def tokenize():
    ends, counts = time.monotonic() + PAUSE, {}
    while time.monotonic() < ends:
        for word in ("a b c " * 1000).split():
            counts[word] = counts.get(word, 0) + 1


def evaluate():
    model = network(512).eval()
    ends = time.monotonic() + PAUSE
    with torch.no_grad():
        while time.monotonic() < ends:
            model(torch.randn(4096, 8))
            time.sleep(0.2)


def write_checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        ends = time.monotonic() + PAUSE
        while time.monotonic() < ends:
            Path(folder, "model.pt").write_bytes(os.urandom(1 << 20))
            time.sleep(0.5)


def compress():
    with tempfile.TemporaryFile() as file, gzip.open(file, "wb") as packed:
        ends = time.monotonic() + PAUSE
        while time.monotonic() < ends:
            packed.write(os.urandom(1 << 20))


def download():
    """A server that sends some bytes every second."""

    class Trickle(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            for _ in range(int(PAUSE)):
                self.wfile.write(b"x" * 2000)
                time.sleep(1)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Trickle)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()


def child_computes():
    text = f"import time\nends = time.monotonic() + {PAUSE}\nwhile time.monotonic() < ends: pass"
    subprocess.run([sys.executable, "-S", "-c", text], check=True)


def child_sleeps():
    """A tool that waits for something outside."""
    subprocess.run(["sleep", str(PAUSE)], check=True)


def rate_limit():
    time.sleep(PAUSE)


def thread_computes():
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()


def progress_lines():
    for number in range(int(PAUSE)):
        print(f"prepared {number} of {int(PAUSE)} shards", flush=True)
        time.sleep(1)


def slow_answer():
    """A server that computes its answer, elsewhere, for a while."""

    class Judge(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(PAUSE)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()


def producer():
    """A thread prepares the next batch and takes its time."""
    items = queue.Queue()
    threading.Thread(target=lambda: (compute(), items.put(1))).start()
    items.get()


def poll_for_file():
    path = Path(tempfile.mkdtemp()) / "ready"
    threading.Timer(PAUSE, path.touch).start()
    while not path.exists():
        time.sleep(0.5)


def same_pause_each_epoch():
    """Pauses grow a little: the job has shown that it does so."""
    waits = iter((8.0, 14.0, 20.0))
    train(network(), random_batches(160), pausing(lambda: time.sleep(next(waits)), (40, 80, 120)))


def rank_zero_saves():
    if RANK == 0:
        write_checkpoint()
    dist.barrier()


def rank_zero_evaluates():
    if RANK == 0:
        compute()
    dist.barrier()


def slow_loader():
    train(network(), [*random_batches(40)])
    for _ in range(2):
        train(network(), DataLoader(Slow(compute), batch_size=4, num_workers=1))


def slow_start():
    """Data is prepared before the first step."""
    time.sleep(PAUSE)
    train(network(), random_batches(40))


def together(pause):
    dist.init_process_group("gloo")
    train(DistributedDataParallel(network()), random_batches(), pausing(pause))
    dist.destroy_process_group()


SINGLES = {
    case.__name__: case
    for case in (
        *(compute, one_long_call, tokenize, evaluate, write_checkpoint, compress, download),
        *(child_computes, child_sleeps, rate_limit, thread_computes, progress_lines),
        *(slow_answer, producer, poll_for_file),
    )
}
GROUPS = {case.__name__: case for case in (rank_zero_saves, rank_zero_evaluates)}
OTHERS = {case.__name__: case for case in (same_pause_each_epoch, slow_loader, slow_start)}
DISTRIBUTED = (*GROUPS,)

if __name__ == "__main__":
    CASE = sys.argv[1]
    if CASE in GROUPS:
        together(GROUPS[CASE])
    elif CASE in SINGLES:
        train(network(), random_batches(), pausing(SINGLES[CASE]))
    else:
        OTHERS[CASE]()
