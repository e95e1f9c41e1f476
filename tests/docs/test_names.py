"""Code, files and tests named in the documentation exist, and the page about the paper covers all of its parts."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAME = re.compile(r"`(phsafe(?:\.\w+)+)(?:\(.*?\))?`")
FILE = re.compile(r"`((?:src|docs|tests|benchmarks|examples|requirements)/[\w./-]+?)(?:::(\w+))?`")


def resolve(name: str) -> object:
    """Resolve a dotted name to a module or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_names_exist(page):
    wrong = []
    for name in sorted(set(NAME.findall(page.read_text()))):
        try:
            resolve(name)
        except (ModuleNotFoundError, AttributeError):
            wrong.append(name)
    for file, test in set(FILE.findall(page.read_text())):
        path = ROOT / file
        if not path.exists() or (test and f"def {test}(" not in path.read_text()):
            wrong.append(f"{file}::{test}" if test else file)
    assert wrong == []


def test_wrong_names_are_detected():
    with pytest.raises(AttributeError):
        resolve("phsafe.model.tables.PH9")
    with pytest.raises(ModuleNotFoundError):
        resolve("phsafa.tables")


#: The numbered parts of the paper: algorithms, lemmas, theorems, definitions, table shells, and the table of targets.
PARTS = [
    *(f"Algorithm {i}" for i in range(1, 6)),
    *(f"Lemma {i}" for i in range(1, 7)),
    *(f"Theorem {i}" for i in range(1, 5)),
    *(f"Definition {i}" for i in range(1, 11)),
    *(f"Corollary {i}" for i in (1, 2)),
    *(f"Table shell PH{i}" for i in range(1, 9)),
    "Proposition 1",
    "Table 9",
    "Table 10",
]


def test_the_whole_paper_is_mapped():
    """Each part is in a row of the tables; a row may cover several ("Lemmas 1, 2")."""
    page = (ROOT / "docs" / "explanation" / "paper.md").read_text()
    mapped = set()
    for row in re.findall(r"^\| (.+?) \|", page, re.MULTILINE):
        for part, numbers in re.findall(r"\b([A-Z][a-z]+?(?: shell)?)s? ((?:PH)?\d+(?:(?:, | and |–)\d+)*)", row):
            found = [int(n) for n in re.findall(r"\d+", numbers)]
            found = range(found[0], found[-1] + 1) if "–" in numbers else found
            mapped |= {f"{part} {'PH' if numbers.startswith('PH') else ''}{n}" for n in found}
    assert [part for part in PARTS if part not in mapped] == []


def test_the_citation_matches_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert (citation["version"], citation["license"]) == (newest, project["project"]["license"])
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    # Without tags, the version is the one before the newest of the changelog.
    assert project["tool"]["hatch"]["version"]["fallback-version"] == f"{newest}.dev0"
