"""One graph on two processes, which learn exactly what one process would learn from all of it.

torchrun --nproc-per-node 2 examples/distributed.py --folder parts
"""

import argparse
from pathlib import Path

import torch

from meanmax import build_model
from meanmax.data import load, make_split
from meanmax.scale import assign_blocks, joined_job, open_part, write_partition

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", type=Path, default=Path("parts"))
parser.add_argument("--epochs", type=int, default=60)
given = parser.parse_args()

with joined_job() as job:
    if job.is_first and not given.folder.exists():
        digits = load("digits")
        nodes = assign_blocks(digits.graph(), job.size)  # assign_metis cuts fewer edges
        split = make_split(digits, "random", 0)
        write_partition(
            given.folder, digits, split, nodes, job.size, origin={"data": "digits"}, method="blocks"
        )
    job.wait()
    part = open_part(given.folder, job)  # this rank's nodes and their incoming edges
    train, test = (part.sample(name, scale=False) for name in ("train", "test"))
    torch.manual_seed(0)  # the same weights on all ranks
    model = build_model("sage", "softmax", part.x.size(1), 64, 10, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(given.epochs):
        optimizer.zero_grad()
        train.nodes.loss(model(train.x, train.graph)).backward()  # fetches rows of other ranks
        job.share_gradients(list(model.parameters()))
        optimizer.step()
    with torch.no_grad():
        out = model(test.x, test.graph)
    index, target = test.nodes.index, test.nodes.target
    hits = int((out[index].argmax(dim=1) == target).sum())
    hits, count = job.total([hits, len(index)])
    print(
        f"rank {job.rank} of {job.size}: {len(part.y)} nodes, halo {part.graph.halo.num_received}"
    )
    if job.is_first:
        print(f"test accuracy {100 * hits / count:.1f} %")
