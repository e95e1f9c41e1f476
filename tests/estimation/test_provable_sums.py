"""Sums are made equal only where the declarations prove that they are: catalogs with partial cells and vacant units."""

from dataclasses import replace

import numpy as np
import pytest

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation import estimate_frames, provable_sums
from phsafe.estimation.constraints import is_within
from phsafe.estimation.fit import fit
from phsafe.estimation.identities import counts_the_same, identities
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.provable_sums import is_covered, is_occupied, same_cells
from phsafe.model.conditions import where
from phsafe.model.spec import Catalog, Line, Table, Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

STATES = ("15", "44", "56")
PEOPLE = where(RTYPE=3)
GRANDCHILDREN = Tabulation("PH9", {1: where(RELSHIP="30")}, persons=PEOPLE)
#: All housing units, vacant or not: tenure 0 is vacant.
HOUSING = Tabulation("PH10", {1: where(TEN="0"), 2: where(TEN=["1", "2", "3", "4"])}, units=where(RTYPE=2))
#: A cell for young owners and one for others: every age and every tenure is in some cell, but not every combination.
CORNERS = Tabulation(
    "PH11", {1: where(QAGE=range(18), TEN="1"), 2: where(QAGE=range(18, 116), TEN=["2", "3", "4"])}, persons=PEOPLE
)


def table(tabulation):
    lines = tuple(Line(number, f"Line {number}", 1) for number in tabulation.cells)
    total = Line(max(tabulation.cells) + 1, "Total:", 0, tuple(tabulation.cells))
    return Table(tabulation.name, "Title", "Universe", (total, *lines) if len(lines) > 1 else lines, (tabulation,))


def config_with(*tabulations):
    catalog = Catalog((*CENSUS_2020.tables, *map(table, tabulations)), CENSUS_2020.levels)
    document = dict(parameters_2020("us-measured")) | {"state_filter": list(STATES)}
    levels = dict.fromkeys(document["privacy_budget"]["PH7"], 0.01)
    document["privacy_budget"] |= {t.name: levels for t in tabulations}
    document["tau"] |= {t.name: 10 for t in tabulations if t.counts_persons}
    return Config.load(document, catalog)


@pytest.fixture(scope="module")
def config():
    return config_with(GRANDCHILDREN, HOUSING, CORNERS)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("records") / "data", 20_000, STATES, seed=3)


def counts(config, records):
    """Exact counts with and without truncation."""
    return [count(config, records, Settings(skip_validation=True, truncate=cut)) for cut in (True, False)]


@pytest.fixture(scope="module")
def population(config, records):
    return counts(config, records)


def test_shipped_tables_count_the_same_people(config):
    by_name = {t.name: t for t in config.catalog.tabulations}
    for one, other in (("PH1_num", "PH2"), ("PH1_num", "PH7"), ("PH2", "PH7"), ("PH1_denom", "PH8_denom")):
        assert counts_the_same(config, by_name[one], by_name[other])
    assert is_within(config, by_name["PH6"], by_name["PH3"]) and is_within(config, by_name["PH4"], by_name["PH7"])
    assert counts_the_same(config, by_name["PH2_oversized"], by_name["PH7_oversized"])


def test_cells_of_part_of_a_universe_prove_nothing_about_the_rest(config):
    ph7, ph4 = config.catalog.tabulation("PH7"), config.catalog.tabulation("PH4")
    for partial in (GRANDCHILDREN, CORNERS):
        assert is_covered(partial, ph7) and not is_covered(ph7, partial)
        assert not counts_the_same(config, ph7, partial)
        assert is_within(config, ph4, ph7) and not is_within(config, ph4, partial)


def test_cells_of_the_same_people_are_found_in_the_smallest_sets(config):
    by_name = {t.name: t for t in config.catalog.tabulations}
    ages = [tuple(range(first, first + 4)) for first in (3, 8, 13, 18)]
    assert same_cells(by_name["PH3"], by_name["PH6"]) == tuple(((4 + i,), ages[i]) for i in range(4))
    assert same_cells(by_name["PH6"], by_name["PH3"]) == tuple((ages[i], (4 + i,)) for i in range(4))
    assert same_cells(by_name["PH1_num"], by_name["PH7"]) == (((2, 3), (2, 3, 4)),)
    for one, other in (("PH3", "PH7"), ("PH4", "PH7"), ("PH4", "PH6"), ("PH2", "PH4")):
        assert same_cells(by_name[one], by_name[other]) == ()


def test_filters_for_group_quarters_count_nobody(config):
    """Record types aren't compared, because only housing units are counted; a filter that excludes them counts none."""
    ph6 = config.catalog.tabulation("PH6")
    for strange in ({"persons": where(RTYPE=5)}, {"units": where(RTYPE=4)}):
        nobody = replace(ph6, name="PH6b", **strange)
        assert same_cells(ph6, nobody) == ()


def test_too_many_combinations_prove_nothing(config, monkeypatch):
    one, other = config.catalog.tabulation("PH1_num"), config.catalog.tabulation("PH7")
    for proof in (is_covered, same_cells):
        assert proof(one, other)
        proof.cache_clear()
        with monkeypatch.context() as few:
            few.setattr(provable_sums, "MOST", 1)
            assert not proof(one, other)
        proof.cache_clear()


def test_vacant_units_are_in_no_iteration():
    assert not is_occupied(HOUSING) and is_occupied(replace(HOUSING, units=where(RTYPE=2, TEN=["1", "2"])))
    assert is_occupied(GRANDCHILDREN)


def test_every_identity_holds_in_the_exact_counts(config, population, noisy):
    """Vacant units make iterations fall short of everyone, and partial cells fall short of their universe."""
    kept, _ = population
    release = measured(config, noisy(config, kept, seed=1))
    exact = np.concatenate([kept[key] for key in release.blocks])
    gaps = [exact[plus].sum() - exact[minus].sum() for plus, minus in identities(release)]
    assert len(gaps) > 300 and not np.any(gaps)
    everyone, by_race = kept["PH10", "state_*"].sum(), kept["PH10", "state_A-G"].sum()
    assert by_race < everyone
    assert fit(release).projection.freedom > 200


def test_tables_without_shares_remain_truncated_and_say_so(config, population, noisy, tmp_path):
    kept, _everyone = population
    estimates = estimate_frames(config, noisy(config, kept, seed=2))
    truncation = estimates.diagnostics["truncation"]
    assert truncation["without_shares"] == ["PH9", "PH11"]
    sentence = "People beyond the thresholds are left out of PH9 and PH11: public data have no shares for them."
    assert truncation["about"].endswith(sentence)
    truncated = estimate_frames(config, noisy(config, kept, seed=2), target="truncated")
    widths = [e.tables["PH9"]["STD_ERROR"].to_list() for e in (estimates, truncated)]
    assert widths[0] == widths[1]
    import openpyxl

    book = openpyxl.load_workbook(estimates.write(tmp_path / "out") / "tables.xlsx")
    assert sentence in book["Notes"]["B3"].value


def test_others_count_everybody_if_a_table_remains_truncated(records, noisy):
    """PH9 counts the people of PH7, but by their own race, for which public data have no shares."""
    ages = {1: where(QAGE=range(18)), 2: where(QAGE=range(18, 116))}
    config = config_with(Tabulation("PH9", ages, PEOPLE, iterate_by="person"))
    kept, everyone = ({key: 100 * own for key, own in of.items()} for of in counts(config, records))
    estimates = estimate_frames(config, noisy(config, kept, seed=1))
    assert estimates.diagnostics["truncation"]["without_shares"] == ["PH9"]
    for name, line, truth in (("PH7", 1, everyone), ("PH9", 3, kept)):
        shown = estimates.tables[name].filter(REGION_TYPE="STATE", ITERATION_CODE="*", CELL=line)
        goal = truth[name, "state_*"].reshape(len(STATES), -1).sum(axis=1)
        assert (np.abs(shown["ESTIMATE"].to_numpy() - goal) < 4 * shown["STD_ERROR"].to_numpy()).all()
    assert estimates.compare("PH7[HI, 1]", "PH9[HI, 3]").is_more_than_noise
