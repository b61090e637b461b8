"""Commands that are killed half-way: a helper, and the program that it starts.

The program is the command ``meanmax``, which kills itself right before an event of a given number:
a ``step`` of the optimizer, or the ``rename`` that completes a checkpoint. So how far it gets does
not depend on the speed of the machine.
"""

import os
import runpy
import signal
import subprocess
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


def epochs_before_the_kill(state, *args):
    """Starts a training and kills it half-way; the number of epochs in its checkpoint."""
    command = [sys.executable, __file__, "rename", "8", "train", *map(str, args)]
    done = subprocess.run(
        [*command, "--checkpoint-every", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return len(torch.load(state, weights_only=True)["history"]["train_loss"])


def die_at(event, number):
    """Kills this process right before an event happens for this number of times."""
    left = number

    def count():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if event == "step":
        register_optimizer_step_pre_hook(lambda *_: count())
    else:

        def on_audit(name, args):
            if name == "os.rename" and str(args[1]).endswith(".checkpoint"):
                count()

        sys.addaudithook(on_audit)


if __name__ == "__main__":
    event, number, *sys.argv[1:] = sys.argv[1:]
    rank = os.environ.get("RANK")
    if rank is None or rank == os.environ["DYING_RANK"]:
        die_at(event, int(number))
    runpy.run_module("meanmax", run_name="__main__", alter_sys=True)
