"""The check for packages that only some commands and calls need, the extras: says how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from phsafe.errors import PHSafeError


def require(*packages: str, extra: str = "explore") -> None:
    """Raise `PHSafeError` if a package of an extra is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise PHSafeError(f"not installed: {', '.join(missing)}; install the extra with pip install 'phsafe[{extra}]'")
