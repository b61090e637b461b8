"""The API reference: complete, and with docstrings in PyTorch Geometric's manner.

There ``:obj:`` marks a piece of code, seldom a name that could be linked. Other roles link what
the site documents, under any name it can be imported by. A public name that the reference lacks,
or that has no docstring, is a warning.
"""

from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.logging import getLogger

PACKAGES = ("", ".aggr", ".data", ".functional", ".graph", ".nn", ".scale", ".train")
OTHERS = ("builtins", "torch_geometric.nn", "sklearn.base.BaseEstimator")  # named without a prefix
logger = getLogger(__name__)

# The docstring of a property is a sentence: what stands before its colon is not a type.
GoogleDocstring._consume_inline_attribute = lambda self: ("", self._dedent(self._consume_to_end()))


def code(name: str, rawtext: str, text: str, *_: Any) -> tuple[list[nodes.Node], list[nodes.Node]]:
    return [nodes.literal(rawtext, text)], []


def own_name(name: str) -> str | None:
    """The name under which an object was defined, or None where there is no such object."""
    parts = name.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            value: Any = import_module(".".join(parts[:size]))
            for part in parts[size:]:
                value = getattr(value, part)
        except (ImportError, AttributeError):
            continue
        if getattr(value, "__qualname__", None) and getattr(value, "__module__", None):
            return f"{value.__module__}.{value.__qualname__}"
        return name
    return None


def documented(env: BuildEnvironment) -> dict[str, str]:
    """The names of what the site documents, by the names under which they were defined."""
    objects = env.domains.python_domain.objects
    return {own_name(name) or name: name for name, entry in objects.items() if not entry.aliased}


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """A link to what the site documents, and plain text for other names that exist."""
    if node.get("refdomain") != "py":
        return None
    if not hasattr(app, "documented"):
        app.documented = documented(env)
    target = node["reftarget"]
    places = (node.get("py:module"), f"{node.get('py:module')}.{node.get('py:class')}", *OTHERS)
    found = [own_name(name) for name in (target, *(f"{place}.{target}" for place in places))]
    names = [app.documented[name] for name in found if name in app.documented][:1]
    if not names and (node["reftype"] == "mod" or any(found)):
        return content
    names = names or [name for name in app.documented.values() if name.endswith(f".{target}")]
    if len(names) != 1:
        return None
    entry = env.domains.python_domain.objects[names[0]]
    page = app.builder.get_relative_uri(node["refdoc"], entry.docname)
    return nodes.reference("", "", content, internal=True, refuri=f"{page}#{entry.node_id}")


def check_public_names(app: Sphinx, env: BuildEnvironment) -> None:
    known = documented(env)
    packages = {f"meanmax{package}" for package in PACKAGES}
    for package in sorted(packages):
        module = import_module(package)
        for name in module.__all__:
            full, value = f"{package}.{name}", getattr(module, name)
            if full not in packages and own_name(full) not in known:
                logger.warning("%s is public, but not in the API reference", full)
            if not getattr(value, "__doc__", None):
                logger.warning("%s has no docstring", full)


def skip_others(
    app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """Leaves out what scikit-learn and PyTorch add to our classes."""
    return (getattr(value, "__module__", None) or "").startswith(("sklearn.", "torch.")) or None


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role_to_domain("py", "obj", code, override=True)
    app.connect("autodoc-skip-member", skip_others)
    app.connect("env-check-consistency", check_public_names)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
