"""The layout of the package: unique names, and a map that shows every package."""

import ast
import importlib.util
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "phsafe"
MODULES = [path for path in PACKAGE.rglob("*.py") if path.stem not in ("__init__", "__main__")]
#: The command line may use the names of what it calls.
OWN = [path for path in MODULES if PACKAGE / "cli" not in path.parents]


def repeated(names):
    return sorted(name for name, number in Counter(names).items() if number > 1)


def test_module_names_are_unique():
    packages = [path.parent.name for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    assert repeated([*(path.stem for path in OWN), *packages]) == []


def test_public_class_names_are_unique():
    classes = [node.name for path in OWN for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    assert len(classes) > 100
    assert repeated(name for name in classes if not name.startswith("_")) == []


def test_no_package_hides_a_public_call():
    import phsafe

    assert not {path.name for path in PACKAGE.iterdir()} & set(phsafe.__all__)


def test_only_errors_is_outside_of_a_package():
    assert [path.name for path in MODULES if path.parent == PACKAGE] == ["errors.py"]


def test_the_map_shows_every_package():
    page = (ROOT / "docs" / "map.md").read_text()
    picture = (ROOT / "docs" / "images" / "diagrams" / "packages.svg").read_text()
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(packages) > 10
    assert {name for name in packages if f"| `{name}` |" not in page} == set()
    assert {name for name in packages if name not in picture} == set()


def test_the_map_answers_each_question_once_and_names_files_that_exist():
    page = (ROOT / "docs" / "map.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 80
    assert repeated(row for row in rows if row not in ("| question", "| package", "| to add …")) == []
    made = {".venv", "phsafe-demo"}
    known = {path.name for path in ROOT.rglob("*") if not made.intersection(path.relative_to(ROOT).parts)}
    named = set(re.findall(r"`([\w-]+\.(?:py|js|css|csv|json|md))`", page))
    assert len(named) > 20
    assert named - known == {"diagnostics.json"}, "the only one that an estimate writes"


def test_tests_mirror_the_packages():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    # Attacks are the tests of the audit; the display package is seen in reports and notebooks.
    assert packages - {path.name for path in (ROOT / "tests").iterdir()} == {"privacy_audit", "display"}


def test_the_list_of_modules_is_up_to_date():
    spec = importlib.util.spec_from_file_location("modules", ROOT / "docs" / "_ext" / "modules.py")
    modules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(modules)
    assert modules.PAGE.read_text() == modules.listing(), "run `python docs/_ext/modules.py`"
