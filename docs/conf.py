"""Settings of the site, which ``make docs`` builds without a network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.highlighting import lexers  # noqa: E402

import meanmax  # noqa: E402 - of this tree, whatever is installed

lexers["csv"] = TextLexer()

project = "meanmax"
copyright = "meanmax contributors"
version = release = meanmax.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "api_reference",
    "math_as_svg",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = True
# The pages of earlier releases and other projects are on the network, which a build does not use.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|torch_geometric|numpy|scipy|sklearn|networkx)\..*"),
    (
        "py:class",
        r"Tensor|optional|Scaling|ndarray|optional|callable|sequence|array-like",
    ),  # types in "Attributes:"
]

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # make test-docs executes the notebooks; their outputs are committed
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Docstrings
autodoc_typehints = "none"  # the arguments are described with their types
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_param = False  # types are text: "Tensor, optional" is no name to link
napoleon_use_rtype = False
napoleon_custom_sections = [("Shapes", "notes_style")]
maximum_signature_line_length = 88
python_trailing_comma_in_multi_line_signatures = False
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Looks
html_theme = "furo"
html_title = f"meanmax {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_math_renderer = "svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6f8b", "color-brand-content": "#1f6f8b"},
    "dark_css_variables": {"color-brand-primary": "#6cc3dd", "color-brand-content": "#6cc3dd"},
}
pygments_style = "default"
pygments_dark_style = "monokai"
