"""The optional packages behind the page and the workbook."""

from __future__ import annotations

from importlib.util import find_spec

from phsafe.errors import PHSafeError


def needed(*packages: str) -> None:
    """Refuse, in words, where a package of the `explore` extra is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise PHSafeError(f"{', '.join(missing)} not installed; install the extra: pip install 'phsafe[explore]'")
