"""The promises of the project: what proves each, which tests try to break it, and what it does not cover.

promises.toml declares them. The names of the tests come from the tests and from the claims in docs/privacy.md
when the page is built: a test that is renamed changes the page, and a promise that is left without one stops the build.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CLAIM = re.compile(r"^### (C\d+(?:\.\d+)?)\. (.*)$", re.MULTILINE)


class Promise(NamedTuple):
    """A promise: the claims and pages that prove it, patterns of `file::test`, and what it leaves open."""

    title: str
    claims: tuple[str, ...]
    proof: str
    tests: tuple[str, ...]
    open: str


PROMISES = tuple(
    Promise(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
    for entry in tomllib.loads(Path(__file__).with_name("promises.toml").read_text(encoding="utf-8"))["promise"]
)


@cache
def names() -> list[str]:
    """Every test as `file::function`, from the source of the tests."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.append(f"{path.relative_to(ROOT).as_posix()}::{node.name}")
    return found


@cache
def claims() -> dict[str, tuple[str, frozenset[str]]]:
    """The claims of docs/privacy.md: label → title, and the tests that it lists."""
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    marks = [*CLAIM.finditer(text)]
    found = {}
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        section = text[mark.end() : after.start() if after else None]
        listed = re.findall(r"^Tested by: (.*)$", section, re.MULTILINE)
        found[mark[1]] = mark[2], frozenset(re.findall(r"`(tests/[^`]+)`", " ".join(listed)))
    return found


def tests_of(promise: Promise) -> list[str]:
    """The tests of its claims, and those that its patterns match; a pattern that matches none is an error."""
    known, every = claims(), names()
    found = {test for label in promise.claims for test in known[label][1]}
    for pattern in promise.tests:
        matched = [name for name in every if fnmatchcase(name, pattern)]
        if not matched:
            raise ValueError(f"{promise.title}: expected tests like {pattern}, found none")
        found.update(matched)
    return sorted(found)


def sentence(test: str) -> str:
    """A test's name as words."""
    return test.partition("::test_")[2].replace("_", " ")


def trust() -> Iterator[str]:
    """The page: an overview, then each promise with its tests."""
    known = claims()
    yield "| promise | proof | tests | not covered |"
    yield "|---|---|---|---|"
    for promise in PROMISES:
        link = f"[{promise.title}](#{anchor(promise.title)})"
        yield f"| {link} | {proof(promise)} | {len(tests_of(promise))} | {promise.open} |"
    for promise in PROMISES:
        yield f"\n## {promise.title}\n"
        yield f"**Proof.** {promise.proof}."
        if promise.claims:
            yield "\n" + "\n".join(f"- {label}: {known[label][0].rstrip('.')}" for label in promise.claims) + "\n"
        yield f"\n**Not covered.** {promise.open}.\n"
        tests = tests_of(promise)
        yield f"**{len(tests)} tests.** Their names say what each tries:\n"
        by_file: dict[str, list[str]] = {}
        for test in tests:
            by_file.setdefault(test.partition("::")[0], []).append(sentence(test))
        yield from (f"- `{file}`: {'; '.join(own)}" for file, own in by_file.items())


def proof(promise: Promise) -> str:
    """The claims of a promise with a link, or its proof as text."""
    return f"[{', '.join(promise.claims)}](../privacy.md)" if promise.claims else promise.proof


def anchor(title: str) -> str:
    """The anchor of a heading, as the site makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
