"""All code blocks of the README and the documentation run, in order, in a copy of the repository for each page."""

import sys
from hashlib import sha256
from pathlib import Path

import blocks
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder like a clone with a .venv: links to the repository and to this environment's programs."""
    for name in (
        "README.md",
        "benchmarks",
        "docs",
        "examples",
        "noxfile.py",
        "pyproject.toml",
        "requirements",
        "src",
        "tests",
    ):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "dev.py").write_bytes((ROOT / "dev.py").read_bytes())
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    pins, project = (ROOT / "requirements/run.lock").read_bytes(), (ROOT / "pyproject.toml").read_bytes()
    (tmp_path / ".venv" / "phsafe-installed").write_text(sha256(pins + project).hexdigest())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_block_has_a_known_language(page):
    for block in blocks.blocks(page.read_text()):
        location = f"{page.name}, line {block.line}"
        assert block.language in blocks.RUNNERS or blocks.SHOWN.fullmatch(block.language), (
            f"{location}: expected one of {', '.join(blocks.RUNNERS)} or text, got {block.language!r}"
        )
        hidden = block.language == "text" and any(line.startswith("$ ") for line in block.body.splitlines())
        assert not hidden, f"{location}: a command in a text block is not run; make it console"
    # A fence that the pattern misses would never be checked.
    assert page.read_text().count("```") == 2 * len(list(blocks.blocks(page.read_text()))), page.name


RUN = [page for page in PAGES if any(block.runs for block in blocks.blocks(page.read_text()))]


@pytest.mark.parametrize("page", RUN, ids=[str(page.relative_to(ROOT)) for page in RUN])
def test_blocks_run(page, clone):
    names = {"__name__": page.stem}
    for block in blocks.blocks(page.read_text()):
        if block.runs:
            try:
                blocks.run(block, clone, names)
            except Exception as error:
                raise AssertionError(f"{page.name}, line {block.line}: {error}") from error


def test_failing_blocks_are_detected(tmp_path):
    page = "\n```python\nx = 1\n```\n\n```console\n$ echo 2 and 3\n2 … 3\n$ false\n```\n"
    one, two = blocks.blocks(page)
    blocks.run(one, tmp_path, {})
    with pytest.raises(AssertionError, match="exit code 1"):
        blocks.run(two, tmp_path, {})
    with pytest.raises(AssertionError, match="no line '4'"):
        blocks.run(two._replace(body="$ echo 3\n4\n"), tmp_path, {})
    blocks.run(two._replace(body="$ exit 3  # exit code 3\n"), tmp_path, {})
    assert not two._replace(body="# Not run in tests: needs a cluster\n$ false\n").runs
    assert two._replace(body="# Not run in tests: no\n$ false\n").runs, "a marker needs a reason"
    assert list(tmp_path.iterdir()) == []
