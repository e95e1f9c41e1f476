"""The forms in which a table may stand in a folder."""

from __future__ import annotations

from collections.abc import Collection

from phsafe.errors import DataError
from phsafe.schema import Layout


def forms_of(layout: Layout) -> tuple[str, ...]:
    """All names that a table may have.

    >>> from phsafe.schema import GEO
    >>> forms_of(GEO)
    ('geo.csv', 'geo.csv.gz', 'geo.parquet', 'geo')
    """
    name = layout.name
    return (f"{name}.csv", f"{name}.csv.gz", f"{name}.parquet", name)


def check_one(folder: object, layout: Layout, names: Collection[str]) -> str:
    """The one form of a table among the names in a folder."""
    found = [form for form in forms_of(layout) if form in names]
    if len(found) != 1:
        name = layout.name
        expected = f"{name}.csv, {name}.parquet or a folder {name} with Parquet files"
        got = "none of them" if not found else " and ".join(found)
        raise DataError(f"{folder}: expected {expected}, got {got}")
    return found[0]
