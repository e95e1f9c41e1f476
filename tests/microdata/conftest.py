"""Made-up PUMS files in the form of 2021: a person file and a housing file that belong together."""

import csv
import zipfile
from pathlib import Path

import polars as pl
import pytest

import phsafe

NAMES = ("persons", "units", "geo")
FLAGS = ("RACWHT", "RACBLK", "RACAIAN", "RACASN", "RACNH", "RACPI", "RACSOR")


class Survey:
    """Housing units and their people, as rows of texts; change them as a test likes, then write them."""

    def __init__(self, year=2021, state="44"):
        self.year, self.state = year, state
        self.persons, self.housing = [], []

    def home(self, *people, kind="1", weight="7", **unit):
        """A unit with its people; each is (RELSHIPP, AGEP) or a dict with more."""
        serial = f"{self.year}{'HU' if kind == '1' else 'GQ'}{len(self.housing):07d}"
        # The form of the files: blank is "not in universe".
        self.housing.append(
            {
                "RT": "H", "SERIALNO": serial, "ST": self.state, "NP": str(len(people)), "TYPEHUGQ": kind,
                "WGTP": weight if kind == "1" else "0",
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

    def write(self, folder, name="made"):
        """The two files, persons first."""
        return [
            write(folder / f"psam_{kind}{name}.csv", rows) for kind, rows in (("p", self.persons), ("h", self.housing))
        ]


def write(path, rows):
    """Rows as a CSV file; returns its path."""
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def survey():
    """A survey of three units that nothing is wrong with: a couple with a child, a vacant unit, a student."""
    made = Survey()
    made.home(("20", 40), ("21", 41), ("25", 10), TEN="1", HHT="1", HHT2="01", CPLT="1", NPF="3")
    made.home()
    made.home(("38", 19), kind="3")
    return made


@pytest.fixture
def new_survey():
    """An empty survey of some year and state."""
    return Survey


@pytest.fixture
def write_rows():
    return write


@pytest.fixture
def convert(tmp_path):
    """Convert files, or a survey; the conversion and its tables as frames."""

    def run(files, **words):
        files = files.write(tmp_path) if isinstance(files, Survey) else files
        made = phsafe.pums(tmp_path / "out", files, **words)
        return made, {name: pl.read_parquet(made.folder / name / "*.parquet") for name in NAMES}

    return run


@pytest.fixture
def pack():
    """A zip of files under given names."""

    def make(path, members, method=zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return make
