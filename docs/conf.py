"""The documentation site: `python3 dev.py docs` builds it into site/, strictly and without the network."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "PHSafe"
author = "The PHSafe authors"
version = release = installed("phsafe")
html_title = f"PHSafe {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "generated",
    "diagrams",
    "accessible",
]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["deflist", "fieldlist", "attrs_inline", "attrs_block", "html_image"]
myst_heading_anchors = 4
# Notebooks are stored with their outputs; a test runs them anew (tests/docs/test_notebooks.py).
nb_execution_mode = "off"
nb_merge_streams = True

# `single` backticks in docstrings are code, as in Markdown.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Docstrings are in Google style; attributes are listed in the class, not as entries of their own.
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
# Copy what is typed: no prompts, no output.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
