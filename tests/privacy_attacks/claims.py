"""Read the claims in docs/privacy.md and the docstrings that cite them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
LABEL = re.compile(r"\bC\d+(?:\.\d+)?\b")


class Claim(NamedTuple):
    label: str
    code: frozenset[str]
    tests: frozenset[str]


def documented() -> dict[str, Claim]:
    """The claims by label, with the code and the tests they list."""
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (C\d+(?:\.\d+)?)\. ", text, flags=re.MULTILINE)[1:]
    claims = {}
    for label, body in zip(parts[::2], parts[1::2], strict=True):
        assert label not in claims, f"{label} is documented twice"
        section = re.split(r"^##+ ", body, flags=re.MULTILINE)[0]
        claims[label] = Claim(label, _listed(section, "Relied on by"), _listed(section, "Tested by"))
    return claims


def _listed(section: str, title: str) -> frozenset[str]:
    lines = [line for line in section.splitlines() if line.startswith(f"{title}:")]
    return frozenset(name for line in lines for name in re.findall(r"`([^`]+)`", line))


def cited() -> dict[str, set[str]]:
    """The dotted name of a module, class or function → the claims its docstring cites."""
    found: dict[str, set[str]] = {}
    for path in sorted((SOURCE / "phsafe").rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for name, text in _docstrings(ast.parse(path.read_text(encoding="utf-8")), module):
            if re.search(r"\bclaims?\b", text, re.IGNORECASE) and LABEL.search(text):
                found[name] = set(LABEL.findall(text))
    return found


def _docstrings(node: ast.AST, name: str):
    text = ast.get_docstring(node) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None
    if text:
        yield name, text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _docstrings(child, f"{name}.{child.name}")


def is_test(reference: str) -> bool:
    """Whether the test `file::function` exists."""
    path, _, function = reference.partition("::")
    file = ROOT / path
    return file.is_file() and f"\ndef {function}(" in file.read_text(encoding="utf-8")


def imports(start: str) -> set[str]:
    """The modules of phsafe that a package imports, directly or indirectly, including lazy imports."""
    seen: set[str] = set()
    todo = [start, *(f"{start}.{p.stem}" for p in (SOURCE / Path(*start.split("."))).glob("*.py"))]
    while todo:
        module = todo.pop()
        path = next((p for p in _files(module) if p.is_file()), None)
        if module in seen or path is None:
            continue
        seen.add(module)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                todo += [a.name for a in node.names if a.name.startswith("phsafe.")]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("phsafe"):
                todo += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        todo = [name for name in todo if name != "phsafe"]
    return seen


def _files(module: str) -> list[Path]:
    base = SOURCE / Path(*module.split("."))
    return [base.with_suffix(".py"), base / "__init__.py"]
