"""Reads a training script without running it: `trackside check`."""
