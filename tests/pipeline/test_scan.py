import json

import numpy as np
import polars as pl
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.counting.kernel import DROPPED
from phsafe.counting.plan import Plan
from phsafe.counting.vectorize import Tabulated
from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import ConfigError, DataError
from phsafe.model.conditions import where
from phsafe.model.levels import STATE, UNATTRIBUTED, Geography, Level, digits
from phsafe.model.spec import Line, Table, Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.pipeline.scan import Settings, count, scan_tables
from phsafe.readers import load


def tabulate(config, data, catalog=CENSUS_2020):
    """Made-up tables leave records out on purpose, so nothing is validated."""
    return phsafe.tabulate(config, data, catalog=catalog, skip_validation=True)


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def extended(tabulation, us, tau=None, levels=()):
    """A config with one table more and nothing else changed."""
    lines = tuple(Line(number, f"Cell {number}") for number in sorted(tabulation.cells))
    table = Table("PH9", "Made up", "Everybody", lines, (tabulation,))
    catalog = CENSUS_2020.extended((table,), levels)
    document = json.loads(us.read_text())
    for spec in (t for t in catalog.tabulations if t.beyond is None):
        given = document["privacy_budget"].setdefault(spec.name, {})
        for level in catalog.levels_of(spec):
            given.setdefault(level.key, 0.5)
    if tau:
        document["tau"]["PH9"] = tau
    return document, catalog


def cells(frame, **keys):
    chosen = frame.filter(TABULATION="PH9", **keys)
    return dict(zip(chosen["DATA_CELL"], chosen["COUNT"], strict=True))


def joined(frames):
    """Household persons beside their unit and state, by other means than the engine's."""
    units, geo, persons = (frames[name].cast({"RTYPE": int}) for name in ("units", "geo", "persons"))
    homes = units.filter(RTYPE=2).join(geo.filter(RTYPE=2).select("MAFID", "TABBLKST", "TABBLKCOU"), on="MAFID")
    return homes, persons.filter(RTYPE=3).join(homes, on="MAFID")


def test_a_new_person_table_is_one_spec(us, small_frames):
    spec = Tabulation(
        "PH9",
        persons=where(RTYPE=3, RELSHIP=["28", "29", "30"]),
        cells={
            1: where(RELSHIP="28"),
            2: where(RELSHIP=["29", "30"], TEN=["1", "2"]),
            5: where(RELSHIP=["29", "30"], TEN="3"),
        },
        iterate_by="person",
    )  # fmt: skip
    document, catalog = extended(spec, us, tau=50)
    frame = tabulate(document, small_frames, catalog=catalog)
    _, people = joined(small_frames)
    older = pl.col("RELSHIP").is_in(["29", "30"])
    expected = {
        1: people.filter(RELSHIP="28").height,
        2: people.filter(older, pl.col("TEN").is_in(["1", "2"])).height,
        5: people.filter(older, TEN="3").height,
    }
    assert cells(frame, REGION_TYPE="USA", ITERATION_CODE="*") == expected
    assert sum(expected.values()) > 20
    white_alone = people.filter(CENRACE="01", CENHISP="1", RELSHIP="28").height
    assert cells(frame, REGION_TYPE="USA", ITERATION_CODE="I")[1] == white_alone > 0
    assert frame.filter(TABULATION="PH9").height == 52 * 10 * 3
    # What was there before is as it was.
    before = tabulate(us, small_frames)
    assert frame.filter(pl.col("TABULATION") != "PH9").equals(before)


def test_a_new_person_table_by_householder_is_truncated_too(us, small_frames):
    spec = Tabulation("PH9", persons=where(), cells={1: where()})
    document, catalog = extended(spec, us, tau=1)
    frame = tabulate(document, small_frames, catalog=catalog)
    units, geo, persons = (small_frames[name].cast({"RTYPE": int}) for name in ("units", "geo", "persons"))
    homes = units.filter(RTYPE=2).join(geo.filter(RTYPE=2), on="MAFID")
    assert cells(frame, REGION_TYPE="USA", ITERATION_CODE="*") == {
        1: persons.filter(pl.col("MAFID").is_in(homes["MAFID"].to_list()))["MAFID"].n_unique()
    }


def test_a_new_unit_table_is_one_spec(us, small_frames):
    spec = Tabulation("PH9", units=where(HHT=["4", "6"]), cells={3: where(TEN="3"), 1: where(TEN=["1", "2"])})
    document, catalog = extended(spec, us)
    frame = tabulate(document, small_frames, catalog=catalog)
    homes, _ = joined(small_frames)
    alone = homes.filter(pl.col("HHT").is_in(["4", "6"]))
    assert cells(frame, REGION_TYPE="USA", ITERATION_CODE="*") == {
        1: alone.filter(pl.col("TEN").is_in(["1", "2"])).height,
        3: alone.filter(TEN="3").height,
    }
    black = alone.filter(HHRACE="02", TEN="3").height
    assert cells(frame, REGION_TYPE="USA", ITERATION_CODE="B")[3] == black


COUNTY = Geography(
    "county", "County", "COUNTY", ("TABBLKST", "TABBLKCOU"),
    tuple((f"{state}{county}", "") for state, _ in STATE.regions for county in ("001", "003", "999")), covers=False,
)  # fmt: skip


def county_config(us):
    catalog = CENSUS_2020.extended(levels=(Level(COUNTY, UNATTRIBUTED),))
    document = json.loads(us.read_text())
    for levels in document["privacy_budget"].values():
        levels["county_*"] = 0.1
    return document, catalog


def test_a_new_geography_is_one_declaration(us, small_frames):
    document, catalog = county_config(us)
    third = pl.when(pl.int_range(pl.len()) % 3 == 0)
    geo = small_frames["geo"].with_columns(TABBLKCOU=third.then(pl.lit("003")).otherwise("TABBLKCOU"))
    frames = small_frames | {"geo": geo}
    frame = tabulate(document, frames, catalog=catalog)
    counties = frame.filter(TABULATION="PH1_denom", REGION_TYPE="COUNTY")
    assert counties["REGION_ID"].to_list() == [code for code, _ in COUNTY.regions if code[:2] != "72"]
    homes, _ = joined(frames)
    occupied = homes.filter(pl.col("HHT") != "0")
    expected = dict(occupied.group_by(pl.col("TABBLKST") + pl.col("TABBLKCOU")).len().iter_rows())
    found = dict(zip(counties["REGION_ID"], counties["COUNT"], strict=True))
    assert {region: n for region, n in found.items() if n} == {r: n for r, n in expected.items() if r in found}
    assert len({region[2:] for region, n in found.items() if n}) == 2
    assert all(found[region] == 0 for region in found if region.endswith("999"))
    assert frame.filter(pl.col("REGION_TYPE") != "COUNTY").equals(tabulate(us, frames))


@pytest.mark.parametrize("odd", ["1", "0001", "abc", "", None, "00 ", "０01"])
def test_an_invalid_region_code_drops_out_of_its_geography_only(us, small_frames, engine, odd):
    document, catalog = county_config(us)
    keep = {"PH1_denom"}
    for name, levels in document["privacy_budget"].items():
        document["privacy_budget"][name] = {key: v if name in keep else 0 for key, v in levels.items()}
    config = Config.load(document, catalog)
    geo = small_frames["geo"].with_columns(TABBLKCOU=pl.lit(odd, dtype=pl.String))
    counts = scan_tables(load(small_frames | {"geo": geo}, engine), config, engine).counts()
    assert counts["PH1_denom", "county_*"].sum() == 0
    assert counts["PH1_denom", "state_*"].sum() == counts["PH1_denom", "usa_*"].sum() > 300


def test_a_level_without_its_column_is_refused(us, small_frames):
    document, catalog = county_config(us)
    frames = small_frames | {"geo": small_frames["geo"].select("RTYPE", "MAFID", "TABBLKST")}
    with pytest.raises(DataError, match="TABBLKCOU is missing"):
        tabulate(document, frames, catalog=catalog)


def small_regions(us, more, code):
    """A config with a level below tracts."""
    columns = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", *more)
    code = code.ljust(sum(digits(column) for column in columns), "0")
    block = Geography("county", "Block", "BLOCK", columns, ((code, ""),), covers=False)
    return county_config(us)[0], CENSUS_2020.extended(levels=(Level(block, UNATTRIBUTED),))


def test_too_many_geographic_columns_are_refused(us, small_frames):
    document, catalog = small_regions(us, ("TABBLK", "PLACEFP"), "44")
    with pytest.raises(ConfigError, match="fewer geo columns"):
        tabulate(document, small_frames, catalog=catalog)


def test_block_groups_are_counted(us, small_frames):
    """More regions than an array has places for."""
    geo = small_frames["geo"].with_columns(
        TABBLKCOU=pl.lit("999"), TABTRACTCE=pl.lit("999999"), TABBLKGRPCE=pl.lit("9")
    )
    document, catalog = small_regions(us, ("TABBLKGRPCE",), "449999999999")
    frame = tabulate(document, small_frames | {"geo": geo}, catalog=catalog)
    blocks = frame.filter(REGION_TYPE="BLOCK")
    state = frame.filter(REGION_TYPE="STATE", REGION_ID="44", ITERATION_CODE="*")
    assert blocks["COUNT"].to_list() == state["COUNT"].to_list()
    assert blocks["COUNT"].sum() > 0


def test_a_config_without_budgets_counts_nothing(us_document, small_frames, engine):
    nothing = {name: dict.fromkeys(levels, 0) for name, levels in us_document["privacy_budget"].items()}
    config = Config.load(us_document | {"privacy_budget": nothing})
    tabulated = scan_tables(load(small_frames, engine), config, engine)
    assert tabulated.counts() == tabulated.unclassified() == {}


def test_records_that_fit_no_cell_are_counted(us, small_frames, engine):
    config = Config.load(us)
    before = scan_tables(load(small_frames, engine), config, engine)
    assert set(before.unclassified().values()) == {0}
    odd = small_frames["units"].with_columns(TEN=pl.lit("0"))
    after = scan_tables(load(small_frames | {"units": odd}, engine), config, engine)
    found = after.unclassified()
    counts = before.counts(truncate=False)
    assert found["PH7"] == counts["PH7", "usa_*"].sum() > 0
    assert found["PH8_denom"] == counts["PH8_denom", "usa_*"].sum() > 0
    assert found["PH2"] == found["PH1_num"] == 0


def test_progress_reports_stages_in_order(us, small_frames, engine):
    seen = []
    config = Config.load(us)
    scan_tables(load(small_frames, engine), config, engine, progress=lambda stage, done: seen.append((done, stage)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert (seen[0], seen[-1]) == ((0.0, "counting"), (1.0, "counted"))


def test_the_last_state_is_counted(us, small_frames, engine):
    config = Config.load(us)
    last = small_frames | {"geo": small_frames["geo"].with_columns(TABBLKST=pl.lit(config.states[-1]))}
    was, now = (scan_tables(load(frames, engine), config, engine) for frames in (small_frames, last))
    for (name, level), counts in now.counts().items():
        if level.startswith("usa"):
            np.testing.assert_array_equal(counts, was.counts()[name, level])


def test_a_negative_count_is_an_internal_error(us):
    plan = Plan(Config.load(us))
    counted = plan.kernel().empty()
    # More persons dropped than counted, in the first state and in classes that have a cell.
    tally = counted.tallies["PH1_num" + DROPPED]
    codes = np.arange(tally.size)
    tally.add(codes, np.ones(len(codes), np.int64))
    with pytest.raises(AssertionError, match="a count is negative"):
        Tabulated(plan, counted).counts()


def test_valid_input_is_counted_and_invalid_input_is_refused(us, small_frames):
    counts = phsafe.tabulate(us, small_frames)
    assert counts.equals(phsafe.tabulate(us, small_frames, skip_validation=True))
    broken = small_frames | {"geo": small_frames["geo"].head(100)}
    with pytest.raises(DataError, match="failed validation"):
        phsafe.tabulate(us, broken)
    assert phsafe.tabulate(us, broken, skip_validation=True)["COUNT"].sum() < counts["COUNT"].sum()


def test_counting_opens_the_source_and_gives_one_vector_for_each_measurement(us, small_frames):
    config = Config.load(us)
    counts = count(config, small_frames, Settings(skip_validation=True))
    assert set(counts) == {(m.tabulation.name, m.level.key) for m in config.measurements()}
    assert counts["PH1_denom", "usa_*"].tolist() == [374]
