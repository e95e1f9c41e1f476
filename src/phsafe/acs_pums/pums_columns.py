"""The columns used from PUMS files, under one name for all years, and how a header identifies the type of file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phsafe.errors import DataError

#: Race flags, in the order of the six major races; the fifth race has two flags, either of which is enough.
RACE_FLAGS = (("RACWHT",), ("RACBLK",), ("RACAIAN",), ("RACASN",), ("RACNH", "RACPI"), ("RACSOR",))
FIRST_YEAR = 2018


@dataclass(frozen=True)
class FileType:
    """A type of PUMS file: person or housing.

    Attributes:
        name: The type's name in messages.
        known_by: A column that only this type has.
        columns: The name used here → the names used in the files over the years, newest first.
        optional: Columns that not every year has, or that only some uses need.

    """

    name: str
    known_by: str
    columns: Mapping[str, tuple[str, ...]]
    optional: frozenset[str] = frozenset()

    def pick(self, header: Sequence[str]) -> dict[str, str]:
        """Map the names used here to the columns of a file; raise `DataError` with every missing one."""
        found = {here: next((name for name in names if name in header), None) for here, names in self.columns.items()}
        missing = [
            " or ".join(self.columns[here]) for here, name in found.items() if not name and here not in self.optional
        ]
        if missing:
            raise DataError(f"column {', '.join(missing)} is missing from this {self.name} file")
        return {here: name for here, name in found.items() if name}


_BOTH = {"serial": ("SERIALNO",), "state": ("STATE", "ST")}

PERSON = FileType(
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

HOUSING = FileType(
    "housing",
    "NP",
    {
        **_BOTH,
        "people": ("NP",),
        "unit_type": ("TYPEHUGQ", "TYPE"),
        "tenure": ("TEN",),
        "weight": ("WGTP",),
        "npf": ("NPF",),
        "hht": ("HHT",),
        "hht2": ("HHT2",),
        "cplt": ("CPLT",),
    },
    frozenset({"weight", "npf", "hht", "hht2", "cplt"}),
)
#: Unit codes in files since 2019. If a file lacks any of them, all are derived from the members.
UNIT_CODES = ("npf", "hht", "hht2", "cplt")


def file_type(header: Sequence[str]) -> FileType:
    """Identify a file by its header: persons or housing units."""
    for candidate in (PERSON, HOUSING):
        if candidate.known_by in header:
            return candidate
    raise DataError(
        f"expected a PUMS person file (with {PERSON.known_by}) or housing file (with {HOUSING.known_by}), "
        "got another header"
    )
