"""Time the newcomer's path: clone this repository, then run only the README's first block.

    python3 benchmarks/newcomer.py

Prints the seconds of every command. The last command creates a report.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300


def main() -> int:
    """Run and time the path; return 0 if it creates a report within the limit."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "phsafe"
        started = time.monotonic()
        timed(["git", "clone", "--quiet", str(ROOT), str(clone)], Path(folder))
        block = re.search(r"^```console\n(.*?)^```$", (clone / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        assert block, "the README has no console block"
        for command in re.findall(r"^\$ (.*)$", block[1], re.MULTILINE):
            timed(["bash", "-c", command], clone)
        total = time.monotonic() - started
        reports = [str(path.relative_to(clone)) for path in clone.glob("phsafe-demo/*.html")]
        print(f"{total:7.1f} s  from clone to {', '.join(reports) or 'no report'}")
        return 0 if reports and total < LIMIT else 1


def timed(command: list[str], folder: Path) -> None:
    """Run a command silently and print how long it took; exit if it fails."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(f"{time.monotonic() - started:7.1f} s  {command[-1] if command[0] == 'bash' else ' '.join(command[:2])}")
    if done.returncode:
        sys.exit(done.stdout.decode())


if __name__ == "__main__":
    sys.exit(main())
