"""The TOML or INI file that names the files of a Census Edited File, and the position of each column in their lines.

>>> SLICES["units"]["HHT2"]
(60, 62)
"""

from __future__ import annotations

import configparser
import gzip
import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phsafe.errors import DataError
from phsafe.model.schema import GEO, LAYOUTS
from phsafe.readers.cef_files import expanded
from phsafe.readers.column_check import hint
from phsafe.readers.delimited import is_gzip
from phsafe.readers.interfaces import Location, TableReader

#: Column → its first character in a line, counted from 0, and the one after its last.
Slices = Mapping[str, tuple[int, int]]
STATE, BLOCK = "STATE", "OIDTB"
#: The 2020 layout. STATE serves only to detect shifted lines; BLOCK joins units to the geography.
SLICES: dict[str, Slices] = {
    "units": {
        "RTYPE": (0, 1), "MAFID": (1, 10), STATE: (10, 12), "FINAL_POP": (17, 22), "HHSPAN": (25, 26),
        "HHRACE": (27, 29), "TEN": (29, 30), BLOCK: (37, 59), "HHT": (59, 60), "HHT2": (60, 62), "CPLT": (62, 63),
    },
    "persons": {
        "RTYPE": (0, 1), "MAFID": (1, 10), STATE: (15, 17), "QAGE": (23, 26), "CENHISP": (47, 48),
        "CENRACE": (81, 83), "RELSHIP": (85, 87),
    },
}  # fmt: skip
PIPE = "|"
#: The key of a block in the geography, and the columns that the geography must have.
BLOCK_KEY = "OIDTABBLK"
NEEDED = (BLOCK_KEY, "TABBLKST")
#: Other names that an INI file may use for the tables.
INI_KEYS = {"person": "persons", "unit": "units"}
MAX_TOML = 1_000_000
#: No valid line is this long.
MAX_LINE = 100_000
_EXAMPLE = 'units = "units.txt"'


@dataclass(frozen=True)
class Files:
    """The files of each table, the slices of their columns, the lengths of their lines, and the geography's header."""

    paths: Mapping[str, tuple[Location, ...]]
    slices: Mapping[str, Slices]
    widths: Mapping[str, int]
    header: tuple[str, ...]


def read_files(data: Location, engine: TableReader) -> Files:
    """Read the TOML or INI file and the first line of every file; raise `DataError` with every problem."""
    path = Path(data)
    document = _parse(path)
    problems = [
        f"{path}: expected only {', '.join(layout.name for layout in LAYOUTS)} and slices, got {name[:40]!a}"
        for name in document
        if name not in {"slices", *(layout.name for layout in LAYOUTS)}
    ]
    paths = {
        layout.name: expanded(_named(path, layout.name, document.get(layout.name), problems), engine.storage, problems)
        for layout in LAYOUTS
    }
    slices = _slices(path, document.get("slices", {}), problems)
    first: dict[str, str] = {}
    for name, files in paths.items():
        for file in files:
            try:
                line = _first_line(file, engine)
            except DataError as error:
                problems += error.reasons
                continue
            first.setdefault(name, line)
            problems += _first_problems(file, name, line, first[name], slices)
    if problems:
        raise DataError(problems)
    widths = {name: len(first[name]) for name in slices}
    return Files(paths, slices, widths, tuple(first[GEO.name].split(PIPE)))


def local_files(data: Location) -> list[Path]:
    """The TOML or INI file and those files it names that exist on this machine, for the fingerprint."""
    path = Path(data)
    document = _parse(path)
    named = [file for layout in LAYOUTS for file in _named(path, layout.name, document.get(layout.name), [])]
    local = expanded(tuple(file for file in named if "://" not in str(file)), None, [])
    return [path, *(Path(file) for file in local if Path(file).is_file())]


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOML + 1)
        if len(content) > MAX_TOML:
            raise DataError(f"{path}: expected a small TOML file, got more than {MAX_TOML} bytes")
        text = content.decode("utf-8")
        return _ini(path, text) if path.suffix == ".ini" else tomllib.loads(text)
    except OSError as error:
        raise DataError(f"{path}: can't read the file: {error.strerror}") from None
    except configparser.Error:
        sentence = "expected an INI file with lines such as units = units.txt, got another file"
        raise DataError(f"{path}: {sentence}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        raise DataError(f"{path}: expected TOML that names files, such as {_EXAMPLE}, got invalid TOML") from None


def _ini(path: Path, text: str) -> dict[str, Any]:
    """The keys of all sections, as the TOML file has them. A value may have several lines, each naming a file."""
    parser = configparser.ConfigParser(interpolation=None, empty_lines_in_values=False)
    parser.read_string(text)
    found: dict[str, Any] = {}
    for section in parser.sections():
        for key, value in parser.items(section):
            name = INI_KEYS.get(key, key)
            if name in found:
                raise DataError(f"{path}: expected {name} once, got it more than once")
            found[name] = [line for line in value.splitlines() if line]
    return found


def _named(path: Path, name: str, value: object, problems: list[str]) -> tuple[Location, ...]:
    """The files of one table; paths are relative to the TOML file."""
    files = [value] if isinstance(value, str) else value
    if not isinstance(files, list) or not files or not all(isinstance(f, str) and f for f in files):
        problems.append(f'{path}: expected {name} = "FILE", or a list of files, got something else or no {name}')
        return ()
    if len(set(files)) < len(files):
        problems.append(f"{path}, {name}: expected every file once, got a repeated name")
    return tuple(file if "://" in file else path.parent / file for file in files)


def _slices(path: Path, given: object, problems: list[str]) -> dict[str, Slices]:
    """The 2020 layout with the slices that the TOML file overrides. Widths must stay the same."""
    if not isinstance(given, dict) or not all(name in SLICES and isinstance(v, dict) for name, v in given.items()):
        problems.append(f"{path}: expected slices of units and persons, such as [slices.units], got something else")
        return SLICES
    found: dict[str, Slices] = {}
    for table, columns in SLICES.items():
        changed = dict(columns)
        for name, value in given.get(table, {}).items():
            context = f"{path}, slices of {table}, {name[:40]!a}"
            if name not in columns:
                problems.append(f"{context}: expected one of {', '.join(columns)}")
                continue
            width = columns[name][1] - columns[name][0]
            if not isinstance(value, list) or len(value) != 2 or not all(type(n) is int and n >= 0 for n in value):
                problems.append(f"{context}: expected [BEGIN, END], counted from 0, got something else")
            elif value[1] - value[0] != width:
                problems.append(f"{context}: expected a slice of width {width}, got {value[1] - value[0]}")
            else:
                changed[name] = (value[0], value[1])
        found[table] = changed
    return found


def _first_line(file: Location, engine: TableReader) -> str:
    """The first line of a file, without its line end."""
    storage = engine.storage
    if storage is None and "://" in str(file):
        raise DataError(f"{file}: only Spark can read this URI; add --engine spark")
    try:
        if storage is not None:
            line = storage.first_line(storage.address(file))
        else:
            with gzip.open(file) if is_gzip(Path(file)) else Path(file).open("rb") as stream:
                line = stream.readline(MAX_LINE)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it is corrupt"
        raise DataError(f"{file}: can't read the file: {why}") from None
    # Replace invalid bytes instead of raising UnicodeDecodeError, which would carry the line with it.
    text = line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    if "\N{REPLACEMENT CHARACTER}" in text:
        raise DataError(f"{file}: expected text in UTF-8, got other bytes")
    return text


def _first_problems(file: Location, table: str, line: str, first: str, slices: Mapping[str, Slices]) -> list[str]:
    """The problems of a file's first line. It may be a record, so messages never quote it."""
    if table == GEO.name:
        names = line.split(PIPE)
        missing = [f"{name}{hint(name, names)}" for name in NEEDED if name not in names]
        if missing:
            return [f"{file}: expected a header with {PIPE} between names, got one without {' and '.join(missing)}"]
        if len(set(names)) < len(names):
            return [f"{file}: expected every column name once, got a repeated name"]
        return [] if line == first else [f"{file}: expected the same header as in the first file, got another"]
    needed = max(end for _, end in slices[table].values())
    if len(line) < needed:
        return [f"{file}: expected lines of at least {needed} characters, got one of {len(line)}"]
    return [] if len(line) == len(first) else [f"{file}: expected lines as long as in the first file, got others"]
