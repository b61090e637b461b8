"""Layer-wise inference gives what the model gives on the whole graph."""

import pytest
import torch
from torch.nn import BatchNorm1d

from meanmax import SparseFeatures, build_model
from meanmax.nn import build_pyg_baseline
from meanmax.scale.edges import BatchingError
from meanmax.scale.features import ScratchSpace, rows_of
from meanmax.scale.inference import layerwise, scratch_bytes
from tests.scale.graphs import awkward, features

BACKBONES = ["gcn", "masked_gcn", "gat", "sage", "gin", "gen"]
AGGREGATORS = ["none", "lp", "poly", "softmax", "max"]
LITTLE = 40_000  # bytes: several blocks, and more than one for a mapping


def model_of(backbone, aggr, channels=12, **options):
    torch.manual_seed(3)
    options = {"nonlinear": "all", **options}
    return build_model(backbone, aggr, channels, 16, 4, **options).eval()


def check(model, x, graph, **options):
    with torch.no_grad():
        whole = model(x, graph)
    found = layerwise(model, x, graph, **options)
    assert found.shape == whole.shape
    scale = float(whole.abs().max())
    assert float((found - whole).abs().max()) <= 1e-5 * scale


@pytest.mark.parametrize("aggr", AGGREGATORS)
@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_whole_graph(backbone, aggr, weighted):
    model = model_of(backbone, aggr)
    check(model, features(), awkward(weighted=weighted), memory=LITTLE)


@pytest.mark.parametrize("aggr", ["none", "lp", "softmax"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_sparse_features(backbone, aggr):
    dense = features().relu() * (features(seed=5) > 0.3)
    check(model_of(backbone, aggr), SparseFeatures.from_dense(dense), awkward(), memory=LITTLE)


@pytest.mark.parametrize("order", ["transform-first", "aggregate-first"])
@pytest.mark.parametrize("backbone", ["gcn", "masked_gcn", "sage"])
def test_both_orders(backbone, order):
    check(
        model_of(backbone, "lp", layer_options={"order": order}),
        features(),
        awkward(),
        memory=LITTLE,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "batch", "skip": "linear", "layers": 3},
        {"norm": "layer", "skip": "residual", "layers": 3},
        {"norm": "batch", "skip": "res+", "layers": 4},
        {"layers": 1},
        {"activation": "elu", "aggr_options": {"sign": "abs"}},
        {"aggr_options": {"shift": "paper"}},
    ],
)
def test_what_stands_beside_the_layers(options):
    model = model_of("gcn", "lp", **options)
    for module in model.modules():
        if isinstance(module, BatchNorm1d):
            module.running_mean.fill_(0.3)
            module.running_var.fill_(2.0)
    check(model, features(), awkward(), memory=LITTLE)


def test_graphsage_with_pooling_and_attention_with_several_heads():
    check(
        model_of("sage", "max", layer_options={"pool": True}), features(), awkward(), memory=LITTLE
    )
    check(
        model_of("gat", "poly", heads=4, layer_options={"out_heads": 2}),
        features(),
        awkward(),
        memory=LITTLE,
    )


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_gcn_without_added_self_loops(normalize, weighted):
    model, graph = model_of("gcn", "softmax"), awkward(weighted=weighted)
    with torch.no_grad():
        looped = model(features(), graph)
    for layer in model.layers:
        layer.add_self_loops, layer.normalize = False, normalize
    with torch.no_grad():
        assert not torch.allclose(model(features(), graph), looped)
    check(model, features(), graph, memory=LITTLE)


def test_one_row_at_a_time():
    check(model_of("gcn", "poly"), features(), awkward(), memory=1)
    check(model_of("mlp", None), features(), awkward(), memory=1)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_model_that_ignores_the_edges_reads_each_row_once(sparse, tmp_path):
    x = SparseFeatures.from_dense(features().relu()) if sparse else features()
    model, seen = model_of("mlp", None, layers=3, skip="linear", norm="layer"), []
    check(model, x, awkward(), memory=LITTLE, scratch=tmp_path, on_rows=seen.append)
    assert sum(seen) == 3 * awkward().num_nodes
    assert len(seen) > 3


def test_mu_is_that_of_the_whole_layer():
    """With the minimum far away, in one isolated node, blocks without it have another minimum."""
    x = features()
    x[0] = -40.0
    model = model_of("sage", "lp")
    check(model, x, awkward(), memory=LITTLE)


def test_hidden_layers_in_files_are_deleted(tmp_path):
    check(model_of("gat", "lp"), features(), awkward(), memory=LITTLE, scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backbone", BACKBONES)
def test_what_is_checked_to_be_free_is_enough(backbone, tmp_path, monkeypatch):
    held, most = {}, [0]
    array, release = ScratchSpace.array, ScratchSpace.release

    def counted(self, rows, width):
        made = array(self, rows, width)
        held[id(made)] = 4 * rows * width
        most[0] = max(most[0], sum(held.values()))
        return made

    def dropped(self, given):
        held.pop(id(given), None)
        release(self, given)

    monkeypatch.setattr(ScratchSpace, "array", counted)
    monkeypatch.setattr(ScratchSpace, "release", dropped)
    model = model_of(backbone, "lp", layers=3)
    layerwise(model, features(), awkward(), scratch=tmp_path)
    assert 0 < most[0] <= scratch_bytes(model, rows_of(features()))


def test_a_full_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("U", (), {"free": 10})())
    with pytest.raises(BatchingError, match="hidden layers need .* bytes of disk .* 10 are free"):
        layerwise(model_of("gcn", "lp"), features(), awkward(), scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(BatchingError, match="no room for .* bytes .*No space left"):
        layerwise(model_of("gcn", "lp"), features(), awkward(), scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_training_goes_on_as_before():
    model = model_of("gcn", "softmax").train()
    layerwise(model, features(), awkward())
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_models_that_need_the_whole_graph():
    graph = awkward()
    with pytest.raises(BatchingError, match="CAT embeds the whole graph"):
        layerwise(build_model("cat", "lp", 12, 16, 4), features(), graph)
    with pytest.raises(BatchingError, match="meanmax's own layers"):
        layerwise(
            build_pyg_baseline("gcn", "pyg-softmax", 12, 16, 4, graph=graph), features(), graph
        )
    with pytest.raises(BatchingError, match="59 rows, but the graph has 60"):
        layerwise(model_of("gcn", "lp"), features(59), graph)
