"""Console output: results on standard output, notices and progress on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Notices(Console):
    """Standard error. What can't be written there is dropped, because it never decides how a command ends."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401
        """Print, if possible."""
        with contextlib.suppress(OSError, ValueError):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Be silent from now on; Rich would end the program."""
        self.quiet = True


err = Notices(stderr=True, highlight=False)
out = Console(highlight=False)


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[str, float], None]]:
    """Yield a progress callback that draws a bar on a terminal, and elsewhere prints a line for each stage."""
    if not err.is_terminal:
        last = ""

        def line(stage: str, done: float) -> None:
            nonlocal last
            if stage != last:
                err.print(f"{title}: {stage}", markup=False, soft_wrap=True)
                last = stage

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(title, total=1.0)

        def bar(stage: str, done: float) -> None:
            progress.update(task, description=f"{title}: {stage}", completed=done)

        yield bar


def say(text: str) -> None:
    """Print a sentence of the result."""
    out.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning."""
    err.print(text.strip(), style="bold red", markup=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a notice."""
    err.print(text, markup=False, soft_wrap=True)
