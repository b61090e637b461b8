"""Functions run by several processes at once, as ranks of a job."""

import multiprocessing
import os
import pickle
import traceback
from multiprocessing.connection import wait

import torch
from torch.distributed import TCPStore

import tests.without_extras  # noqa: F401 - ranks cannot import them either
from meanmax.scale import joined_job


def on_ranks(function, size, *args):
    """What a function of (job, *args), defined at the top of a module, gives on each rank."""
    # Ranks meet at a store of this process, on a port that stays taken from the start.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    packed = pickle.dumps(args)  # by value: torch would share memory with ranks that are gone
    workers, readers = [], {}
    for rank in range(size):
        reader, writer = context.Pipe(duplex=False)
        given = (writer, function, rank, size, store.port, packed)
        workers.append(context.Process(target=_work, args=given, daemon=True))
        workers[rank].start()
        writer.close()  # the rank has the only other end: its death ends the wait
        readers[reader] = rank
    answers = {}
    while readers:  # in the order of arrival: the first error is the cause of the others
        for reader in wait(readers):
            rank = readers.pop(reader)
            answers[rank] = pickle.loads(_received(rank, reader))
    for worker in workers:
        worker.join(300)
        assert worker.exitcode == 0
    return [answers[rank] for rank in range(size)]


def _received(rank, reader):
    try:
        answer, error = reader.recv()
    except EOFError:
        raise AssertionError(f"rank {rank} died without a word, see stderr") from None
    assert error is None, f"rank {rank}:\n{error}"
    return answer


def _work(writer, function, rank, size, port, packed):
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "MEANMAX_RANK_TIMEOUT": "600",
    }
    torch.set_num_threads(1)
    try:
        with joined_job() as job:
            answer = function(job, *pickle.loads(packed))
            writer.send((pickle.dumps(answer), None))
    except BaseException:
        writer.send((None, traceback.format_exc()))
        raise
