"""`phsafe report`: write the report page of a release."""

from __future__ import annotations

from pathlib import Path

from phsafe.errors import OutputError, Reasons
from phsafe.estimation import Estimates, estimate
from phsafe.releases.release_folder import Release
from phsafe.releases.verify import problems
from phsafe.reports.report_page import page
from phsafe.reports.report_subject import Subject
from phsafe.system.atomic_writes import check_new_file, write_new_file


def report(
    release: Release | str | Path,
    out: str | Path,
    *,
    estimates: Estimates | str | Path | None = None,
    title: str = "",
    force: bool = False,
) -> Path:
    """Write the report page of a release: one self-contained HTML file.

    The release is checked first, and every privacy loss and margin of error on the page is recomputed from its config.

    Args:
        release: A release or its folder.
        out: Path of the HTML file; it must not exist yet.
        estimates: Finished tables or their folder. By default they are computed from the release by the joint method.
        title: Heading of the page, such as the name of the data product.
        force: Also report on a release that fails its check; the page then carries a warning that lists the problems.

    Returns:
        The path of the page.

    Raises:
        PHSafeError: If the release can't be read or fails its check, if `out` exists, or if `estimates` were not made
            from this release.

    Example:
        >>> import phsafe
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     release = phsafe.release(
        ...         "examples/acs-ri.json",
        ...         "tests/data/small",
        ...         f"{folder}/release",
        ...         ledger=f"{folder}/small.ledger",
        ...         new_ledger=True,
        ...     )
        ...     estimates = phsafe.estimate(release, "independent")
        ...     page = phsafe.report(release, f"{folder}/report.html", estimates=estimates, title="Rhode Island")
        ...     "<h1>Rhode Island</h1>" in page.read_text(encoding="utf-8")
        True
    """
    path = Path(out)
    reasons = Reasons()
    checked = reasons.check(_checked, release, force)
    reasons.check(check_new_file, path)
    reasons.settle()
    assert checked is not None
    opened, found = checked
    folder = Path(estimates) if isinstance(estimates, str | Path) else None
    if isinstance(estimates, Estimates):
        tables = estimates
        tables.check_made_from(opened)
    else:
        tables = Estimates.read(folder, opened) if folder is not None else estimate(opened)
    write_new_file(path, page(Subject(opened, tables, folder, found, title)).encode())
    return path


def _checked(release: Release | str | Path, force: bool) -> tuple[Release, tuple[str, ...]]:
    """Open a release and check it; return it with the problems found (none unless forced)."""
    opened = release if isinstance(release, Release) else Release.read(Path(release))
    found = tuple(problems(opened))
    if found and not force:
        raise OutputError([f"{opened.path}: {problem}" for problem in found])
    return opened, found
