"""The Census Edited File: the same data gives the same tables in both formats, and bad files are refused."""

import gzip
import json

import polars as pl
import pytest

import phsafe
from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import PHSafeError
from phsafe.model.schema import LAYOUTS
from phsafe.pipeline.fingerprint import fingerprint_chunks
from phsafe.readers import load
from phsafe.readers.cef_index import local_files

NAMES = ("persons", "units", "geo")


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


@pytest.fixture(scope="module")
def small_cef(tmp_path_factory, small_frames, write_cef):
    return write_cef(tmp_path_factory.mktemp("cef"), small_frames)


@pytest.fixture(scope="session")
def config(us, tmp_path_factory):
    """The 2020 parameters with the reader cef."""
    path = tmp_path_factory.mktemp("config") / "cef.json"
    path.write_text(json.dumps(json.loads(us.read_text()) | {"reader": "cef"}))
    return path


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """Synthetic households whose codes agree with their members, with all columns as text."""
    folder = phsafe.synth(tmp_path_factory.mktemp("town") / "data", 400, "44,56", format="csv")
    return {name: pl.read_csv(folder / f"{name}.csv", infer_schema=False) for name in NAMES}


def rows(tables, engine):
    """All rows of all tables, with numbers as int whatever their type in the source."""
    found = {}
    for layout in LAYOUTS:
        types = {column.name: int if column.is_integer else str for column in layout.columns}
        table = engine.fetch(tables.tables[layout.name]).select(layout.names).to_pylist()
        found[layout.name] = sorted(
            ({name: types[name](value) for name, value in row.items()} for row in table), key=str
        )
    return found


@pytest.mark.parametrize(("pad", "end"), [("0", "\n"), (" ", "\r\n")], ids=["zeros", "blanks"])
def test_every_column_round_trips(pad, end, town, write_cef, engine, tmp_path):
    """Including NPF, which is not in the file but computed from the members."""
    assert set(town["units"]["HHRACE"]) > {"00"}
    path = write_cef(tmp_path, town, pad, end)
    assert rows(load(path, engine), engine) == rows(load(town, engine), engine)


def test_the_small_dataset_gives_the_known_counts(small, small_cef, config, expected, as_dict):
    counts = as_dict(phsafe.tabulate(config, small_cef, skip_validation=True))
    known = expected(small / "expected_truncated_counts.csv")
    assert {key: count for key, count in counts.items() if count} == known


def test_validation_gives_the_same_findings_as_on_csv(small_cef, config):
    """Except for NPF, which is computed here; in the CSV files, large households have wrong values."""
    report = phsafe.validate(config, small_cef)
    assert report.ok
    assert [(f.column, f.rows) for f in report.of("warning")] == [
        ("RELSHIP", 24), ("HHT", 24), ("HHT2", 24), ("CPLT", 24)
    ]  # fmt: skip
    assert report.rows["persons"] == 1785


def test_validation_finds_wrong_values(town, write_cef, config, tmp_path):
    broken = town | {
        "persons": town["persons"].with_columns(CENRACE=pl.lit("64"), QAGE=pl.lit("1x")),
        "geo": town["geo"].with_columns(PLACEFP=pl.lit("9999x")),
    }
    path = write_cef(tmp_path, broken)
    header, gone, *others = (tmp_path / "blocks.txt").read_text().splitlines(keepends=True)
    (tmp_path / "blocks.txt").write_text(header + "".join(others))
    report = phsafe.validate(config, path)
    found = {(f.table, f.column, f.rule): f.rows for f in report.of("error")}
    homeless = (tmp_path / "units.txt").read_text().count(gone.split("|")[1])
    assert found["units", "MAFID", "every unit's MAFID is in geo"] == homeless > 0
    assert found["persons", "QAGE", "the value is a whole number"] == town["persons"].height
    assert found["persons", "CENRACE", "the value is in the column's domain"] == town["persons"].height
    assert found["geo", "PLACEFP", "the value is in the column's domain"] == town["geo"].height - homeless


def test_several_files_per_table(town, write_cef, engine, tmp_path):
    whole = rows(load(write_cef(tmp_path, town), engine), engine)
    for name in ("units.txt", "persons.txt"):
        lines = (tmp_path / name).read_text().splitlines(keepends=True)
        (tmp_path / f"1{name}").write_text("".join(lines[:100]))
        (tmp_path / f"2{name}").write_text("".join(lines[100:]))
    header, *blocks = (tmp_path / "blocks.txt").read_text().splitlines(keepends=True)
    (tmp_path / "1blocks.txt").write_text(header + "".join(blocks[:5]))
    (tmp_path / "2blocks.txt").write_text(header + "".join(blocks[5:]))
    toml = "".join(
        f'{n} = ["1{f}", "2{f}"]\n' for n, f in zip(NAMES, ("persons.txt", "units.txt", "blocks.txt"), strict=True)
    )
    (tmp_path / "cef.toml").write_text(toml)
    assert rows(load(tmp_path / "cef.toml", engine), engine) == whole


def test_slices_can_be_overridden(town, write_cef, engine, tmp_path):
    """A layout in which a column has moved."""
    path = write_cef(tmp_path, town)
    whole = rows(load(path, engine), engine)
    units = (tmp_path / "units.txt").read_text().splitlines()
    (tmp_path / "units.txt").write_text("".join(f"{u[:29]}x{u[30:66]}{u[29]}{u[67:]}\n" for u in units))
    assert rows(load(path, engine), engine) != whole
    path.write_text(path.read_text() + "[slices.units]\nTEN = [66, 67]\n")
    assert rows(load(path, engine), engine) == whole


SECRET = "7731"
#: Problem → the change to the folder, and the expected message.
WRONG = {
    "a short line": (
        lambda folder: _append(folder / "units.txt", f"2{SECRET}\n"),
        "units.txt: expected every line as long as the first (70), with a two-digit state code at 10:12, got others",
    ),
    "a long line": (
        lambda folder: _append(folder / "persons.txt", "3" + SECRET * 30 + "\n"),
        "persons.txt: expected every line as long as the first (99), with a two-digit state code at 15:17, got others",
    ),
    "a shifted line": (
        lambda folder: _append(folder / "units.txt", "x" * 11 + SECRET + "x" * 55 + "\n"),
        "units.txt: expected every line as long as the first (70), with a two-digit state code at 10:12, got others",
    ),
    "a line that an engine may take for no value": (
        lambda folder: _append(folder / "persons.txt", "\x02\n"),
        "persons.txt: expected every line as long as the first (99), with a two-digit state code at 15:17, got others",
    ),
    "lines that are too narrow": (
        lambda folder: (folder / "units.txt").write_text(f"{SECRET}\n" * 3),
        "units.txt: expected lines of at least 63 characters, got one of 4",
    ),
    "an empty file": (
        lambda folder: (folder / "units.txt").write_text(""),
        "units.txt: expected lines of at least 63 characters, got one of 0",
    ),
    "bytes": (
        lambda folder: (folder / "persons.txt").write_bytes(b"\xff\xfe" * 99),
        "persons.txt: expected text in UTF-8, got other bytes",
    ),
    "a block with too few values": (
        lambda folder: _append(folder / "blocks.txt", f"x|{SECRET}\n"),
        "blocks.txt: expected as many values between pipes in every line as in the header (11), got others",
    ),
    "blocks without a header": (
        lambda folder: (folder / "blocks.txt").write_text(f"{SECRET}|44\n"),
        "blocks.txt: expected a header with | between names, got one without OIDTABBLK and TABBLKST",
    ),
    "a column of blocks twice": (
        lambda folder: (folder / "blocks.txt").write_text("OIDTABBLK|TABBLKST|TABBLKST\n"),
        "blocks.txt: expected every column name once, got a repeated name",
    ),
    "no file": (
        lambda folder: (folder / "units.txt").unlink(),
        "units.txt: can't read the file: No such file or directory",
    ),
}


def _append(path, text):
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize("name", WRONG)
def test_bad_files_are_refused_without_quoting_values(name, small_frames, write_cef, config, tmp_path):
    path = write_cef(tmp_path, small_frames)
    change, sentence = WRONG[name]
    change(tmp_path)
    with pytest.raises(PHSafeError) as caught:
        phsafe.tabulate(config, path)
    assert [reason.rpartition("/")[2] for reason in caught.value.reasons] == [sentence]
    assert SECRET not in str(caught.value)


#: Problem → additions to the TOML file, and the expected messages.
TOMLS = {
    "wrong widths": (
        "[slices.units]\nHHRACE = [27, 30]\nTEN = [3, 3]\n[slices.persons]\nMAFID = [9, 1]",
        [
            "cef.toml, slices of units, 'HHRACE': expected a slice of width 2, got 3",
            "cef.toml, slices of units, 'TEN': expected a slice of width 1, got 0",
            "cef.toml, slices of persons, 'MAFID': expected a slice of width 9, got -8",
        ],
    ),
    "slices of other things": (
        "[slices.units]\nHHRACE = 5\nAGE = [1, 2]\nTEN = [-2, -1]",
        [
            "cef.toml, slices of units, 'HHRACE': expected [BEGIN, END], counted from 0, got something else",
            "cef.toml, slices of units, 'AGE': expected one of RTYPE, MAFID, STATE, FINAL_POP, HHSPAN, HHRACE, TEN, "
            "OIDTB, HHT, HHT2, CPLT",
            "cef.toml, slices of units, 'TEN': expected [BEGIN, END], counted from 0, got something else",
        ],
    ),
    "slices of geo": (
        "[slices.geo]\nTABBLKST = [1, 2]",
        ["cef.toml: expected slices of units and persons, such as [slices.units], got something else"],
    ),
    "a slice behind the end": (
        "[slices.units]\nTEN = [80, 81]",
        ["units.txt: expected lines of at least 81 characters, got one of 70"],
    ),
    "a field too many": (
        'blocks = "x"',
        ["cef.toml: expected only persons, units, geo and slices, got 'blocks'"],
    ),
}


@pytest.mark.parametrize("name", TOMLS)
def test_a_bad_toml_is_refused_with_all_reasons(name, small_frames, write_cef, config, tmp_path):
    text, sentences = TOMLS[name]
    path = write_cef(tmp_path, small_frames)
    path.write_text(path.read_text() + text)
    with pytest.raises(PHSafeError) as caught:
        phsafe.validate(config, path)
    assert [reason.rpartition("/")[2] for reason in caught.value.reasons] == sentences


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("units = ", "expected TOML that names files"),
        ("\x00", "expected TOML that names files"),
        ("#" * 1_000_001, "expected a small TOML file"),
        ('units = 3\npersons = []\ngeo = ["a", "a"]', 'expected units = "FILE", or a list of files'),
        ('units = 3\npersons = []\ngeo = ["a", "a"]', "geo: expected every file once"),
        ('units = "hdfs://node/units.txt"\npersons = "a"\ngeo = "b"', "only Spark can read this URI"),
    ],
    ids=["syntax", "bytes", "size", "no names", "twice", "address"],
)  # fmt: skip
def test_a_toml_without_usable_file_names_is_refused(text, sentence, config, tmp_path):
    (tmp_path / "cef.toml").write_text(text)
    with pytest.raises(PHSafeError) as caught:
        phsafe.validate(config, tmp_path / "cef.toml")
    assert sentence in str(caught.value)


def test_the_config_s_reader_must_match_the_data(small, small_cef, config, us, phsafe_command, tmp_path):
    for command in ("validate", "tabulate", "release"):
        out = [] if command == "validate" else [tmp_path / "out"]
        folder = phsafe_command(command, config, small, *out)
        assert folder.code == 1
        assert "the config's reader is cef, so expected a .toml file" in folder.err
        file = phsafe_command(command, us, small_cef, *out)
        assert file.code == 1
        assert 'set "reader": "cef" in the config' in file.err
    done = phsafe_command(
        "release", config, small_cef, tmp_path / "out", "--ledger", tmp_path / "ledger", "--new-ledger"
    )
    assert done.code == 0
    assert phsafe.Release.open(tmp_path / "out").measurements("PH1_num").height == 1040


def test_the_fingerprint_covers_the_files(town, write_cef, tmp_path):
    first, second = (write_cef(tmp_path / name, town) for name in ("first", "second"))
    before = list(fingerprint_chunks(first))
    assert before == list(fingerprint_chunks(second))
    lines = (tmp_path / "second" / "persons.txt").read_text()
    (tmp_path / "second" / "persons.txt").write_text("5" + lines[1:])
    assert before != list(fingerprint_chunks(second))


def split(folder, name, ending=".txt"):
    """Split the lines of a table into two files in a folder with its name."""
    lines = (folder / f"{name}.txt").read_text().splitlines(keepends=True)
    (folder / name).mkdir()
    for i, part in enumerate((lines[:100], lines[100:])):
        content = "".join(part).encode()
        (folder / name / f"{i}{ending}").write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    (folder / f"{name}.txt").unlink()


#: How the units are named → the TOML file's entry, and the ending of the files.
ENTRIES = {
    "folder": ('"units"', ".txt"),
    "folder with a slash": ('"units/"', ".dat"),
    "glob": ('"units/*.txt"', ".txt"),
    "list of globs": ('["units/0*", "units/[1-9]*"]', ".txt"),
    "gzip": ('["units/0.txt.gz", "units/1.txt.gz"]', ".txt.gz"),
    "glob of gzip": ('"units/*.gz"', ".gz"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_globs_folders_and_gzip(name, town, write_cef, engine, tmp_path):
    path = write_cef(tmp_path, town)
    whole = rows(load(path, engine), engine)
    entry, ending = ENTRIES[name]
    split(tmp_path, "units", ending)
    (tmp_path / "units" / "_SUCCESS").touch()
    path.write_text(f'units = {entry}\npersons = "persons.txt"\ngeo = "blocks.txt"\n')
    assert rows(load(path, engine), engine) == whole
    assert {f"units/{i}{ending}" for i in "01"} <= {str(f.relative_to(tmp_path)) for f in local_files(path)}


#: What is also in the folder, the TOML file's entry → the end of the message.
UNUSABLE = {
    "other case": ("2.TXT", "units/*.txt", "units/2.TXT: expected no name that differs from the glob only in case"),
    "hidden, glob": ("_2.txt", "units/*.txt", "units/_2.txt: expected no name"),
    "hidden": (".2.txt", "units", "units/.2.txt: expected only data files in the folder"),
    "folder in a folder": ("late/2.txt", "units", "units/late: expected only data files in the folder"),
    "no match": ("x", "units/*.dat", "units/*.dat: expected at least one data file, got none"),
    "no folder": ("x", "nowhere/*.txt", "nowhere/*.txt: expected at least one data file, got none"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_names_that_a_glob_or_folder_would_lose_are_refused(name, town, write_cef, config, tmp_path):
    path = write_cef(tmp_path, town)
    split(tmp_path, "units")
    other, entry, sentence = UNUSABLE[name]
    (tmp_path / "units" / other).parent.mkdir(exist_ok=True)
    (tmp_path / "units" / other).write_text("x")
    path.write_text(f'units = "{entry}"\npersons = "persons.txt"\ngeo = "blocks.txt"\n')
    with pytest.raises(PHSafeError) as caught:
        phsafe.validate(config, path)
    assert f"{tmp_path}/{sentence}" in str(caught.value)


def test_a_file_named_twice_by_globs_is_refused(town, write_cef, config, tmp_path):
    path = write_cef(tmp_path, town)
    split(tmp_path, "units")
    path.write_text('units = ["units/*", "units/0.txt"]\npersons = "persons.txt"\ngeo = "blocks.txt"\n')
    with pytest.raises(PHSafeError, match=r"units/0\.txt: expected every file once, got it more than once"):
        phsafe.validate(config, path)
    path.write_text('units = "hdfs://node/units/*"\npersons = "persons.txt"\ngeo = "blocks.txt"\n')
    with pytest.raises(PHSafeError, match="only Spark can read this URI"):
        phsafe.validate(config, path)


def test_a_truncated_gzip_file_is_refused(town, write_cef, config, tmp_path):
    path = write_cef(tmp_path, town)
    content = gzip.compress((tmp_path / "units.txt").read_bytes())
    for size in (20, len(content) - 9):
        (tmp_path / "units.txt").write_bytes(content[:size])
        with pytest.raises(PHSafeError, match=r"units\.txt: can't (read|be read)"):
            phsafe.validate(config, path)


def test_block_ids_compare_as_numbers(town, write_cef, engine, tmp_path):
    """Units pad the id with zeros to 22 digits; the geography may not."""
    path = write_cef(tmp_path, town)
    whole = rows(load(path, engine), engine)["geo"]
    header, *blocks = (tmp_path / "blocks.txt").read_text().splitlines()
    units = (tmp_path / "units.txt").read_text().splitlines()
    numbers = {block.split("|")[1]: str(i) for i, block in enumerate(blocks)}
    (tmp_path / "units.txt").write_text("".join(f"{u[:37]}{numbers[u[37:59]]:0>22}{u[59:]}\n" for u in units))
    shorter = [block.replace(block.split("|")[1], numbers[block.split("|")[1]]) for block in blocks]
    (tmp_path / "blocks.txt").write_text("\n".join([header, *shorter]) + "\n")
    assert rows(load(path, engine), engine)["geo"] == whole
    # A block that is repeated with more zeros gives its units two rows.
    (tmp_path / "blocks.txt").write_text("\n".join([header, *shorter, shorter[0].replace("|0|", "|000|")]) + "\n")
    assert len(rows(load(path, engine), engine)["geo"]) > len(whole)


@pytest.mark.parametrize(
    "text",
    [
        "[files]\npersons = persons.txt\nunits = units/0.txt\n  units/1.txt\ngeo = blocks.txt\n",
        "[Person]\nPerson: persons.txt\n[Unit]\nunit = units/*.txt\n[Geo]\nGEO = blocks.txt\n",
    ],
    ids=["one section", "several"],
)
def test_an_ini_file_names_the_files(town, write_cef, config, engine, tmp_path, text, phsafe_command):
    whole = rows(load(write_cef(tmp_path, town), engine), engine)
    split(tmp_path, "units")
    (tmp_path / "cef.ini").write_text(text)
    assert rows(load(tmp_path / "cef.ini", engine), engine) == whole
    assert len(local_files(tmp_path / "cef.ini")) == 5
    done = phsafe_command("validate", config, tmp_path / "cef.ini", "--allow-empty-states")
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("persons = x", "cef.ini: expected an INI file with lines such as units = units.txt, got another file"),
        ("[a]\npersons = x\n[b]\nperson = y", "cef.ini: expected persons once, got it more than once"),
        ("[a]\nblocks = x", "cef.ini: expected only persons, units, geo and slices, got 'blocks'"),
        ("[a]\nunits =", 'cef.ini: expected units = "FILE", or a list of files, got something else or no units'),
    ],
)
def test_a_bad_ini_file_is_refused(config, tmp_path, text, sentence):
    (tmp_path / "cef.ini").write_text(text)
    with pytest.raises(PHSafeError) as caught:
        phsafe.validate(config, tmp_path / "cef.ini")
    assert sentence in str(caught.value)


def test_a_column_of_blocks_in_lower_case_gets_a_hint(town, write_cef, config, tmp_path):
    path = write_cef(tmp_path, town)
    text = (tmp_path / "blocks.txt").read_text()
    (tmp_path / "blocks.txt").write_text(text.replace("TABBLKST", "tabblkst"))
    with pytest.raises(PHSafeError, match="without TABBLKST; found 'tabblkst', rename it to TABBLKST"):
        phsafe.validate(config, path)
