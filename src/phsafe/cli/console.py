"""Console output: results on standard output; notices, warnings and the progress bar on standard error and the log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.style import Style
from rich.text import Text

from phsafe.cli.output import OUTPUT
from phsafe.model.exact_numbers import dumps


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
    last = ""

    def is_new(stage: str) -> bool:
        nonlocal last
        if stage == last:
            return False
        last = stage
        OUTPUT.record("stage", "info", stage)
        return True

    if OUTPUT.quiet or not err.is_terminal:

        def line(stage: str, done: float) -> None:
            if is_new(stage) and not OUTPUT.quiet:
                err.print(f"{title}: {stage}", markup=False, soft_wrap=True)

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(title, total=1.0)

        def bar(stage: str, done: float) -> None:
            is_new(stage)
            progress.update(task, description=f"{title}: {stage}", completed=done)

        yield bar


def result(document: Mapping[str, Any], *shown: RenderableType) -> None:
    """Print the result of a command.

    Args:
        document: What `--json` prints; its keys are declared in `phsafe.cli.json_documents`.
        shown: What is printed otherwise: sentences and tables.

    """
    if OUTPUT.json:
        typer.echo(dumps(document))
        return
    for part in shown:
        if isinstance(part, str | Text):
            out.print(part, markup=False, soft_wrap=True)
        else:
            out.print(part)


def linked(text: str, path: Path) -> Text:
    """Return text in which the path is a link, for terminals that can open it; elsewhere it is plain text."""
    shown, start = Text(text), text.find(str(path))
    if start >= 0:
        shown.stylize(Style(link=path.resolve().as_uri()), start, start + len(str(path)))
    return shown


def warn(text: str) -> None:
    """Print and log a warning."""
    OUTPUT.record("warning", "warning", text.strip())
    if not OUTPUT.quiet:
        err.print(text.strip(), style="bold red", markup=False, soft_wrap=True)


def note(text: str | Text) -> None:
    """Print and log a notice."""
    OUTPUT.record("notice", "info", str(text))
    if not OUTPUT.quiet:
        err.print(text, markup=False, soft_wrap=True)
