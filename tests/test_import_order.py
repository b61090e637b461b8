"""Each part of meanmax imports only from the parts to its left, and the library never the study.

The library is what a user imports; the study and the command are built on top of it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .without_extras import LIBRARY

ORDER = (*LIBRARY, "study", "cli", "__main__")
PACKAGE = Path(__file__).parents[1] / "src" / "meanmax"


def test_parts_import_only_from_their_left():
    assert list(PACKAGE.rglob("*.py")), f"no modules under {PACKAGE}"
    found = offenders(PACKAGE)
    assert not found, "imports against the order " + " → ".join(ORDER) + ":\n" + "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import meanmax.nn.gcn",
        "import os, meanmax.nn as nn",
        "from meanmax.nn import GCNConv",
        "from meanmax import nn",
        "from ..nn.gcn import GCNConv",
        "from .. import nn",
        "def f():\n    from meanmax.nn import GCNConv",
        "import typing\nif typing.TYPE_CHECKING:\n    from meanmax.nn import GCNConv",
        "import importlib\nimportlib.import_module('meanmax.nn.gcn')",
        "import importlib as il\nil.import_module(name='meanmax.nn')",
        "from importlib import import_module\nimport_module('..nn', 'meanmax.functional')",
        "from importlib import import_module\nimport_module('..nn', package=__package__)",
        "__import__('meanmax.nn')",
    ],
)
def test_an_import_from_the_right_is_found(tmp_path, source):
    package = fake_package(tmp_path, {"functional/lp.py": f"x = 1\n{source}\n"})
    (found,) = offenders(package)
    assert found.startswith(f"meanmax/functional/lp.py:{2 + source.count(chr(10))}: ")
    assert found.endswith("'functional' may not import from 'nn', which stands to its right")


@pytest.mark.parametrize("part", LIBRARY)
@pytest.mark.parametrize("other", ["study", "cli"])
def test_an_import_across_the_wall_is_found(tmp_path, part, other):
    source = f"def f():\n    from meanmax.{other}.runs import row\n"
    (found,) = offenders(fake_package(tmp_path, {f"{part}/file.py": source}))
    assert found == (
        f"meanmax/{part}/file.py:2: {part!r} may not import from {other!r}: the library never "
        f"imports the study or the command"
    )


def test_imports_from_the_left_and_from_elsewhere_pass(tmp_path):
    source = (
        "import importlib\nimport nn\nfrom meanmax import graph\nfrom . import sums\n"
        "from .sums import total\nfrom ..ops.form import Form\nimport torch_geometric.data\n"
        "import meanmax.ops\nimportlib.import_module('scipy.sparse')\n"
    )
    package = fake_package(
        tmp_path,
        {
            "functional/__init__.py": "from .lp import lp\nfrom . import sums\n",
            "functional/lp.py": source,
            "nn.py": "from .functional import lp\nfrom meanmax.functional.lp import lp\n",
        },
    )
    assert offenders(package) == []


def test_the_root_is_to_the_right_of_every_part(tmp_path):
    files = {
        "ops/form.py": "from meanmax import Graph\n",
        "cli/__init__.py": "import meanmax\n",
        "study.py": "from . import *\n",
    }
    found = offenders(fake_package(tmp_path, files))
    assert [line.split(": ")[0] for line in found] == [
        "meanmax/cli/__init__.py:1",
        "meanmax/ops/form.py:1",
        "meanmax/study.py:1",
    ]
    assert all("meanmax/__init__.py, which may import everything" in line for line in found)


def test_a_part_without_a_place_in_the_order_is_found(tmp_path):
    (found,) = offenders(fake_package(tmp_path, {"utils.py": "import math\n"}))
    assert found == "meanmax/utils.py: 'utils' has no place in the order; add it to ORDER in " + (
        "tests/test_import_order.py"
    )


def test_importing_a_part_without_a_place_in_the_order_is_found(tmp_path):
    (found,) = offenders(fake_package(tmp_path, {"cli.py": "import meanmax.plots\n"}))
    assert found == "meanmax/cli.py:1: 'cli' may not import from 'plots', which is not in the order"


def fake_package(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "meanmax"
    for name, source in {"__init__.py": "from meanmax.cli import main\n", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return package


def offenders(package: Path) -> list[str]:
    """One line for each import against the order and for each part that has no place in it."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        part = inside.parts[0].removesuffix(".py")
        where = f"{package.name}/{inside.as_posix()}"
        if part == "__init__":
            continue
        if part not in ORDER:
            found.append(
                f"{where}: {part!r} has no place in the order; add it to ORDER in "
                f"tests/test_import_order.py"
            )
            continue
        own_package = ".".join((package.name, *inside.parts[:-1]))
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for line, module in imported_modules(tree, own_package):
            reason = objection(part, module.split("."), package.name)
            if reason:
                found.append(f"{where}:{line}: {part!r} may not import from {reason}")
    return found


def objection(part: str, module: list[str], root: str) -> str | None:
    """Why :obj:`part` may not import :obj:`module`, or None if it may."""
    if module[0] != root:
        return None
    if len(module) == 1:
        return f"{root}/__init__.py, which may import everything; name the part instead"
    target = module[1]
    if target not in ORDER:
        return f"{target!r}, which is not in the order"
    if part in LIBRARY and target not in LIBRARY:
        return f"{target!r}: the library never imports the study or the command"
    if ORDER.index(target) > ORDER.index(part):
        return f"{target!r}, which stands to its right"
    return None


def imported_modules(tree: ast.AST, own_package: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every imported module, wherever in the file it is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = absolute("." * node.level + (node.module or ""), own_package)
            if "." in module:
                yield node.lineno, module
            else:  # `from meanmax import nn` names the part after the import
                for alias in node.names:
                    is_part = alias.name in ORDER
                    yield node.lineno, f"{module}.{alias.name}" if is_part else module
        elif isinstance(node, ast.Call):
            module = dynamic_import(node, own_package)
            if module is not None:
                yield node.lineno, module


def dynamic_import(call: ast.Call, own_package: str) -> str | None:
    """The module that a call of import_module or __import__ with a literal name imports."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name not in ("import_module", "__import__"):
        return None
    arguments = dict(zip(("name", "package"), call.args, strict=False))
    arguments.update((keyword.arg, keyword.value) for keyword in call.keywords)
    module = arguments.get("name")
    if not isinstance(module, ast.Constant) or not isinstance(module.value, str):
        return None
    package = arguments.get("package") if name == "import_module" else None
    literal = isinstance(package, ast.Constant) and isinstance(package.value, str)
    return absolute(module.value, package.value if literal else own_package)


def absolute(module: str, package: str) -> str:
    """:obj:`module` with its leading dots resolved from :obj:`package`."""
    name = module.lstrip(".")
    level = len(module) - len(name)
    if level == 0:
        return module
    base = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*base, name] if name else base)
