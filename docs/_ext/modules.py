"""The list of all modules, `docs/modules.md`, written from their docstrings: `python docs/_ext/modules.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "phsafe"
PAGE = ROOT / "docs" / "modules.md"
INTRODUCTION = (
    "Every module with the first paragraph of its docstring, to search for a word. The [map](map.md) answers common "
    "questions and shows how the packages fit together."
)


def listing() -> str:
    """Return the page: one section per package, one row per module with the first paragraph of its docstring."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# All modules"
    yield ""
    yield INTRODUCTION
    for folder in (PACKAGE, *sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))):
        modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        yield from ("", f"## `src/{folder.relative_to(PACKAGE.parent)}/`", "", _summary(folder / "__init__.py"), "")
        if modules:
            yield from ("| module | what it does |", "|---|---|")
        yield from (f"| `{path.name}` | {_summary(path).replace('|', chr(92) + '|')} |" for path in modules)


def _summary(path: Path) -> str:
    found = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(found.split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(listing(), encoding="utf-8")
