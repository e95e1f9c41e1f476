"""Run the notebooks of this folder and store their outputs: `python3 dev.py notebooks [NAME …]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
#: Longest time that one cell may take, in seconds; a busy machine is slow.
PATIENCE = 600


def execute(path: Path, folder: str | Path) -> nbformat.NotebookNode:
    """The notebook after a run of all its cells in a folder; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    patience = {"timeout": PATIENCE, "startup_timeout": PATIENCE}
    client = NotebookClient(notebook, kernel_name="python3", resources=where, record_timing=False, **patience)
    return client.execute()


def main(names: list[str]) -> None:
    """Run the named notebooks, or all."""
    for path in sorted(HERE.glob("*.ipynb")):
        if not names or path.stem in names:
            print(path.name, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(execute(path, folder), path)


if __name__ == "__main__":
    main(sys.argv[1:])
