"""Finished tables from exact counts: every line against sums taken by hand from the known answers."""

import json
import stat

import polars as pl
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.errors import ConfigError, PHSafeError
from phsafe.pipeline.exact_tables import exact_lines
from phsafe.pipeline.scan import Settings, count

#: Table → line → the tabulation and the cells of the known answers that it adds up, written out by hand.
SUMS = {
    "PH2": {1: (3, 4, 6, 7, 9, 10, 12, 13), 2: (3, 4), 5: (6, 7), 8: (9, 10), 11: (12, 13)}
    | {n: (n,) for n in (3, 4, 6, 7, 9, 10, 12, 13)},
    "PH3": {1: (2, 4, 5, 6, 7, 9, 10), 3: (4, 5, 6, 7), 8: (9, 10)} | {n: (n,) for n in (2, 4, 5, 6, 7, 9, 10)},
    "PH4": {1: (2, 3), 2: (2,), 3: (3,)},
    "PH6": {
        1: (3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21),
        2: (3, 4, 5, 6), 7: (8, 9, 10, 11), 12: (13, 14, 15, 16), 17: (18, 19, 20, 21),
    }
    | {n: (n,) for n in range(1, 22) if n not in (1, 2, 7, 12, 17)},
    "PH7": {1: (2, 3, 4), 2: (2,), 3: (3,), 4: (4,)},
}  # fmt: skip
#: Table → line → numerator and its cells, denominator and its cells.
RATIOS = {
    "PH1": {
        line: ("PH1_num", cells, "PH1_denom", (1,)) for line, cells in {1: (2, 3), 2: (2,), 3: (3,)}.items()
    },
    "PH5": {
        line: ("PH4", cells, "PH5_denom", (1,)) for line, cells in {1: (2, 3), 2: (2,), 3: (3,)}.items()
    },
    "PH8": {
        1: ("PH7", (2, 3, 4), "PH8_denom", (2, 3)),
        2: ("PH7", (2, 3), "PH8_denom", (2,)),
        3: ("PH7", (4,), "PH8_denom", (3,)),
    },
}  # fmt: skip


def by_hand(counts, table, line, group):
    def total(name, cells):
        return sum(counts.get((name, *group, cell), 0) for cell in cells)

    if table in SUMS:
        return total(table, SUMS[table][line])
    numerator, above, denominator, below = RATIOS[table][line]
    units = total(denominator, below)
    return total(numerator, above) / units if units else None


@pytest.mark.parametrize("truncate", [False, True])
def test_every_line_against_the_known_answers(us, small, expected, truncate):
    name = "expected_truncated_counts.csv" if truncate else "expected_counts.csv"
    counts = expected(small / name)
    tables = phsafe.exact_tables(us, small, truncate=truncate)
    assert list(tables) == [f"PH{i}" for i in range(1, 9)]
    empty = 0
    for table, frame in tables.items():
        lines = SUMS.get(table) or RATIOS[table]
        assert set(frame["CELL"]) == set(lines)
        for row in frame.iter_rows(named=True):
            value = by_hand(counts, table, row["CELL"], (row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"]))
            assert row["ESTIMATE"] == value, (table, row)
            empty += value is None
    assert empty > 100


def test_truncation_makes_a_difference_and_is_off_by_default(us, small):
    default, cut = phsafe.exact_tables(us, small), phsafe.exact_tables(us, small, truncate=True)
    assert default["PH7"]["ESTIMATE"].sum() > cut["PH7"]["ESTIMATE"].sum()


def test_the_layout_is_that_of_an_estimate(us, small, tmp_path):
    release = phsafe.release(us, small, tmp_path / "release", ledger=tmp_path / "small.ledger", new_ledger=True)
    keys = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", "LABEL"]
    exact = phsafe.exact_tables(us, small)
    for name, frame in phsafe.estimate(release, "independent").tables.items():
        assert exact[name].columns == [*keys, "ESTIMATE"]
        assert exact[name].select(keys).equals(frame.select(keys))
        assert exact[name]["ESTIMATE"].dtype == frame["ESTIMATE"].dtype


def test_budgets_are_not_needed(us_document, small):
    full = phsafe.exact_tables(us_document, small)
    without = {key: value for key, value in us_document.items() if key != "privacy_budget"}
    zero = us_document | {
        "privacy_budget": {name: dict.fromkeys(levels, 0) for name, levels in us_document["privacy_budget"].items()}
    }
    absurd = without | {"budget": "none"}
    for document in (without, zero, absurd, Config.load(zero)):
        tables = phsafe.exact_tables(document, small)
        assert all(tables[name].equals(frame, null_equal=True) for name, frame in full.items())
    with pytest.raises(ConfigError, match="privacy_budget"):
        Config.load(without)


def test_puerto_rico_has_no_national_lines(pr, small):
    tables = phsafe.exact_tables(pr, small, skip_validation=True)
    assert {*tables["PH3"]["REGION_TYPE"]} == {"STATE"}
    assert {*tables["PH3"]["REGION_ID"]} == {"72"}


def test_averages_need_numerator_and_denominator_at_the_same_level(us_document, small):
    budgets = {name: dict.fromkeys(levels, 0) for name, levels in us_document["privacy_budget"].items()}
    budgets["PH1_num"]["state_*"] = 1
    budgets["PH1_denom"]["usa_*"] = 1
    config = Config.load(us_document | {"privacy_budget": budgets})
    assert exact_lines(config, count(config, small, Settings(skip_validation=True))) == {}


def test_the_command_writes_a_private_folder(phsafe_command, us_document, small, tmp_path):
    config, out = tmp_path / "config.json", tmp_path / "out"
    del us_document["privacy_budget"]
    config.write_text(json.dumps(us_document))
    outcome = phsafe_command("tabulate", config, small, out, "--finished", "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert (document["finished"], document["truncated"]) == (True, False)
    names = [f"PH{i}.csv" for i in range(1, 9)]
    assert sorted(path.name for path in out.iterdir()) == ["NOT_PRIVATE", *names]
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o600}
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert "NOT PRIVATE" in outcome.err
    text = (out / "PH1.csv").read_text().splitlines()
    assert text[0] == "REGION_TYPE|REGION_ID|ITERATION_CODE|CELL|LABEL|ESTIMATE"
    assert document["rows"]["PH1"] == len(text) - 1
    assert any(line.endswith("|") for line in text), "the average of an empty group is empty"
    exact = phsafe.exact_tables(config, small)
    for name, frame in exact.items():
        read = pl.read_csv(out / f"{name}.csv", separator="|", schema=frame.schema)
        assert read.equals(frame, null_equal=True)
    cut = tmp_path / "cut"
    assert phsafe_command("tabulate", config, small, cut, "--finished", "--truncate").code == 0
    assert (cut / "PH7.csv").read_text() != (out / "PH7.csv").read_text()


def test_finished_tables_without_noise_are_no_estimates(phsafe_command, us, small, tmp_path):
    """A report must not take them for the tables of a release."""
    phsafe.release(us, small, tmp_path / "release", ledger=tmp_path / "small.ledger", new_ledger=True)
    phsafe.exact_tables(us, small, tmp_path / "exact")
    outcome = phsafe_command("report", tmp_path / "release", tmp_path / "x.html", "--estimates", tmp_path / "exact")
    assert outcome.code == 1
    assert "expected a folder of finished tables" in outcome.err


def test_an_existing_folder_and_bad_thresholds_are_refused_together(us_document, small, tmp_path):
    with pytest.raises(PHSafeError) as refused:
        phsafe.exact_tables(us_document | {"tau": {}}, small, tmp_path)
    assert "tau" in str(refused.value) and "doesn't exist yet" in str(refused.value)
    assert list(tmp_path.iterdir()) == []
