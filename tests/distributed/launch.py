"""Functions run by several processes at once, as ranks of a job."""

import multiprocessing
import os
import pickle
import socket
import traceback

import torch

from meanmax.distributed import joined_job


def on_ranks(function, size, *args):
    """What a function of (job, *args), defined at the top of a module, gives on each rank."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    packed = pickle.dumps(args)  # by value: torch would share memory with ranks that are gone
    queue = context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(queue, function, rank, size, port, packed), daemon=True)
        for rank in range(size)
    ]
    for worker in workers:
        worker.start()
    answers = {}
    for _ in workers:
        rank, answer, error = queue.get()
        assert error is None, f"rank {rank}:\n{error}"
        answers[rank] = pickle.loads(answer)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    return [answers[rank] for rank in range(size)]


def _work(queue, function, rank, size, port, packed):
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    try:
        with joined_job() as job:
            answer = function(job, *pickle.loads(packed))
            queue.put((rank, pickle.dumps(answer), None))
    except BaseException:
        queue.put((rank, None, traceback.format_exc()))
        raise
