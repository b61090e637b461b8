import networkx
import pytest
import torch

from meanmax.data import fingerprint, load, make_split
from meanmax.data.benchmarks.reach import reach
from meanmax.data.files import DataError


@pytest.fixture(scope="module", params=[1, 2, 3])
def task(request):
    return request.param, reach(request.param, graphs=5, nodes=1000, seed=request.param)


def test_labels_are_those_of_a_breadth_first_search(task):
    hops, dataset = task
    graph = networkx.Graph(dataset.edge_index.t().tolist())
    graph.add_nodes_from(range(dataset.num_nodes))
    sources = dataset.x[:, 0].nonzero()[:, 0].tolist()
    distance = networkx.multi_source_dijkstra_path_length(graph, sources)
    want = [int(distance.get(node, hops + 1) <= hops) for node in range(dataset.num_nodes)]
    assert dataset.y.tolist() == want


def test_half_of_each_graph_is_near(task):
    _, dataset = task
    shares = dataset.y.reshape(5, 1000).double().mean(1)
    assert ((shares >= 0.4) & (shares <= 0.6)).all(), shares


def test_test_graphs_are_denser_and_have_fewer_sources(task):
    _, dataset = task
    degree = torch.bincount(dataset.edge_index[1]).reshape(5, 1000).double().mean(1)
    assert degree[:4].tolist() == pytest.approx([8] * 4, rel=0.1)
    assert degree[4].item() == pytest.approx(64, rel=0.05)
    sources = dataset.x[:, 0].reshape(5, 1000).sum(1)
    assert sources[4] < sources[:4].min() and sources[4] >= 1
    assert (dataset.x[:, 1] == 1).all()


def test_edges_stay_in_their_graph(task):
    _, dataset = task
    graph = dataset.graph_id
    assert torch.equal(graph[dataset.edge_index[0]], graph[dataset.edge_index[1]])


def test_the_split_keeps_graphs_whole(task):
    _, dataset = task
    split = make_split(dataset)
    assert split is dataset.split and split.name == "mean degree 8, tested at 64"
    parts = [dataset.graph_id[part].unique().tolist() for part in (split.train, split.val)]
    assert parts == [[0, 1, 2], [3]] and split.test.tolist() == list(range(4000, 5000))


def test_layers_of_the_maximum_are_exact(task):
    hops, dataset = task
    graph = dataset.graph(self_loops=True)
    near = dataset.x[:, :1]
    for _ in range(hops):
        near = torch.zeros_like(near).scatter_reduce(
            0, graph.edge_index[1][:, None], near[graph.edge_index[0]], "amax"
        )
    assert torch.equal(near[:, 0].long(), dataset.y)


def test_options_and_seed():
    dataset = load("reach:hops=1, graphs=3,nodes=200,test_degree=16,seed=5")
    assert dataset.name == "reach:hops=1,degree=8,test_degree=16,graphs=3,nodes=200,seed=5"
    assert fingerprint(load(dataset.name)) == fingerprint(dataset)
    assert fingerprint(load(dataset.name.replace("seed=5", "seed=6"))) != fingerprint(dataset)
    assert load("reach").num_graphs == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("nodes=100", "'nodes' of 'reach' must be between 130"),
        ("graphs=2", "'graphs' of 'reach' must be between 3"),
        ("hops=0", "'hops'"),
        ("degree=1", "'degree'"),
        ("test_degree=1", "'test_degree'"),
        ("seed=-1", "'seed'"),
        ("hops=9,nodes=300", "too small: with mean degree 64, no sources have 40% to 60%"),
        ("size=3", "no option 'size'; it takes hops, degree"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(DataError, match=message):
        load(f"reach:{options}")
