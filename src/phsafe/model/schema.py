"""The layout of the 2020 Census Edited File: columns, domains and code lists (race, family members, own children)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from phsafe.model.conditions import Code


@dataclass(frozen=True)
class Digits:
    """The domain of all strings of exactly `width` digits."""

    width: int


@dataclass(frozen=True)
class Column:
    """A column: its name, domain and meaning. Coded values are strings, quantities are integers."""

    name: str
    domain: range | tuple[str, ...] | tuple[int, ...] | Digits
    label: str
    required: bool = True

    @property
    def is_integer(self) -> bool:
        """Whether values are integers (otherwise strings with leading zeros)."""
        return not isinstance(self.domain, Digits) and isinstance(self.domain[0], int)

    @property
    def codes(self) -> Sequence[Code]:
        """All values of an enumerated domain, in order."""
        if isinstance(self.domain, Digits):
            raise TypeError(f"{self.name}: expected an enumerated domain, got any {self.domain.width} digits")
        return self.domain


@dataclass(frozen=True)
class Layout:
    """The layout of one input table."""

    name: str
    columns: tuple[Column, ...]

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(column.name for column in self.columns)


def _numbered(first: int, last: int, width: int) -> tuple[str, ...]:
    return tuple(f"{code:0{width}d}" for code in range(first, last + 1))


MAJOR_RACES = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some Other Race",
)

#: Race code → the major races (1–6) it combines: "01" … "63", ordered by the number of races, then lexicographically.
RACES: dict[str, frozenset[int]] = {
    f"{number:02d}": frozenset(races)
    for number, races in enumerate(
        (races for size in range(1, 7) for races in combinations(range(1, 7), size)), start=1
    )
}

RELSHIP_LABELS = {
    "20": "Householder",
    "21": "Opposite-sex spouse",
    "22": "Opposite-sex unmarried partner",
    "23": "Same-sex spouse",
    "24": "Same-sex unmarried partner",
    "25": "Biological child",
    "26": "Adopted child",
    "27": "Stepchild",
    "28": "Sibling",
    "29": "Parent",
    "30": "Grandchild",
    "31": "Parent-in-law",
    "32": "Child-in-law",
    "33": "Other relative",
    "34": "Roommate or housemate",
    "35": "Foster child",
    "36": "Other nonrelative",
    "37": "Institutional group quarters",
    "38": "Noninstitutional group quarters",
}
HOUSEHOLDER = "20"
SPOUSES = ("21", "23")
PARTNERS = ("22", "24")
OWN_CHILDREN = ("25", "26", "27")
#: The householder and everyone related to the householder by birth, marriage or adoption.
FAMILY = ("20", "21", "23", *_numbered(25, 33, 2))

#: The household key: the column that links persons, units and geography.
KEY = "MAFID"
#: The record types (RTYPE) of a unit.
HOUSING_UNIT, GROUP_QUARTERS = 2, 4
#: The record type of a person in a housing unit.
HOUSED_PERSON = 3
MAFID = Column(KEY, range(100_000_001, 900_000_000), "Master Address File identifier")

PERSONS = Layout(
    "persons",
    (
        Column("RTYPE", (HOUSED_PERSON, 5), "Record type: 3 in a housing unit, 5 in group quarters"),
        MAFID,
        Column("QAGE", range(0, 116), "Age in years"),
        Column("CENHISP", (1, 2), "Ethnicity: 1 not Hispanic, 2 Hispanic"),
        Column("CENRACE", tuple(RACES), "Race"),
        Column("RELSHIP", tuple(RELSHIP_LABELS), "Relationship to the householder"),
    ),
)

UNITS = Layout(
    "units",
    (
        Column("RTYPE", (HOUSING_UNIT, GROUP_QUARTERS), "Record type: 2 housing unit, 4 group quarters"),
        MAFID,
        Column("FINAL_POP", range(0, 100_000), "Number of people"),
        Column("NPF", (0, *range(2, 98)), "Number of people in the family"),
        Column("HHSPAN", (0, 1, 2), "Ethnicity of the householder: 0 none, 1 not Hispanic, 2 Hispanic"),
        Column("HHRACE", ("00", *RACES), "Race of the householder"),
        Column("TEN", _numbered(0, 4, 1), "Tenure: 1 mortgage, 2 free and clear, 3 rented, 4 no rent"),
        Column("HHT", _numbered(0, 7, 1), "Household or family type"),
        Column("HHT2", _numbered(0, 12, 2), "Household or family type, with cohabiting couples"),
        Column("CPLT", _numbered(0, 5, 1), "Couple type"),
    ),
)

PUERTO_RICO = "72"
#: FIPS code → name of the 50 states, DC and Puerto Rico.
STATES: dict[str, str] = {
    "01": "Alabama", "02": "Alaska", "04": "Arizona", "05": "Arkansas", "06": "California",
    "08": "Colorado", "09": "Connecticut", "10": "Delaware", "11": "District of Columbia",
    "12": "Florida", "13": "Georgia", "15": "Hawaii", "16": "Idaho", "17": "Illinois",
    "18": "Indiana", "19": "Iowa", "20": "Kansas", "21": "Kentucky", "22": "Louisiana",
    "23": "Maine", "24": "Maryland", "25": "Massachusetts", "26": "Michigan", "27": "Minnesota",
    "28": "Mississippi", "29": "Missouri", "30": "Montana", "31": "Nebraska", "32": "Nevada",
    "33": "New Hampshire", "34": "New Jersey", "35": "New Mexico", "36": "New York",
    "37": "North Carolina", "38": "North Dakota", "39": "Ohio", "40": "Oklahoma", "41": "Oregon",
    "42": "Pennsylvania", "44": "Rhode Island", "45": "South Carolina", "46": "South Dakota",
    "47": "Tennessee", "48": "Texas", "49": "Utah", "50": "Vermont", "51": "Virginia",
    "53": "Washington", "54": "West Virginia", "55": "Wisconsin", "56": "Wyoming",
    PUERTO_RICO: "Puerto Rico",
}  # fmt: skip
#: Postal abbreviation → FIPS code.
POSTAL_CODES = {
    "AL": "01", "AK": "02", "AZ": "04", "AR": "05", "CA": "06", "CO": "08", "CT": "09", "DE": "10", "DC": "11",
    "FL": "12", "GA": "13", "HI": "15", "ID": "16", "IL": "17", "IN": "18", "IA": "19", "KS": "20", "KY": "21",
    "LA": "22", "ME": "23", "MD": "24", "MA": "25", "MI": "26", "MN": "27", "MS": "28", "MO": "29", "MT": "30",
    "NE": "31", "NV": "32", "NH": "33", "NJ": "34", "NM": "35", "NY": "36", "NC": "37", "ND": "38", "OH": "39",
    "OK": "40", "OR": "41", "PA": "42", "RI": "44", "SC": "45", "SD": "46", "TN": "47", "TX": "48", "UT": "49",
    "VT": "50", "VA": "51", "WA": "53", "WV": "54", "WI": "55", "WY": "56", "PR": "72",
}  # fmt: skip
US_STATES = tuple(code for code in STATES if code != PUERTO_RICO)


def state_code(state: str) -> str:
    """The FIPS code of a state, given by code, postal code or name; text that is none of them is returned as it is.

    >>> [state_code(text) for text in ("56", "wy", "Wyoming", "Wyomin")]
    ['56', '56', '56', 'Wyomin']
    """
    by_name = {name.casefold(): code for code, name in STATES.items()}
    return POSTAL_CODES.get(state.upper()) or by_name.get(state.casefold(), state)


GEO = Layout(
    "geo",
    (
        Column("RTYPE", (HOUSING_UNIT, GROUP_QUARTERS), "Record type: 2 housing unit, 4 group quarters"),
        MAFID,
        Column("TABBLKST", tuple(STATES), "State"),
        Column("TABBLKCOU", Digits(3), "County", required=False),
        Column("TABTRACTCE", Digits(6), "Tract", required=False),
        Column("TABBLK", Digits(4), "Block", required=False),
        Column("TABBLKGRPCE", Digits(1), "Block group", required=False),
        Column("REGIONCE", ("1", "2", "3", "4", "9"), "Census region", required=False),
        Column("DIVISIONCE", Digits(1), "Census division", required=False),
        Column("PLACEFP", Digits(5), "Place", required=False),
        Column("AIANNHCE", Digits(4), "American Indian, Alaska Native, Native Hawaiian area", required=False),
    ),
)

LAYOUTS = (PERSONS, UNITS, GEO)
