"""Commands that are killed half-way."""

import os
import signal
import subprocess
import sys
import time

import torch


def epochs_before_the_kill(state, *args):
    """Starts a training, kills it after its first checkpoint, and says how far that got."""
    process = subprocess.Popen(
        [sys.executable, "-m", "meanmax", "train", *map(str, args), "--checkpoint-every", "0.05"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        deadline = time.monotonic() + 120
        while not state.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    return len(torch.load(state, weights_only=True)["history"]["train_loss"])
