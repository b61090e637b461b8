import numpy as np
import pytest
import torch

from meanmax.data import Dataset, development_pool, load, make_split
from meanmax.data.dataset import Split
from meanmax.data.files import DataError
from meanmax.data.splits import default_scheme, node_keys
from meanmax.names import SPLIT_SCHEMES

from .real import FOLDER, needs_amazon, needs_planetoid


def labelled(labels, **options):
    y = torch.as_tensor(labels)
    numbers = 0 if y.is_floating_point() else int(y.max()) + 1
    classes = numbers if y.dim() == 1 else y.size(1)
    return Dataset(
        "made up",
        torch.zeros(y.size(0), 2),
        y,
        torch.zeros(2, 0, dtype=torch.long),
        class_names=tuple(f"c{number}" for number in range(classes)),
        **options,
    )


@pytest.fixture
def large():
    """2,000 nodes of 5 classes, every 100th without label."""
    y = torch.arange(2000) % 5
    y[::100] = -1
    return labelled(y)


def parts(split):
    return [set(part.tolist()) for part in (split.train, split.val, split.test)]


def check(dataset, split):
    """Disjoint, sorted, labelled."""
    train, val, test = parts(split)
    assert not train & val and not train & test and not val & test
    for part in (split.train, split.val, split.test):
        assert part.dtype == torch.int64
        assert torch.equal(part, part.sort().values)
        assert dataset.labelled[part].all()


def test_citation(large):
    split = make_split(large, "citation", 3)
    check(large, split)
    assert torch.bincount(large.y[split.train]).tolist() == [20] * 5
    assert (split.val.numel(), split.test.numel()) == (500, 1000)
    assert split.name == "citation, seed 3"


def test_amazon(large):
    split = make_split(large, "amazon", 3)
    check(large, split)
    assert torch.bincount(large.y[split.train]).tolist() == [20] * 5
    assert torch.bincount(large.y[split.val]).tolist() == [30] * 5
    assert sum(map(len, parts(split))) == int(large.labelled.sum()) == 1980


def test_balanced_takes_a_share_of_small_classes():
    dataset = labelled([0] * 3 + [1] * 10 + [2] * 200)
    split = make_split(dataset, "balanced", 0)
    check(dataset, split)
    assert torch.bincount(dataset.y[split.train]).tolist() == [1, 3, 20]
    assert torch.bincount(dataset.y[split.val]).tolist() == [1, 3, 30]
    assert torch.bincount(dataset.y[split.test]).tolist() == [1, 4, 150]


def test_random_on_several_labels():
    y = torch.ones(50, 3)
    y[7] = float("nan")
    dataset = labelled(y)
    split = make_split(dataset)
    check(dataset, split)
    assert [len(part) for part in parts(split)] == [29, 10, 10]


@pytest.mark.parametrize("scheme", ["citation", "amazon", "balanced", "random"])
def test_the_seed_decides(large, scheme):
    first, again, other = (make_split(large, scheme, seed) for seed in (4, 4, 5))
    assert parts(first) == parts(again)
    assert parts(first)[0] != parts(other)[0]


def test_seeds_cover_the_nodes_evenly(large):
    counts = np.zeros(2000)
    for seed in range(200):
        counts[make_split(large, "citation", seed).train.numpy()] += 1
    # Binomial(200, 20 / 396): mean 10.1, deviation 3.1
    own = counts[large.labelled.numpy()]
    assert own.mean() == pytest.approx(100 * 200 / 1980)
    assert own.max() < 10.1 + 6 * 3.1
    assert 2.5 < own.std() < 3.7


def test_keys_never_change():
    # The first outputs of PCG64 seeded with 0; numpy promises to keep the stream.
    want = [11749869230777074271, 4976686463289251617, 755828109848996024]
    assert node_keys(3, 0).tolist() == want


def test_keys_decide_who_trains():
    keys = node_keys(60, 7)
    split = make_split(labelled([0] * 30 + [1] * 30), "balanced", 7)
    want = {*np.argsort(keys[:30])[:9].tolist(), *(30 + np.argsort(keys[30:])[:9]).tolist()}
    assert parts(split)[0] == want


@pytest.mark.parametrize("scheme", ["citation", "amazon"])
def test_a_class_with_too_few_nodes_is_named(scheme):
    dataset = labelled([0] * 2000 + [1] * 20)
    with pytest.raises(
        DataError, match=r"class 'c1' of 'made up' has 20 labelled nodes, too few"
    ) as caught:
        make_split(dataset, scheme)
    assert str(caught.value).endswith("use the scheme 'balanced' (3 per class) or 'random'")


def test_balanced_needs_three_of_each_class():
    with pytest.raises(DataError, match="class 'c1' of 'made up' has 2 labelled nodes") as caught:
        make_split(labelled([0, 0, 0, 1, 1]))
    assert str(caught.value).endswith("merge classes, or use the scheme 'random'")


def test_citation_needs_enough_nodes_to_test():
    with pytest.raises(DataError, match="needs 1500 labelled nodes"):
        make_split(labelled([0, 1] * 700), "citation")


def test_inductive_keeps_graphs_whole():
    ptr = torch.arange(0, 101, 5)
    dataset = labelled([0, 1] * 50, graph_ptr=ptr)
    split = make_split(dataset, seed=1)
    check(dataset, split)
    graphs = [{node // 5 for node in part} for part in parts(split)]
    assert [len(ids) for ids in graphs] == [16, 2, 2]
    assert [len(part) for part in parts(split)] == [80, 10, 10]
    with pytest.raises(DataError, match="needs 3 graphs"):
        make_split(labelled([0, 1]), "inductive")


def test_inductive_refuses_a_given_split_that_divides_a_graph():
    given = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2, 3]), "mine")
    dataset = labelled([0, 1, 0, 1], graph_ptr=torch.tensor([0, 2, 4]), split=given)
    for scheme in ("inductive", None):
        with pytest.raises(DataError, match=r"divides 1 \(the first: graph 0.*scheme 'given'"):
            make_split(dataset, scheme)
    assert make_split(dataset, "given") is given


def test_a_given_split_of_whole_graphs_is_the_default():
    given = Split(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]), "mine")
    dataset = labelled([0, 1, 0, 1], graph_ptr=torch.tensor([0, 2, 3, 4]), split=given)
    assert make_split(dataset) is given


def test_default_scheme():
    given = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]), "mine")
    assert default_scheme(labelled([0, 1, 0])) == "balanced"
    assert default_scheme(labelled([0, 1, 0], split=given)) == "given"
    assert default_scheme(labelled([0, 1, 0], split=given, scheme="citation")) == "citation"
    assert default_scheme(labelled([0, 1], graph_ptr=torch.tensor([0, 1, 2]))) == "inductive"
    assert default_scheme(labelled(torch.ones(3, 2))) == "random"


def test_what_cannot_be_is_refused(large):
    with pytest.raises(DataError, match=f"one of {', '.join(SPLIT_SCHEMES)} .got 'planetoid'"):
        make_split(large, "planetoid")
    with pytest.raises(DataError, match="'seed' must be a whole number"):
        make_split(large, "citation", -1)
    with pytest.raises(DataError, match="no public split"):
        make_split(large, "public")
    with pytest.raises(DataError, match="came without a split"):
        make_split(large, "given")
    with pytest.raises(DataError, match="several labels"):
        make_split(labelled(torch.ones(9, 2)), "balanced")


@needs_planetoid
@pytest.mark.parametrize(("name", "classes"), [("cora", 7), ("citeseer", 6), ("pubmed", 3)])
def test_citation_graphs(name, classes):
    dataset = load(name, data_dir=FOLDER, download=False)
    split = make_split(dataset, seed=9)
    check(dataset, split)
    assert [len(part) for part in parts(split)] == [20 * classes, 500, 1000]
    public = make_split(dataset, "public")
    check(dataset, public)
    assert [len(part) for part in parts(public)] == [20 * classes, 500, 1000]


@needs_amazon
def test_amazon_graphs():
    dataset = load("photo", data_dir=FOLDER, download=False)
    split = make_split(dataset)
    check(dataset, split)
    assert [len(part) for part in parts(split)] == [160, 240, 7487 - 400]


def test_a_seed_chooses_one_of_several_given_splits():
    nodes = [torch.tensor([number]) for number in range(3)]
    splits = tuple(Split(*nodes[k:], *nodes[:k], f"row {k}") for k in range(2))
    dataset = labelled([0, 1, 0], splits=splits)
    assert dataset.split is splits[0]
    assert default_scheme(dataset) == "given"
    assert [make_split(dataset, seed=k) for k in range(2)] == list(splits)
    with pytest.raises(DataError, match=r"came with 2 splits, seeds 0 to 1 \(got seed 2\)"):
        make_split(dataset, "given", 2)
    one = labelled([0, 1, 0], split=splits[1])
    assert make_split(one, "given", 7) is splits[1]


def test_targets_are_split_at_random():
    y = torch.arange(20) / 3
    y[4] = float("nan")
    dataset = labelled(y)
    split = make_split(dataset)
    check(dataset, split)
    assert split.name == "random, seed 0"
    assert [len(part) for part in parts(split)] == [11, 4, 4]
    for scheme in ("balanced", "citation", "amazon"):
        with pytest.raises(DataError, match="is a number, not a class: use 'random'"):
            make_split(dataset, scheme)
        with pytest.raises(DataError, match="is a number, not a class: use 'random'"):
            development_pool(dataset, scheme)


POOLED = ("citation", "amazon", "balanced", "random")


@pytest.fixture
def larger():
    """4,000 nodes of 5 classes, every 100th without label: 800 - 40 of class 0, else 800."""
    y = torch.arange(4000) % 5
    y[::100] = -1
    return labelled(y)


@pytest.mark.parametrize("scheme", POOLED)
def test_no_node_of_the_pool_is_tested(larger, scheme):
    pool = development_pool(larger, scheme)
    inside = set(pool.tolist())
    assert torch.bincount(larger.y[pool]).tolist() == [380, 400, 400, 400, 400]
    assert larger.labelled[pool].all() and torch.equal(pool, pool.unique())
    used = set()
    for seed in range(5):
        split = make_split(larger, scheme, seed, pool=pool)
        check(larger, split)
        train, val, test = parts(split)
        assert train | val <= inside and not test & inside
        assert split.name == f"{scheme}, pool, seed {seed}"
        used |= train | val
        sizes = {"citation": (100, 500, 1000), "amazon": (100, 150, 1980),
                 "balanced": (100, 150, 1980), "random": (1485, 495, 1980)}  # fmt: skip
        assert (len(train), len(val), len(test)) == sizes[scheme]
        if scheme != "random":
            assert torch.bincount(larger.y[split.train]).tolist() == [20] * 5
    assert len(used) > 500  # seeds differ


@pytest.mark.parametrize("scheme", POOLED)
def test_the_pool_depends_on_its_own_seed_only(larger, scheme):
    first, again, other = (development_pool(larger, scheme, seed) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    # Half of the nodes of another draw: about half of them are shared.
    shared = len(set(first.tolist()) & set(other.tolist())) / len(first)
    assert 0.4 < shared < 0.6


def test_the_pool_takes_the_smallest_keys_of_each_class():
    keys = node_keys(60, (7, 1))
    pool = development_pool(labelled([0] * 30 + [1] * 30), "balanced", 7)
    want = {*np.argsort(keys[:30])[:18].tolist(), *(30 + np.argsort(keys[30:])[:18]).tolist()}
    assert set(pool.tolist()) == want


def test_the_pool_of_small_classes_holds_what_the_scheme_takes():
    dataset = labelled([0] * 3 + [1] * 10 + [2] * 60 + [3] * 200)
    pool = development_pool(dataset, "balanced")
    # 1 + 1 of 3, 3 + 3 of 10, 18 + 18 of 60; half of 200
    assert torch.bincount(dataset.y[pool]).tolist() == [2, 6, 36, 100]
    for seed in range(3):
        split = make_split(dataset, "balanced", seed, pool=pool)
        assert torch.bincount(dataset.y[split.train]).tolist() == [1, 3, 18, 20]
        assert torch.bincount(dataset.y[split.test]).tolist() == [1, 4, 24, 100]
    pool = development_pool(labelled([0] * 51 + [1] * 200), "amazon")
    assert int((pool < 51).sum()) == 50


def test_a_pool_of_citation_holds_the_validation_nodes():
    dataset = labelled(torch.arange(4100) % 100)  # 41 of each class, of which half would all train
    pool = development_pool(dataset, "citation")
    assert pool.numel() == 100 * 20 + 500
    assert torch.bincount(dataset.y[pool]).max() < 41
    split = make_split(dataset, "citation", 1, pool=pool)
    check(dataset, split)
    assert [len(part) for part in parts(split)] == [2000, 500, 1000]
    small = labelled([0, 1] * 41)  # too few to validate: the pool takes all but one of each class
    assert torch.bincount(small.y[development_pool(small, "citation")]).tolist() == [40, 40]
    few = labelled([0, 1] * 800)
    with pytest.raises(DataError, match=r"and 1000 outside it \(got 760 and 800"):
        make_split(few, "citation", pool=development_pool(few, "citation"))


def test_the_pool_of_several_labels_and_of_targets_is_half_of_the_nodes():
    for y in (torch.ones(41, 2), torch.arange(41) / 2):
        dataset = labelled(y)
        pool = development_pool(dataset)
        assert pool.numel() == 20
        split = make_split(dataset, seed=1, pool=pool)
        check(dataset, split)
        assert [len(part) for part in parts(split)] == [15, 5, 21]


@pytest.mark.parametrize("scheme", ["balanced", "random"])
def test_a_pool_needs_three_of_each_class(scheme):
    with pytest.raises(DataError, match="class 'c1' of 'made up' has 2 labelled nodes.*three"):
        development_pool(labelled([0, 0, 0, 0, 1, 1]), scheme)


def test_pools_that_cannot_be_are_refused(large):
    with pytest.raises(DataError, match="citation, amazon, balanced, random with .*got 'given'"):
        development_pool(large, "given")
    with pytest.raises(DataError, match="citation, amazon, balanced, random with .*got 'public'"):
        make_split(large, "public", pool=torch.tensor([1]))
    with pytest.raises(DataError, match="'pool' has 1 nodes of class 'c0', too few for 20"):
        make_split(large, "balanced", pool=torch.tensor([5]))
    with pytest.raises(DataError, match="must hold nodes from 0 to 1999"):
        make_split(large, "balanced", pool=torch.tensor([2000]))
    with pytest.raises(DataError, match="node numbers"):
        make_split(large, "balanced", pool=large.labelled)


def collection(classes: list[int]) -> Dataset:
    """Graphs of two nodes each, with these classes."""
    return Dataset(
        "collection",
        torch.ones(2 * len(classes), 1),
        torch.tensor(classes),
        torch.zeros(2, 0, dtype=torch.int64),
        class_names=tuple(map(str, range(max(classes) + 1))),
        graph_ptr=torch.arange(0, 2 * len(classes) + 1, 2),
        level="graph",
    )


def test_folds_test_each_graph_once_and_share_out_each_class() -> None:
    data = collection([0] * 31 + [1] * 20)
    splits = [make_split(data, seed=seed) for seed in range(10)]
    assert torch.cat([split.test for split in splits]).sort().values.tolist() == list(range(51))
    for split, after in zip(splits, [*splits[1:], splits[0]], strict=True):
        assert split.val.tolist() == after.test.tolist()
        parts = torch.cat([split.train, split.val, split.test])
        assert parts.sort().values.tolist() == list(range(51))
        assert [int((data.y[split.test] == c).sum()) for c in (0, 1)] in ([3, 2], [4, 2])


def test_folds_of_the_next_ten_seeds_are_another_cross_validation() -> None:
    data = collection([0, 1] * 20)
    first, again = make_split(data, "folds", 0), make_split(data, "folds", 10)
    assert first.test.tolist() != again.test.tolist()


def test_labels_of_graphs_are_split_by_graph() -> None:
    data = collection([0, 1] * 4)
    assert data.num_items == 8 and data.labelled.shape == (8,)
    with pytest.raises(DataError, match="needs 10 labelled graphs"):
        make_split(data)
    with pytest.raises(DataError, match="whole graphs, which every scheme keeps"):
        make_split(data, "inductive")
    split = make_split(data, "random")
    assert max(split.train.max(), split.val.max(), split.test.max()) < 8
