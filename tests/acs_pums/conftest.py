"""Synthetic PUMS files in the 2021 layout: a person file and the matching housing file."""

import csv
import zipfile
from pathlib import Path

import polars as pl
import pytest

import phsafe

NAMES = ("persons", "units", "geo")
FLAGS = ("RACWHT", "RACBLK", "RACAIAN", "RACASN", "RACNH", "RACPI", "RACSOR")


class Survey:
    """Housing units and their people, as rows of text that tests may change before writing them."""

    def __init__(self, year=2021, state="44"):
        self.year, self.state = year, state
        self.persons, self.housing = [], []

    def home(self, *people, unit_type="1", weight="7", **unit):
        """Add a unit with its people, each (RELSHIPP, AGEP) or a dict with more columns."""
        serial = f"{self.year}{'HU' if unit_type == '1' else 'GQ'}{len(self.housing):07d}"
        # As in the real files, a blank means "not in universe".
        self.housing.append(
            {
                "RT": "H", "SERIALNO": serial, "ST": self.state, "NP": str(len(people)), "TYPEHUGQ": unit_type,
                "WGTP": weight if unit_type == "1" else "0",
                **{name: unit.get(name, "") for name in ("TEN", "HHT", "HHT2", "CPLT", "NPF")},
            }
        )  # fmt: skip
        for number, person in enumerate(people, start=1):
            given = person if isinstance(person, dict) else {"RELSHIPP": person[0], "AGEP": str(person[1])}
            self.persons.append(
                {
                    "RT": "P", "SERIALNO": serial, "SPORDER": f"{number:02d}", "ST": self.state, "PWGTP": "9",
                    "AGEP": "30", "SEX": "1", "HISP": "01", **dict.fromkeys(FLAGS, "0"), "RACWHT": "1", **given,
                }
            )  # fmt: skip
        return serial

    def write(self, folder, name="test"):
        """Write the two files and return their paths, persons first."""
        return [
            write(folder / f"psam_{letter}{name}.csv", rows)
            for letter, rows in (("p", self.persons), ("h", self.housing))
        ]


def write(path, rows):
    """Write rows as a CSV file and return its path."""
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def survey():
    """A valid survey of three units: a couple with a child, a vacant unit, a student."""
    survey = Survey()
    survey.home(("20", 40), ("21", 41), ("25", 10), TEN="1", HHT="1", HHT2="01", CPLT="1", NPF="3")
    survey.home()
    survey.home(("38", 19), unit_type="3")
    return survey


@pytest.fixture
def new_survey():
    """Create an empty survey of a given year and state."""
    return Survey


@pytest.fixture
def write_rows():
    return write


@pytest.fixture
def convert(tmp_path):
    """Convert files or a survey; returns the conversion and its tables as data frames."""

    def run(files, **options):
        files = files.write(tmp_path) if isinstance(files, Survey) else files
        conversion = phsafe.pums(tmp_path / "out", files, **options)
        return conversion, {name: pl.read_parquet(conversion.folder / name / "*.parquet") for name in NAMES}

    return run


@pytest.fixture
def pack():
    """Pack files into a zip under the given names."""

    def make(path, members, method=zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return make
