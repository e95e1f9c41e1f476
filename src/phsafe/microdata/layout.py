"""What is taken from a PUMS file: its columns under one name for all years, and how a file is known by its header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phsafe.errors import DataError

#: Race flags, in the order of the six major races; one of the two flags of the fifth is enough.
RACE_FLAGS = (("RACWHT",), ("RACBLK",), ("RACAIAN",), ("RACASN",), ("RACNH", "RACPI"), ("RACSOR",))
FIRST_YEAR = 2018


@dataclass(frozen=True)
class Kind:
    """A kind of PUMS file: columns as they are called here → the names that they have had, newest first.

    `known_by` is the column that only this kind has; `optional` columns came later than others or are needed for some
    purposes only.
    """

    name: str
    known_by: str
    columns: Mapping[str, tuple[str, ...]]
    optional: frozenset[str] = frozenset()

    def pick(self, header: Sequence[str]) -> dict[str, str]:
        """Columns here → columns of a file, or a `DataError` that names every missing one."""
        found = {here: next((name for name in names if name in header), None) for here, names in self.columns.items()}
        missing = [
            " or ".join(self.columns[here]) for here, name in found.items() if not name and here not in self.optional
        ]
        if missing:
            raise DataError(f"column {', '.join(missing)} is missing from this {self.name} file")
        return {here: name for here, name in found.items() if name}


_BOTH = {"serial": ("SERIALNO",), "state": ("STATE", "ST")}

PERSON = Kind(
    "person",
    "SPORDER",
    {
        **_BOTH,
        "number": ("SPORDER",),
        "weight": ("PWGTP",),
        "age": ("AGEP",),
        "sex": ("SEX",),
        "hispanic": ("HISP",),
        "relship": ("RELSHIPP",),
        "relp": ("RELP",),
        **{flag: (flag,) for flags in RACE_FLAGS for flag in flags},
    },
    frozenset({"relship", "relp", "weight"}),
)

HOUSING = Kind(
    "housing",
    "NP",
    {
        **_BOTH,
        "people": ("NP",),
        "kind": ("TYPEHUGQ", "TYPE"),
        "tenure": ("TEN",),
        "weight": ("WGTP",),
        "npf": ("NPF",),
        "hht": ("HHT",),
        "hht2": ("HHT2",),
        "cplt": ("CPLT",),
    },
    frozenset({"weight", "npf", "hht", "hht2", "cplt"}),
)
#: Unit codes that files have had since 2019. They follow from the members where a file has not all of them.
UNIT_CODES = ("npf", "hht", "hht2", "cplt")


def kind_of(header: Sequence[str]) -> Kind:
    """Whether a file lists persons or housing units."""
    for kind in (PERSON, HOUSING):
        if kind.known_by in header:
            return kind
    raise DataError(
        f"expected a PUMS person file (with {PERSON.known_by}) or housing file (with {HOUSING.known_by}), "
        "got another header"
    )
