"""The check for packages that the PHExplore page and the workbook need; the page's are optional."""

from __future__ import annotations

from importlib.util import find_spec

from phsafe.errors import PHSafeError


def require(*packages: str) -> None:
    """Raise `PHSafeError` if a package of the `explore` extra is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise PHSafeError(f"not installed: {', '.join(missing)}; install the extra with pip install 'phsafe[explore]'")
