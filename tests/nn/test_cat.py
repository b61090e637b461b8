from __future__ import annotations

import pytest
import torch

from meanmax import Graph, use_backend
from meanmax.nn import CATConv, StructuralEmbedding, fit_structure, structure_loss
from tests.nn import dense

NODES, CHANNELS, OUT, HEADS = 24, 5, 3, 2


@pytest.fixture
def edges():
    return dense.simple_edges(NODES)


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
@pytest.mark.parametrize("conjunction", ["implicit", "explicit"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_equations(edges, weighted, conjunction, backend):
    torch.manual_seed(0)
    weight = torch.rand(edges.size(1), dtype=torch.float64) + 0.1 if weighted else None
    layer = CATConv(CHANNELS, OUT, HEADS, conjunction=conjunction).double().eval()
    with torch.no_grad():
        for parameter in (layer.mix, layer.own, layer.bias):
            if parameter is not None:
                parameter.uniform_(-1, 1)
    given = [torch.randn(NODES, CHANNELS, dtype=torch.float64) for _ in range(1)] * 2
    x, same = (g.clone().requires_grad_() for g in given)
    structure = torch.randn(NODES, 4, dtype=torch.float64, requires_grad=True)
    with use_backend(backend):
        out = layer(x, Graph.from_edge_index(edges, NODES, weight), structure=structure)
    matrix = dense.adjacency(edges, weight, NODES)
    expected = dense.cat(same, matrix, structure, layer, explicit=conjunction == "explicit")
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    wanted = [structure, *layer.parameters()]
    ours = torch.autograd.grad(out.square().sum(), [x, *wanted])
    theirs = torch.autograd.grad(expected.square().sum(), [same, *wanted])
    for got, true in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, true, rtol=1e-7, atol=1e-7)


def test_structure_loss_equals_the_dense_norm():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 2, 0]])  # directed, with a self-loop
    weight = torch.rand(6)
    structure = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    found = structure_loss(structure, Graph.from_edge_index(edges, 4, weight))
    expected = dense.structure_loss(structure, dense.adjacency(edges, weight, 4))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    ours, theirs = (torch.autograd.grad(loss, structure)[0] for loss in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_structure_loss_of_a_batch_adds_up():
    graphs = [Graph.from_edge_index(dense.simple_edges(n, seed=n), n) for n in (6, 9)]
    structure = torch.randn(15, 3, dtype=torch.float64)
    parts = [structure_loss(structure[:6], graphs[0]), structure_loss(structure[6:], graphs[1])]
    whole = structure_loss(structure, Graph.batch(graphs))
    torch.testing.assert_close(whole, sum(parts), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("nodes", [24, 120])  # by a dense and by an iterative solver
def test_fitted_structure_is_the_minimum(nodes):
    graph = Graph.from_edge_index(dense.simple_edges(nodes), nodes)
    structure = fit_structure(graph, 4)
    best = float(structure_loss(structure.double(), graph))
    torch.manual_seed(0)
    for scale in (1e-3, 1e-2, 0.1):
        moved = structure.double() + scale * torch.randn(nodes, 4, dtype=torch.float64)
        assert float(structure_loss(moved, graph)) > best
    assert fit_structure(graph, 4) is structure


def test_fitted_structure_of_a_batch_is_that_of_its_graphs():
    graphs = [Graph.from_edge_index(dense.simple_edges(n, seed=n), n) for n in (5, 9)]
    whole = fit_structure(Graph.batch(graphs), 7)
    for graph, part in zip(graphs, whole.split([5, 9]), strict=True):
        alone = fit_structure(graph, 7)
        torch.testing.assert_close(part @ part.T, alone @ alone.T, rtol=1e-4, atol=1e-5)


def test_embeddings_belong_to_one_graph(edges):
    embedding = StructuralEmbedding(NODES, 3)
    graph = Graph.from_edge_index(edges, NODES)
    assert embedding(graph) is embedding.weight
    other = Graph.from_edge_index(edges.flip(0), NODES)
    with pytest.raises(ValueError, match=r"has none for this graph of 24.*fit_structure"):
        embedding(other)
    copy = StructuralEmbedding(NODES, 3)
    copy.load_state_dict(embedding.state_dict())
    with pytest.raises(ValueError, match="one graph of 24 nodes"):
        copy(other)


def test_wrong_structure_is_explained(edges):
    layer, graph = CATConv(CHANNELS, OUT), Graph.from_edge_index(edges, NODES)
    x = torch.rand(NODES, CHANNELS)
    with pytest.raises(ValueError, match=r"embeddings of 7 nodes.*graph has 24.*fit_structure"):
        layer(x, graph, structure=torch.rand(7, 3))
    with pytest.raises(ValueError, match=r"got list.*fit_structure"):
        layer(x, graph, structure=[[1.0, 2.0]])
    with pytest.raises(
        ValueError, match=r"CATConv needs structural embeddings.*build_model\('cat'"
    ):
        layer(x, graph)


def test_the_embeddings_that_the_message_names_serve(edges):
    layer, graph = CATConv(CHANNELS, OUT), Graph.from_edge_index(edges, NODES)
    x = torch.rand(NODES, CHANNELS)
    for structure in (StructuralEmbedding(NODES, 3)(graph), fit_structure(graph, 3)):
        assert layer(x, graph, structure=structure).shape == (NODES, OUT)
