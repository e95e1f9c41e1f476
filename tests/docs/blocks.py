"""The fenced blocks of a Markdown page, and how blocks of each language run."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: The first line of a block that can't run in tests; readers see the reason, which is required.
NOT_RUN = re.compile(r"# Not run in tests: \S.{9,}")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
#: Ends a command in a console block that must fail.
FAILS = re.compile(r"# exit code (\d+)$")
#: Blocks that are shown but not run: text, and directives of the site generator.
SHOWN = re.compile(r"text|\{[\w-]+\}.*")


class Block(NamedTuple):
    """A fenced block: its first line, its language, its text."""

    line: int
    language: str
    body: str

    @property
    def runs(self) -> bool:
        return not NOT_RUN.match(self.body) and not SHOWN.fullmatch(self.language)


def blocks(page: str) -> Iterator[Block]:
    for match in FENCE.finditer(page):
        yield Block(page.count("\n", 0, match.start()) + 1, match["language"].strip(), match["body"])


def run(block: Block, folder: Path, names: dict[str, Any]) -> None:
    """Run a block in a folder; raises an AssertionError or the block's own error."""
    RUNNERS[block.language](block, folder, names)


def _python(block: Block, folder: Path, names: dict[str, Any]) -> None:
    exec(compile("\n" * block.line + block.body, "block", "exec"), names)


def _script(block: Block, folder: Path, names: dict[str, Any]) -> None:
    assert _shell(f"set -euo pipefail\n{block.body}", folder)[0] == 0


def _console(block: Block, folder: Path, names: dict[str, Any]) -> None:
    """Run every `$` line; its output must contain the lines below it, in that order (… matches anything)."""
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        fails = FAILS.search(command)
        code, printed = _shell(command, folder)
        assert code == (int(fails[1]) if fails else 0), f"$ {command}: exit code {code}\n{printed}"
        lines = iter(printed.splitlines())
        for line in shown:
            pattern = ".*".join(re.escape(text) for text in line.strip().split("…"))
            assert any(re.fullmatch(pattern, found.strip()) for found in lines), (
                f"$ {command}: no line {line!r} (at this position) in\n{printed}"
            )


def _shell(text: str, folder: Path) -> tuple[int, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


RUNNERS = {
    "python": _python,
    "console": _console,
    "sh": _script,
    "json": lambda block, *_: json.loads(block.body),
    "toml": lambda block, *_: tomllib.loads(block.body),
    "ini": lambda block, *_: configparser.ConfigParser(interpolation=None).read_string(block.body),
}
