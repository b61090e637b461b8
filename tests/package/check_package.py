"""Builds sdist and wheel, checks what is in them, and tries the wheel without extras.

`make test-package` runs this; it needs a package index for pip. pytest does not collect it.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDED_BY_HATCH = {"PKG-INFO", ".gitignore", "pyproject.toml", "README.md", "LICENSE"}
TRY_COMMAND = "the meanmax command needs click, which is not installed"


def main(folder: Path) -> None:
    tools, library = (make_environment(folder / name) for name in ("tools", "library"))
    run(tools, "-m", "pip", "install", "-q", "build", "twine")
    run(tools, "-m", "build", "--outdir", folder / "dist", ROOT)
    run(tools, "-m", "twine", "check", "--strict", *(folder / "dist").iterdir())
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    check_wheel(wheel)
    check_sdist(sdist)
    run(library, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    run(library, "-c", first_code_block(ROOT / "README.md"), cwd=folder)
    print("the first code block of README.md runs without extras")
    check_command(library, folder)
    run(library, "-m", "pip", "check")


def make_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def run(python: Path, *arguments: object, cwd: Path | None = None) -> None:
    subprocess.run([str(python), *map(str, arguments)], check=True, cwd=cwd)


def tracked(*paths: str) -> set[str]:
    """Files of the working tree that git knows, without those that were deleted."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


def check_wheel(path: Path) -> None:
    """The package, all of it, and nothing else."""
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    found = {name for name in names if ".dist-info/" not in name}
    same("wheel", found, {name.removeprefix("src/") for name in tracked("src/meanmax")})


def check_sdist(path: Path) -> None:
    """What pyproject.toml lists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    with tarfile.open(path) as archive:
        found = {member.name.partition("/")[2] for member in archive if member.isfile()}
    wanted = tracked(*(name.lstrip("/") for name in listed)) | ADDED_BY_HATCH
    same("sdist", found, wanted)


def same(what: str, found: set[str], wanted: set[str]) -> None:
    if found != wanted:
        sys.exit(f"{what}: missing {sorted(wanted - found)}, too many {sorted(found - wanted)}")
    print(f"{what}: {len(found)} files, as they should be")


def first_code_block(path: Path) -> str:
    block = re.search(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None, f"{path} has no block of Python"
    return block[1]


def check_command(python: Path, folder: Path) -> None:
    """Without the extra, the command says in one sentence how to get it."""
    command = [python.with_name("meanmax"), "--help"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 1 or len(lines) != 1 or TRY_COMMAND not in lines[0]:
        sys.exit(f"meanmax --help without extras ended with {done.returncode}: {done.stderr}")
    print(lines[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meanmax-package-") as made:
        main(Path(made))
