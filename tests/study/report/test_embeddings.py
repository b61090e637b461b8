import numpy as np
import pytest

from meanmax.study.report.embeddings import (
    Layout,
    coordinates,
    coordinates_of,
    silhouette,
    silhouette_of,
)

QUICK = Layout(iterations=250)


def blobs(count=30, channels=60):
    """Two far groups, of which a half each."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * count, channels)).astype(np.float16)
    x[count:] += np.float16(20)
    return x, np.repeat([0, 1], count)


def test_groups_stay_apart_in_the_plane():
    x, y = blobs()
    points = coordinates(x, QUICK)
    assert points.shape == (60, 2)
    assert points.dtype == np.float32
    assert silhouette(points, y) > 0.6
    np.testing.assert_array_equal(points, coordinates(x, QUICK))


def test_few_points_get_a_smaller_perplexity():
    assert np.isfinite(coordinates(np.eye(5), QUICK)).all()


@pytest.mark.parametrize(
    "wrong", [np.eye(3), np.full((9, 2), np.inf), np.arange(9), np.ones((30, 4))]
)
def test_what_cannot_be_placed_is_refused(wrong):
    with pytest.raises(ValueError, match=r"4 nodes or more that are not all equal \(got shape"):
        coordinates(wrong, QUICK)


def test_coordinates_are_computed_once_for_each_layout(tmp_path):
    x, _ = blobs(10)
    folder = tmp_path / "derived"
    assert coordinates_of(folder, "key", layout=QUICK) is None
    first = coordinates_of(folder, "key", x, QUICK)
    np.testing.assert_array_equal(coordinates_of(folder, "key", layout=QUICK), first)
    mark = np.zeros((20, 2), np.float32)
    np.savez(QUICK.file_of(folder, "key"), coordinates=mark)
    np.testing.assert_array_equal(coordinates_of(folder, "key", x, QUICK), mark)
    assert coordinates_of(folder, "key", layout=Layout(iterations=251)) is None
    assert coordinates_of(folder, "other", layout=QUICK) is None


def test_a_damaged_or_foreign_file_is_computed_again(tmp_path):
    x, _ = blobs(10)
    file = QUICK.file_of(tmp_path, "key")
    file.write_bytes(b"no zip")
    assert coordinates_of(tmp_path, "key", x, QUICK).shape == (20, 2)
    np.savez(file, coordinates=np.zeros((7, 2), np.float32))
    assert coordinates_of(tmp_path, "key", x, QUICK).shape == (20, 2)
    assert coordinates_of(tmp_path, "key", layout=QUICK).shape == (20, 2)
    assert [path.name for path in tmp_path.iterdir()] == [file.name], "nothing is left behind"


def test_silhouettes_are_computed_once_for_each_run_and_its_classes(tmp_path):
    x, y = blobs(10)
    first = silhouette_of(tmp_path, "key", y, x)
    assert first == silhouette(x, y)
    assert silhouette_of(tmp_path, "key", y) == first, "from the file"
    assert np.isnan(silhouette_of(tmp_path, "key", 1 - y)), "other classes, another score"
    assert np.isnan(silhouette_of(None, "key", y))
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"no zip")
    assert silhouette_of(tmp_path, "key", y, x) == first


def test_without_a_folder_nothing_is_cached():
    x, _ = blobs(10)
    assert coordinates_of(None, "key", x, QUICK).shape == (20, 2)


def test_the_silhouette_is_that_of_its_definition():
    x = np.array([[0.0], [1.0], [4.0], [6.0], [99.0]])
    y = np.array([0, 0, 1, 1, -1])
    inside, outside = np.array([1, 1, 2, 2]), np.array([5, 4, 3.5, 5.5])
    expected = ((outside - inside) / np.maximum(inside, outside)).mean()
    assert silhouette(x, y) == pytest.approx(expected)


def test_there_is_no_silhouette_of_one_class():
    assert np.isnan(silhouette(np.eye(4), np.zeros(4, int)))
    assert np.isnan(silhouette(np.eye(4), np.arange(4)))
