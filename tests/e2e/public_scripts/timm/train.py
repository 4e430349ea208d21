import argparse
import csv
import logging
import os
from collections import OrderedDict
from datetime import datetime

import torch
import yaml
from torch import nn

_logger = logging.getLogger("train")

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("data", nargs="?", metavar="DIR", help="path to dataset")
parser.add_argument("--model", default="resnet50", type=str, metavar="MODEL")
parser.add_argument("-b", "--batch-size", type=int, default=32, metavar="N")
parser.add_argument("--lr", type=float, default=0.05, metavar="LR")
parser.add_argument("--epochs", type=int, default=3, metavar="N")
parser.add_argument("--output", default="", type=str, metavar="PATH")
parser.add_argument("--experiment", default="", type=str, metavar="NAME")
parser.add_argument("--checkpoint-hist", type=int, default=2, metavar="N")
parser.add_argument("--amp", action="store_true", default=False)


def get_outdir(path, *names):
    outdir = os.path.join(path, *names)
    os.makedirs(outdir, exist_ok=False)
    return outdir


def update_summary(epoch, train_metrics, eval_metrics, filename, write_header):
    row = OrderedDict(epoch=epoch)
    row.update([("train_" + k, v) for k, v in train_metrics.items()])
    row.update([("eval_" + k, v) for k, v in eval_metrics.items()])
    with open(filename, mode="a") as cf:
        dw = csv.DictWriter(cf, fieldnames=row.keys())
        if write_header:
            dw.writeheader()
        dw.writerow(row)


class CheckpointSaver:
    """Keeps the newest; `last` and `model_best` are hard links."""

    def __init__(self, folder, hist):
        self.folder, self.hist, self.files, self.best = folder, hist, [], None

    def save(self, state, epoch, metric):
        tmp, last = (os.path.join(self.folder, f"{n}.pth.tar") for n in ("tmp", "last"))
        torch.save({"epoch": epoch, "state_dict": state, "metric": metric}, tmp)
        if os.path.exists(last):
            os.unlink(last)
        os.rename(tmp, last)
        path = os.path.join(self.folder, f"checkpoint-{epoch}.pth.tar")
        os.link(last, path)
        self.files.append(path)
        if len(self.files) > self.hist:
            os.unlink(self.files.pop(0))
        if self.best is None or metric > self.best:
            self.best = metric
            best = os.path.join(self.folder, "model_best.pth.tar")
            if os.path.exists(best):
                os.unlink(best)
            os.link(last, best)


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args = parser.parse_args()
    torch.manual_seed(42)
    exp_name = args.experiment or "-".join([datetime.now().strftime("%Y%m%d-%H%M%S"), args.model])
    output_dir = get_outdir(args.output or "./output/train", exp_name)
    with open(os.path.join(output_dir, "args.yaml"), "w") as f:
        f.write(yaml.safe_dump(args.__dict__, default_flow_style=False))
    saver = CheckpointSaver(output_dir, args.checkpoint_hist)

    target = torch.arange(96) % 3
    images = torch.randn(96, 3, 8, 8) + target[:, None, None, None]
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        losses = []
        for i in range(0, len(images), args.batch_size):
            x, y = images[i : i + args.batch_size], target[i : i + args.batch_size]
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            _logger.info(
                f"Train: {epoch} [{i // args.batch_size:>4d}/3 ]  Loss: {loss.item():#.3g}  "
                f"LR: {args.lr:.3e}"
            )
        with torch.no_grad():
            output = model(images)
            top1 = (output.argmax(1) == target).float().mean().item() * 100
            eval_loss = nn.functional.cross_entropy(output, target).item()
        update_summary(
            epoch,
            {"loss": sum(losses) / len(losses)},
            {"loss": eval_loss, "top1": top1},
            os.path.join(output_dir, "summary.csv"),
            write_header=epoch == 0,
        )
        saver.save(model.state_dict(), epoch, top1)
    _logger.info(f"*** Best metric: {saver.best}")


if __name__ == "__main__":
    main()
