"""How a catalog differs from another, in sentences: what was added, removed or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phsafe.model.catalog_writer import catalog_document
from phsafe.model.spec import Catalog
from phsafe.model.table_checks import listed

#: Fields of a document → what they are, in sentences.
PARTS = {
    "title": "its title", "universe": "its universe", "lines": "its lines", "average": "its average",
    "persons": "the person filter", "units": "the unit filter", "iterate_by": "whose race and ethnicity it uses",
    "source": "its source", "beyond": "the threshold it is beyond",
    "cells": "cells", "label": "its label", "region_type": "its region type",
    "columns": "its columns", "covers": "whether it covers everyone", "puerto_rico": "whether Puerto Rico has it",
    "regions": "its regions", "iterations": "its iterations",
}  # fmt: skip


def catalog_changes(catalog: Catalog, base: Catalog) -> tuple[str, ...]:
    """Return the differences of a catalog from another, one sentence each; none if the catalogs are equal.

    >>> from phsafe.model.tables import CENSUS_2020, PH1, PH7
    >>> catalog_changes(Catalog((PH1, PH7), CENSUS_2020.levels[:3]), Catalog((PH1,), CENSUS_2020.levels[:2]))
    ('Table PH7 was added.', 'Level usa_H,I was added.')
    """
    new, old = catalog_document(catalog), catalog_document(base)
    found = [*_changes("Table", _by("name", new["tables"]), _by("name", old["tables"]))]
    keys, old_keys = dict.fromkeys(new["levels"]), dict.fromkeys(old["levels"])
    found += _changes("Level", keys, old_keys)
    for what, part in (("Geography", "geographies"), ("Iteration level", "iteration_levels")):
        both = _by("key", new[part]), _by("key", old[part])
        shared = both[0].keys() & both[1].keys()
        # Levels that were added or removed are listed above.
        found += _changes(what, *({key: item for key, item in items.items() if key in shared} for items in both))
    if not found and new != old:
        found = ["The order of tables or levels changed."]
    return tuple(found)


def _by(field: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item[field]: item for item in items}


def _changes(what: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    for name in (name for name in new if name not in old):
        yield f"{what} {name} was added."
    for name in (name for name in old if name not in new):
        yield f"{what} {name} was removed."
    for name in (name for name in new if name in old and new[name] != old[name]):
        yield f"{what} {name} was changed: {'; '.join(_differences(new[name], old[name]))}."


def _differences(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    """The fields in which two items differ; for tabulations, fields of each."""
    for field in (field for field in dict.fromkeys([*new, *old]) if new.get(field) != old.get(field)):
        if field in ("tabulations", "derived", "truncation"):
            outputs, old_outputs = _by("name", new.get(field, [])), _by("name", old.get(field, []))
            for name in dict.fromkeys([*outputs, *old_outputs]):
                if name not in outputs or name not in old_outputs:
                    yield f"{name} ({'added' if name in outputs else 'removed'})"
                elif outputs[name] != old_outputs[name]:
                    yield f"{name} ({', '.join(_differences(outputs[name], old_outputs[name]))})"
        elif field == "cells":
            cells, old_cells = new.get(field, {}), old.get(field, {})
            numbers = dict.fromkeys([*cells, *old_cells])
            yield f"cells {listed(n for n in numbers if cells.get(n) != old_cells.get(n))}"
        else:
            yield PARTS.get(field, field)
