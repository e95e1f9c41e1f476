"""The notebooks run without errors, and are stored with the outputs of a complete run."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
IDS = [path.stem for path in NOTEBOOKS]
# ipykernel and its transport emit deprecation warnings of their own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def execute():
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.execute


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def problems(notebook) -> list[str]:
    """List cells that ran out of order, failed or warned, and images without alternative text."""
    found = []
    for number, cell in enumerate(code(notebook), start=1):
        images = [o for o in cell.outputs if "image/svg+xml" in o.get("data", {})]
        if cell.execution_count != number:
            found.append(f"cell {number} was not run in order")
        if any(o.output_type == "error" or o.get("name") == "stderr" for o in cell.outputs):
            found.append(f"cell {number} wrote to standard error")
        if images and not cell.metadata.get("mystnb", {}).get("image", {}).get("alt"):
            found.append(f"cell {number} has an image without alternative text")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_stored_outputs_are_from_a_complete_run(path):
    assert problems(nbformat.read(path, as_version=4)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_notebooks_run(path, execute, tmp_path):
    stored = nbformat.read(path, as_version=4)
    ran = execute(path, tmp_path)
    assert problems(ran) == []
    output_types = [[o.output_type for o in cell.outputs] for cell in code(stored)]
    assert output_types == [[o.output_type for o in cell.outputs] for cell in code(ran)]


def test_there_are_four_notebooks():
    assert len(NOTEBOOKS) == 4
