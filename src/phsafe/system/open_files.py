"""The limit on open files: raised before a run if it is too low."""

from __future__ import annotations

import resource

from phsafe.errors import PHSafeError

#: What a run needs, with a margin.
MIN_OPEN_FILES = 64


def check_open_files() -> None:
    """Raise the soft limit on open files if it is too low, or refuse: libraries would fail obscurely during the run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if MIN_OPEN_FILES <= soft or soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY and hard < MIN_OPEN_FILES:
        raise PHSafeError(
            f"expected a limit of at least {MIN_OPEN_FILES} open files, got {hard}; raise it (ulimit -n 1024)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (MIN_OPEN_FILES, hard))
