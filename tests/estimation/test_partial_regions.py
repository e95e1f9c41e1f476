"""Everybody is estimated everywhere, also where a level lists only some of the smaller regions."""

from __future__ import annotations

import numpy as np
import pytest

from phsafe import CENSUS_2020
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.estimation import estimate_frames
from phsafe.estimation.effects import _people, leaf_levels
from phsafe.estimation.fit import fit
from phsafe.estimation.public_shares import public_shares
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

STATES = ("44", "56")
COUNTIES = {"44001": "Bristol", "44003": "Kent", "44005": "Newport", "44007": "Providence", "44009": "Washington"}
#: Households are repeated as often, so that noise is small.
TIMES = 1000


def with_regions(name, *geographies):
    """A shipped config with levels of smaller regions for PH7; a geography is (key, column, regions)."""
    document = CENSUS_2020.to_document()
    config = dict(parameters_2020(name)) | {"state_filter": list(STATES)}
    for key, column, regions in geographies:
        document["geographies"].append(
            {
                "key": key,
                "label": key.title(),
                "region_type": key.upper(),
                "columns": ["TABBLKST", *([column] if isinstance(column, str) else column)],
                "covers": False,
                "puerto_rico": False,
                "regions": regions,
            }
        )
        document["levels"].append(f"{key}_*")
        for tabulation, levels in config["privacy_budget"].items():
            levels[f"{key}_*"] = 0.1 if tabulation == "PH7" else 0
    return Config.load(config, catalog=document)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("records") / "data", 12_000, STATES, seed=3)


@pytest.fixture(scope="module")
def finished(folder, noisy):
    """A function from a config to its finished tables and the truth."""

    def finish(config):
        kept, everyone = (count(config, folder, Settings(skip_validation=True, truncate=cut)) for cut in (True, False))
        frames = noisy(config, {key: TIMES * counts for key, counts in kept.items()}, seed=1)
        return estimate_frames(config, frames), {key: TIMES * counts for key, counts in everyone.items()}

    return finish


@pytest.mark.parametrize("listed", [list(COUNTIES), ["44001", "44007"]])
@pytest.mark.parametrize("name", ["us-measured", "us"])
def test_states_without_listed_counties_include_everybody(finished, name, listed):
    config = with_regions(name, ("county", "TABBLKCOU", {code: COUNTIES[code] for code in listed}))
    estimates, everyone = finished(config)
    plain, _ = finished(with_regions(name))
    for region, truth in (
        ("44", everyone["PH7", "state_*"][:3].sum()),
        ("56", everyone["PH7", "state_*"][3:].sum()),
        ("US", everyone["PH7", "usa_*"].sum()),
    ):
        found, usual = (one.interval(f"PH7[{region}, 1]") for one in (estimates, plain))
        assert abs(found.estimate - truth) < 3.5 * found.std_error, region
        assert 0.7 * usual.std_error < found.std_error < 1.4 * usual.std_error, region
    truths = dict(zip(listed, everyone["PH7", "county_*"].reshape(len(listed), -1).sum(axis=1), strict=True))
    for code, truth in truths.items():
        found = estimates.interval(f"PH7[{code}, 1]")
        assert abs(found.estimate - truth) < 3.5 * found.std_error, code


def test_groups_of_listed_counties_are_scaled_to_all_their_margins(finished):
    """The races of counties follow from counties, and from the races of the states around them."""
    config = with_regions("us", ("county", "TABBLKCOU", COUNTIES))
    estimates, _ = finished(config)
    release = estimates.model.measured
    universe = [t for t in config.catalog.tabulations if t.name == "PH7"]
    leaves = next(leaf_levels(release, fit(release), universe, public_shares()))
    people = _people(fit(release), leaves)
    for level in ("county_*", "state_A-G"):
        block = release.blocks["PH7", level]
        member = leaves.membership(leaves.groups, block.groups, block.level.geography.width)
        measured = fit(release).estimates[block.positions()].sum(axis=1)
        assert member @ people == pytest.approx(np.maximum(measured, 0), rel=0.02, abs=300)


def test_the_rest_of_regions_smaller_than_states_is_unknown(finished):
    tracts = {"44001030100": "A tract of Bristol"}
    config = with_regions("us", ("county", "TABBLKCOU", COUNTIES), ("tract", ("TABBLKCOU", "TABTRACTCE"), tracts))
    with pytest.raises(PHSafeError, match="got county and tract; choose the target truncated"):
        finished(config)


def test_regions_that_do_not_contain_each_other_are_refused(finished):
    places = {"4459000": "Providence city"}
    config = with_regions("us", ("county", "TABBLKCOU", COUNTIES), ("place", "PLACEFP", places))
    with pytest.raises(PHSafeError, match="got county and place; choose the target truncated"):
        finished(config)
