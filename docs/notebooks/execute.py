"""Run the notebooks in this folder and store their outputs: `python3 dev.py notebooks [NAME …]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
#: Time limit for one cell, in seconds; generous, because the machine may be busy.
TIMEOUT = 600


def execute(path: Path, folder: str | Path) -> nbformat.NotebookNode:
    """Run all cells of a notebook in a folder and return it with its outputs; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    timeouts = {"timeout": TIMEOUT, "startup_timeout": TIMEOUT}
    client = NotebookClient(notebook, kernel_name="python3", resources=resources, record_timing=False, **timeouts)
    return client.execute()


def main(names: list[str]) -> None:
    """Run the named notebooks, or all of them."""
    for path in sorted(HERE.glob("*.ipynb")):
        if not names or path.stem in names:
            print(path.name, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(execute(path, folder), path)


if __name__ == "__main__":
    main(sys.argv[1:])
