"""`phsafe report`: from a release folder to a page."""

from __future__ import annotations

from pathlib import Path

from phsafe.errors import OutputError, Reasons
from phsafe.estimation import Estimates, estimate
from phsafe.folder import Release
from phsafe.folder_check import problems
from phsafe.newfile import check_absent, write_new
from phsafe.reporting.page import page
from phsafe.reporting.subject import Subject


def report(
    release: Release | str | Path,
    out: str | Path,
    *,
    estimates: Estimates | str | Path | None = None,
    title: str = "",
    force: bool = False,
) -> Path:
    """Write the report of a release: one page that needs nothing else, to put beside it.

    `estimates` are finished tables or their folder; without them the joint estimate is computed. A release that
    doesn't pass its check is refused; `force` makes the report all the same, and the page says so.
    """
    path = Path(out)
    reasons = Reasons()
    checked = reasons.check(_checked, release, force)
    reasons.check(check_absent, path)
    reasons.settle()
    assert checked is not None
    opened, found = checked
    folder = Path(estimates) if isinstance(estimates, str | Path) else None
    if isinstance(estimates, Estimates):
        tables = estimates
        tables.check_made_from(opened)
    else:
        tables = Estimates.read(folder, opened) if folder is not None else estimate(opened)
    write_new(path, page(Subject(opened, tables, folder, found, title)).encode())
    return path


def _checked(release: Release | str | Path, force: bool) -> tuple[Release, tuple[str, ...]]:
    """A release and what is wrong with it, which is nothing unless forced."""
    opened = release if isinstance(release, Release) else Release.read(Path(release))
    found = tuple(problems(opened))
    if found and not force:
        raise OutputError([f"{opened.path}: {problem}" for problem in found])
    return opened, found
