"""A graph of one's own whose nodes have a number to predict."""

import numpy as np

NODES = 60


def write_numbers(folder, *, labels=True, seed=0):
    """Numbers that follow the first feature; every tenth one is to be predicted."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(NODES, 3))
    y = 10 + 5 * x[:, 0] + rng.normal(size=NODES)
    lines = ["id,f,g,h,label"]
    for node in range(NODES):
        value = f"{y[node]:.3f}" if labels and node % 10 else ""
        lines.append(f"n{node}," + "".join(f"{cell:.4f}," for cell in x[node]) + value)
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = "".join(f"n{a},n{b}\n" for a, b in rng.integers(0, NODES, (150, 2)))
    (folder / "edges.csv").write_text("source,target\n" + edges)
    return folder
