"""Categories and missing values of tables, as features if this is asked for."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from meanmax.data import DataError, fingerprint, load
from meanmax.data.readers import OwnDataError, check, read_own
from meanmax.graph import SparseFeatures

from . import graphs

pytestmark = pytest.mark.extra

NODES = "id,height,colour,label,age\na,1,red,x,10\nb,,blue,y,20\nc,3,red,x,NA\nd,8,green,y,60\n"
EDGES = "source,target\na,b\nb,c\n"
ENCODED = [[1, 0, 0, 1, 10], [4, 1, 0, 0, 20], [3, 0, 0, 1, 30], [8, 0, 1, 0, 60]]


@pytest.fixture
def folder(tmp_path):
    return graphs.csv_folder(tmp_path, NODES, EDGES)


def test_categories_are_sorted_and_stay_at_their_place(folder):
    dataset = load(folder, one_hot=["colour"], impute="mean")
    assert dataset.x.tolist() == ENCODED
    names = ("height", "colour=blue", "colour=green", "colour=red", "age")
    assert dataset.feature_names == names
    assert dataset.encoding == {
        "impute": {"height": 4.0, "age": 30.0},
        "one_hot": {"colour": ["blue", "green", "red"]},
    }


def test_numbers_as_categories_are_sorted_by_value(tmp_path):
    nodes = "id,code,label\na,10,x\nb,9,y\nc,10,x\n"
    dataset = load(graphs.csv_folder(tmp_path, nodes, EDGES), one_hot=["code"])
    assert dataset.feature_names == ("code=9", "code=10")
    assert dataset.x.tolist() == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize(("how", "height", "age"),
                         [("mean", 4, 30), ("median", 3, 20), ("zero", 0, 0)])  # fmt: skip
def test_imputation(folder, how, height, age):
    x = load(folder, one_hot=["colour"], impute=how).x
    assert (x[1, 0], x[2, -1]) == (height, age)


def test_the_encoding_of_one_table_gives_another_the_same_columns(folder, tmp_path):
    encoding = load(folder, one_hot=["colour"], impute="mean").encoding
    other = "id,height,colour,age\na,,green,\nb,5,red,1\nc,,,2\n"
    path = graphs.csv_folder(tmp_path / "other", other, EDGES)
    assert load(path, **encoding).x.tolist() == [[4, 0, 1, 0, 30], [5, 0, 0, 1, 1], [4, 0, 0, 0, 2]]
    unknown = other.replace("red", "pink")
    with pytest.raises(OwnDataError, match="'colour' holds 'pink', none of 'blue', 'green', 'red'"):
        load(graphs.csv_folder(tmp_path / "third", unknown, EDGES), **encoding)


def test_parquet_has_categories_and_gaps_too(folder, tmp_path):
    path = graphs.write(tmp_path / "other" / "mine", {"edges.csv": EDGES})
    colour = pa.array(["red", "blue", "red", "green"]).dictionary_encode()
    nodes = {"id": ["a", "b", "c", "d"], "height": [1.0, None, 3.0, 8.0], "colour": colour}
    nodes |= {"label": ["x", "y", "x", "y"], "age": pa.array([10.0, 20.0, np.nan, 60.0])}
    pa.parquet.write_table(pa.table(nodes), path / "nodes.parquet")
    options = {"one_hot": ["colour"], "impute": "mean"}
    assert fingerprint(load(path, **options)) == fingerprint(load(folder, **options))


def test_nothing_is_converted_unless_asked(folder):
    messages = [str(problem) for problem in check(folder) if problem.severity == "error"]
    assert any("'colour' holds text" in text and "--one-hot colour" in text for text in messages)
    assert any("'height' is missing" in text and "--impute mean" in text for text in messages)
    assert any("'age' is not a number" in text for text in messages)
    assert len(messages) == 3


def test_a_missing_category_is_an_error_or_all_zero(tmp_path):
    nodes = "id,colour,label\na,red,x\nb,,y\nc,blue,x\n"
    path = graphs.csv_folder(tmp_path, nodes, EDGES)
    with pytest.raises(OwnDataError, match=r"nodes.csv:3: feature 'colour' is missing"):
        load(path, one_hot=["colour"])
    assert load(path, one_hot=["colour"], impute="zero").x.tolist() == [[0, 1], [0, 0], [1, 0]]


def test_a_column_of_gaps_has_no_mean(tmp_path):
    nodes = "id,f,g,label\na,,1,x\nb,,2,y\nc,NA,3,x\n"
    path = graphs.csv_folder(tmp_path, nodes, EDGES)
    with pytest.raises(OwnDataError, match="feature 'f' is missing"):
        load(path, impute="mean")
    assert load(path, impute="zero").x[:, 0].tolist() == [0, 0, 0]


def test_unknown_columns_and_methods(folder):
    with pytest.raises(OwnDataError, match="no feature column 'color'; .*with text are 'colour'"):
        load(folder, one_hot=["color"])
    with pytest.raises(OwnDataError, match="no feature column 'label'"):
        load(folder, one_hot=["label"])
    with pytest.raises(DataError, match="'impute' must be mean, median, zero.*got 'mode'"):
        load(folder, impute="mode")
    with pytest.raises(DataError, match=r"list of columns, such as \['colour'\]"):
        load(folder, one_hot="colour")
    with pytest.raises(DataError, match="'one_hot' and 'impute' are for graphs of your own"):
        load("karate", impute="mean")


def test_a_target_that_is_a_number(tmp_path):
    nodes = "id,f,label\na,1,1.5\nb,2,-2\nc,3,\nd,4,1e1\n"
    dataset = read_own(graphs.csv_folder(tmp_path, nodes, EDGES))
    assert (dataset.task, dataset.num_classes, dataset.class_names) == ("regression", 1, ())
    np.testing.assert_array_equal(dataset.y, [1.5, -2, np.nan, 10])
    path = graphs.write(tmp_path / "other" / "mine", {"edges.csv": EDGES})
    table = {"id": list("abcd"), "f": [1, 2, 3, 4], "label": [1.5, -2.0, None, 10.0]}
    pa.parquet.write_table(pa.table(table), path / "nodes.parquet")
    assert fingerprint(read_own(path)) == fingerprint(dataset)


@pytest.mark.parametrize("labels", [("1.0", "2.0", "1"), ("1.5", "2", "x"), ("1.5|2", "2", "1.5")])
def test_other_labels_stay_names(labels, tmp_path):
    nodes = "id,f,label\na,1,{}\nb,2,{}\nc,3,{}\n".format(*labels)
    dataset = read_own(graphs.csv_folder(tmp_path, nodes, EDGES))
    assert dataset.task != "regression"


@pytest.mark.parametrize(
    ("filled", "columns", "sparse"), [(0.09, 64, True), (0.11, 64, False), (0.0, 63, False)]
)
def test_features_that_are_mostly_zero_are_stored_sparse(filled, columns, sparse, tmp_path):
    x = np.zeros(50 * columns, np.float32)
    x[: int(filled * x.size)] = 2.0
    x = np.random.default_rng(0).permutation(x).reshape(50, columns)
    ring = np.stack([np.arange(50), np.roll(np.arange(50), 1)])
    np.savez(tmp_path / "g.npz", features=x, edges=ring.T, labels=np.arange(50) % 2)
    found = load(tmp_path / "g.npz").x
    assert isinstance(found, SparseFeatures) == sparse
    np.testing.assert_array_equal(found.to_dense() if sparse else found, x)
