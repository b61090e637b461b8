"""Compiled code on disk: found again, never stale, never trusted when damaged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meanmax import kernel_cache

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import doubled
print(doubled.twice(4), len(doubled.twice.stats.cache_misses))
"""
SOURCE = """
from meanmax.kernel_cache import compiled

@compiled
def twice(x):
    return {factor} * x
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "doubled.py").write_text(SOURCE.format(factor=2))
    return tmp_path


def run(folder, **environment):
    """What a process prints that calls a compiled function: its result, and compilations."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", SCRIPT.format(folder=str(folder / "code"))],
        env=os.environ | {"MEANMAX_KERNEL_CACHE": str(folder / "cache")} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


def stored(folder):
    return sorted((folder / "cache").glob(f"doubled.twice-*{kernel_cache.SUFFIX}"))


def test_second_process_does_not_compile(folder):
    assert run(folder) == (8, 1)
    assert run(folder) == (8, 0)
    assert len(stored(folder)) == 1


def test_what_is_found_again_does_not_load_the_compiler(folder):
    """Half a second in every process, each worker of a DataLoader among them."""
    run(folder)
    probe = "\nassert 'numba.np.arraymath' not in sys.modules"
    script = SCRIPT.format(folder=str(folder / "code")) + probe
    environment = os.environ | {"MEANMAX_KERNEL_CACHE": str(folder / "cache")}
    subprocess.run([sys.executable, "-B", "-c", script], env=environment, check=True)


def test_changed_source_is_compiled_again(folder):
    run(folder)
    (folder / "code" / "doubled.py").write_text(SOURCE.format(factor=3))
    assert run(folder) == (12, 1)
    assert len(stored(folder)) == 2


def test_digest_covers_what_kernels_call(tmp_path, monkeypatch):
    """A helper in another file than the kernel's counts as well."""
    (tmp_path / "ops" / "numba").mkdir(parents=True)
    helper, kernel = tmp_path / "ops" / "numba" / "helper.py", tmp_path / "kernel.py"
    kernel.write_text("")
    (tmp_path / "kernel_cache.py").write_text("")
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "kernel_cache.py"))
    digests = set()
    for content in ("ONE = 1", "ONE = 2"):
        helper.write_text(content)
        kernel_cache.source_digest.cache_clear()
        digests.add(kernel_cache.source_digest(kernel))
    kernel_cache.source_digest.cache_clear()
    assert len(digests) == 2


@pytest.mark.parametrize(
    "damage", [lambda data: data[:100], lambda data: b"", lambda data: data[:-1] + b"?"]
)
def test_damaged_file_is_replaced(folder, damage):
    run(folder)
    (path,) = stored(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert run(folder) == (8, 1)
    assert run(folder) == (8, 0)


def test_without_sources_nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "archive.zip" / "kernel_cache.py"))
    monkeypatch.setattr(kernel_cache, "folders", lambda: iter([tmp_path / "cache"]))
    kernel_cache.source_digest.cache_clear()
    assert kernel_cache.compiled(times_three)(4) == 12
    kernel_cache.source_digest.cache_clear()
    assert not (tmp_path / "cache").exists()


def test_an_edit_after_the_import_does_not_reach_the_key(folder):
    """What is compiled is the code that was imported, so its key must be that code's."""
    script = SCRIPT.format(folder=str(folder / "code")).replace(
        "print(", f"open(doubled.__file__, 'w').write({SOURCE.format(factor=5)!r})\nprint("
    )
    environment = os.environ | {"MEANMAX_KERNEL_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["8", "1"], done.stderr
    assert run(folder) == (20, 1)


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_without_a_stderr(monkeypatch, tmp_path, stderr):
    file = None
    if stderr == "closed":
        file = (tmp_path / "stderr").open("w")
        file.close()
    monkeypatch.setattr(sys, "stderr", file)
    kernel_cache.announce.cache_clear()
    kernel_cache.announce()


def times_three(x):
    return 3 * x


def test_without_a_writable_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(kernel_cache, "folders", lambda: iter([tmp_path / "file" / "folder"]))
    assert kernel_cache.compiled(times_three)(4) == 12


def test_read_only_folder_is_read_and_the_next_one_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    places = [tmp_path / "file" / "folder", tmp_path / "second"]
    monkeypatch.setattr(kernel_cache, "folders", lambda: iter(places))
    for misses in (1, 0):
        function = kernel_cache.compiled(times_three)
        assert function(4) == 12 and len(function.stats.cache_misses) == misses


def test_no_temporary_file_is_left(folder):
    run(folder)
    assert [path.suffix for path in (folder / "cache").iterdir()] == [kernel_cache.SUFFIX]


@pytest.mark.parametrize("terminal", [True, False])
def test_says_in_a_terminal_that_it_compiles(monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    kernel_cache.announce.cache_clear()
    for _ in range(2):
        kernel_cache.announce()
    told = capsys.readouterr().err
    assert told == ("meanmax: compiling kernels, once per machine ...\n" if terminal else "")


def test_folders_end_with_the_users_own(monkeypatch):
    monkeypatch.delenv("MEANMAX_KERNEL_CACHE", raising=False)
    beside, own = kernel_cache.folders()
    assert beside == Path(kernel_cache.__file__).parent / "__pycache__"
    assert own.parent.name == "meanmax"


def test_the_variable_names_the_only_folder(folder, monkeypatch):
    monkeypatch.setenv("MEANMAX_KERNEL_CACHE", str(folder / "cache"))
    assert list(kernel_cache.folders()) == [folder / "cache"]
    assert run(folder) == (8, 1)
    assert run(folder, MEANMAX_KERNEL_CACHE=str(folder / "other")) == (8, 1)
    assert run(folder) == (8, 0)
