import os
import pickle
import pickletools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from meanmax.data.benchmarks.citation import _INSTRUCTIONS, _NAMES, unpickle
from meanmax.data.files import DataError

from ..mutate import only_clear_errors
from ..real import needs_planetoid, planetoid_contents
from . import python2


def test_arrays():
    for values in (np.array([[1, -2], [3, 4]], np.int32), np.array([0.5, 2.5], np.float32)):
        read = unpickle(python2.pickle(python2.array(values)), "a file")
        assert read.dtype == values.dtype
        np.testing.assert_array_equal(read, values)


def test_big_endian_array():
    body = python2.array(np.array([258], np.int32)).replace(
        b"\x01\x00\x00\x00<", b"\x01\x00\x00\x00>"
    )
    assert unpickle(python2.pickle(body), "a file").tolist() == [0x02010000]


def test_sparse_matrix():
    dense = np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3]], np.float64)
    read = unpickle(python2.pickle(python2.csr(scipy.sparse.csr_array(dense))), "a file")
    np.testing.assert_array_equal(read.toarray(), dense)


def test_dictionary_of_lists():
    lists = {0: [2, 1], 5: [], 300: [70000]}
    assert unpickle(python2.pickle(python2.graph(lists)), "a file") == lists


@needs_planetoid
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
@pytest.mark.filterwarnings("ignore:Please import `csr_matrix`:DeprecationWarning")
def test_reads_what_python_reads(name):
    for file, content in planetoid_contents(name).items():
        if file.endswith("test.index"):
            continue
        want, got = pickle.loads(content, encoding="latin1"), unpickle(content, file)
        if scipy.sparse.issparse(want):
            assert want.shape == got.shape
            assert abs(scipy.sparse.csr_array(want) - got).nnz == 0
        elif isinstance(want, np.ndarray):
            np.testing.assert_array_equal(got, want)
        else:
            assert got == dict(want)


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def attacks(path):
    command = f"touch {path}".encode()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.dumps(Attack(path), protocol)
        yield pickle.dumps([{1: Attack(path)}], protocol)
    line = f"(S'touch {path}'\n"
    yield f"cos\nsystem\n{line}tR.".encode()
    yield f"{line}ios\nsystem\n.".encode()
    yield f"(cos\nsystem\nS'touch {path}'\no.".encode()
    yield b"\x80\x02cposix\nsystem\n" + python2.text(command) + b"\x85R."
    yield b"\x80\x02c__builtin__\neval\n" + python2.text(b"__import__('os')." + command) + b"\x85R."


def test_a_pickle_that_would_run_a_command_runs_nothing(tmp_path):
    victim = tmp_path / "was-here"
    for program in attacks(victim):
        with pytest.raises(DataError, match="nothing of it was run"):
            unpickle(program, "ind.cora.x")
        assert not victim.exists()


def test_the_attack_is_a_real_one(tmp_path):
    victim = tmp_path / "was-here"
    pickle.loads(pickle.dumps(Attack(victim), 2))
    assert victim.exists()


@pytest.mark.parametrize(
    "name", ["numpy\nload", "numpy.core.multiarray\nscalar", "builtins\nlist", "scipy.io\nloadmat"]
)
def test_only_the_names_of_planetoid_are_admitted(name):
    with pytest.raises(DataError, match=r"'a file' names .* no Planetoid file"):
        unpickle(b"\x80\x02c" + name.encode() + b"\n.", "a file")


def test_an_admitted_name_is_no_function_to_call():
    with pytest.raises(DataError, match="not a type"):
        unpickle(b"\x80\x02c__builtin__\nlist\n)R.", "a file")


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("state", [b"}(U\x05valueK\x01u", b"N}(U\x05valueK\x01u\x86"])
def test_a_program_cannot_change_what_a_name_stands_for(name, state):
    program = b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n" + state + b"b."
    before = dict(vars(_NAMES[name]))
    with pytest.raises(DataError, match="a file"):
        unpickle(program, "a file")
    assert dict(vars(_NAMES[name])) == before


def test_objects_do_not_hide_in_an_array():
    body = python2.array(np.array([1, 2], np.int64)).replace(b"i8", b"O8")
    with pytest.raises(DataError, match="numbers"):
        unpickle(python2.pickle(body), "a file")


def test_a_huge_memo_index_takes_no_memory():
    with pytest.raises(DataError, match="4,294,967,295 objects"):
        unpickle(b"\x80\x02Nr\xff\xff\xff\xff.", "a file")


SAMPLES = [
    python2.pickle(python2.array(np.arange(6, dtype=np.int32).reshape(2, 3))),
    python2.pickle(python2.csr(scipy.sparse.csr_array(np.eye(3, dtype=np.float32)))),
    python2.pickle(python2.graph({0: [1, 2], 1: [0], 2: [0]})),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=["array", "csr", "graph"])
def test_damaged_pickles(sample):
    assert only_clear_errors(lambda content: unpickle(content, "a file"), sample, 3000) > 1000


CODES = [op.code.encode("latin-1") for op in pickletools.opcodes if op.name in _INSTRUCTIONS]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(CODES),
            st.sampled_from([python2.number(1), python2.text(b"ab"), b"cnumpy\ndtype\n", b"K\x02"]),
            st.binary(max_size=4),
        ),
        max_size=30,
    )
)
def test_random_programs(steps):
    try:
        unpickle(b"\x80\x02" + b"".join(steps) + b".", "a file")
    except DataError:
        pass
