"""One small graph, written in every format that an own graph may come in."""

import gzip
import json
import zipfile

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from torch_geometric.data import Data

# bob - ann - "c,c" - ann's second weight is larger; dan stands alone.
IDS = ["ann", "bob", "c,c", "dan"]
FEATURES = [[1.5, 3.0], [2.5, -4.0], [0.5, 5.0], [1e3, 6.0]]
LABELS = ["cat", "dog", "", "cat"]
SPLIT = ["train", "val", "", "test"]
EDGES = [("bob", "ann", 1.0), ("ann", "c,c", 0.5)]

NODES_CSV = (
    "id,height,label,age,split\n"
    "ann,1.5,cat,3,train\n"
    "bob,2.5,dog,-4,val\n"
    '"c,c",0.5,,5,\n'
    "dan,1e3,cat,6,test\n"
)
EDGES_CSV = 'source,target,weight\nbob,ann,1\nann,"c,c",0.5\n'

# What all of them must give: [source, target] sorted by target, and y with classes by alphabet.
EDGE_INDEX = [[1, 2, 0, 0], [0, 0, 1, 2]]
WEIGHT = [1.0, 0.5, 1.0, 0.5]
Y = [0, 1, -1, 0]


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder


def csv_folder(folder, nodes=NODES_CSV, edges=EDGES_CSV):
    return write(folder / "mine", {"nodes.csv": nodes, "edges.csv": edges})


def gzip_folder(folder):
    edges = gzip.compress(EDGES_CSV.encode(), mtime=0)
    return write(folder / "mine", {"nodes.csv": NODES_CSV, "edges.csv.gz": edges})


def tsv_folder(folder):
    nodes = NODES_CSV.replace('"c,c"', "c;c").replace(",", "\t").replace("c;c", "c,c")
    edges = EDGES_CSV.replace('"c,c"', "c;c").replace(",", "\t").replace("c;c", "c,c")
    return write(folder / "mine", {"nodes.tsv": nodes, "edges.tsv": edges})


def parquet_folder(folder):
    path = write(folder / "mine", {})
    height, age = zip(*FEATURES, strict=True)
    nodes = {"id": IDS, "height": height, "age": age, "split": SPLIT}
    nodes["label"] = [label or None for label in LABELS]
    source, target, weight = zip(*EDGES, strict=True)
    edges = {"src": source, "dst": target, "weight": weight}
    pa.parquet.write_table(pa.table(nodes), path / "nodes.parquet")
    pa.parquet.write_table(pa.table(edges), path / "edges.parquet")
    return path


def networkx_graph():
    graph = networkx.Graph()
    for number, name in enumerate(IDS):
        graph.add_node(name, height=FEATURES[number][0], age=FEATURES[number][1])
        graph.nodes[name].update(label=LABELS[number], split=SPLIT[number])
    graph.add_weighted_edges_from(EDGES)
    return graph


def graphml_file(folder):
    networkx.write_graphml(networkx_graph(), folder / "mine.graphml")
    return folder / "mine.graphml"


def node_link_file(folder, edges="edges"):
    data = networkx.node_link_data(networkx_graph(), edges=edges)
    return write(folder, {"mine.json": json.dumps(data)}) / "mine.json"


def benchmark_arrays():
    """The upper triangle only, as directed sources list it."""
    return {
        "adj_data": np.float32([1.0, 0.5]),
        "adj_indices": np.int32([1, 2]),
        "adj_indptr": np.int32([0, 2, 2, 2, 2]),
        "adj_shape": np.int64([4, 4]),
        "attr_matrix": np.array(FEATURES),
        "labels": np.array([0, 1, -1, 0]),
        "class_names": np.array(["cat", "dog"]),
        "node_names": np.array(IDS),
        "train_mask": np.array([True, False, False, False]),
        "val_mask": np.array([False, True, False, False]),
        "test_mask": np.array([False, False, False, True]),
    }


def benchmark_file(folder, **changes):
    arrays = {**benchmark_arrays(), **changes}
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez(folder / "mine.npz", **kept)
    return folder / "mine.npz"


def several_arrays():
    """Two graphs: a path of three nodes and a pair."""
    return {
        "edges": np.array([[0, 1], [1, 2], [3, 4]]),
        "graph_id": np.array([1, 1, 1, 2, 2]),
        "split": np.array([0, 0, 0, 1, 1]),
        "features": np.arange(10).reshape(5, 2),
        "labels": np.array([[0, 1], [1, 1], [0, 0], [1, 0], [1, 0]]),
    }


def several_file(folder, **changes):
    np.savez(folder / "several.npz", **{**several_arrays(), **changes})
    return folder / "several.npz"


def data_object():
    return Data(
        x=torch.tensor(FEATURES),
        edge_index=torch.tensor([[1, 0], [0, 2]]),
        edge_weight=torch.tensor([1.0, 0.5]),
        y=torch.tensor(Y),
        train_mask=torch.tensor([True, False, False, False]),
        val_mask=torch.tensor([False, True, False, False]),
        test_mask=torch.tensor([False, False, False, True]),
    )


def data_file(folder):
    torch.save(data_object(), folder / "mine.pt")
    return folder / "mine.pt"


def tensors_file(folder, **changes):
    torch.save({**data_object().to_dict(), **changes}, folder / "mine.pt")
    return folder / "mine.pt"


# A path of three nodes, a pair, and a single node.
TU = {
    "A": "1, 2\n2, 1\n2,3\n3,2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "3\n7\n3\n3\n9\n7\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2, 3\n3e0, 4\n-4, 5\n5, 6\n",
}


def tu_folder(folder, **changes):
    """The text files of a collection DS; a part that is None is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in (TU | changes).items():
        if text is not None:
            (folder / f"DS_{part}.txt").write_text(text)
    return folder


def tu_zip(path, prefix="DS/", **changes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in (TU | changes).items():
            archive.writestr(f"{prefix}DS_{part}.txt", text)
        archive.writestr(f"{prefix}README.txt", "what it is")
    return path


# Two nodes of the same name in different graphs, and graphs and nodes in another order.
COLLECTION = {
    "graphs.csv": "id,label,split\nmol1,toxic,train\nmol2,safe,val\nmol3,,\n",
    "nodes.csv": "graph,id,charge\nmol2,a,1\nmol1,a,2\nmol1,b,3\nmol3,a,4\nmol2,c,5\n",
    "edges.csv": "graph,source,target,weight\nmol1,a,b,2\nmol2,c,a,0.5\n",
}


def collection_folder(tmp_path, **changes):
    """The tables, some of them replaced (None: left out)."""
    tables = COLLECTION | {f"{name}.csv": text for name, text in changes.items()}
    return write(
        tmp_path / "mine", {name: text for name, text in tables.items() if text is not None}
    )


def list_file(folder):
    """Two graphs of two and three nodes."""
    parts = [(FEATURES[:2], 0), (FEATURES[1:], 1)]
    edges = torch.tensor([[0], [1]])
    saved = [
        Data(x=torch.tensor(x), edge_index=edges, y=torch.tensor([label])) for x, label in parts
    ]
    torch.save(saved, folder / "list.pt")
    return folder / "list.pt"


NAMED = {
    "csv": csv_folder,
    "csv.gz": gzip_folder,
    "tsv": tsv_folder,
    "parquet": parquet_folder,
    "graphml": graphml_file,
    "node-link": node_link_file,
    "npz": benchmark_file,
}
NUMBERED = {"Data": data_file, "tensors": tensors_file}
WRITERS = {**NAMED, **NUMBERED, "several": several_file}
COLLECTIONS = {
    "tables": collection_folder,
    "TU folder": lambda folder: tu_folder(folder / "DS"),
    "TU zip": lambda folder: tu_zip(folder / "DS.zip"),
    "list": list_file,
}


def with_marks(formats):
    """Parameters of a test: of these formats, arrays and TU text need no package of an extra."""
    free = ("npz", *NUMBERED, "several", "TU folder", "TU zip", "list")
    return [
        name if name in free else pytest.param(name, marks=pytest.mark.extra) for name in formats
    ]
