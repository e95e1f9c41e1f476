"""Results in a notebook: rich displays, frames for other libraries, charts, and error messages."""

import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import polars as pl
import pytest

import phsafe
from phsafe.errors import PHSafeError
from phsafe.estimation import Estimates
from phsafe.privacy.mode_comparison import compare
from phsafe.releases.release_folder import Release


@pytest.fixture(scope="module")
def release(partial) -> Release:
    return partial("no average")


@pytest.fixture(scope="module")
def estimates(release) -> Estimates:
    return phsafe.estimate(release, "independent")


def test_results_convert_to_polars_arrow_and_pandas(release, estimates):
    costs = release.budget
    for result, key in ((release, "TABULATION"), (estimates, "TABLE"), (costs, "TABULATION")):
        frame = result.to_polars()
        assert frame.columns[0] == key
        assert pl.from_arrow(result.to_arrow()).equals(frame)
        assert pl.from_pandas(result.to_pandas()).shape == frame.shape
    assert release.to_polars().height == sum(release.table(name).height for name in release.tables)
    assert estimates.to_polars().height == sum(frame.height for frame in estimates.tables.values())
    assert costs.to_polars()["LOSS"].sum() == pytest.approx(float(costs.loss.unbounded))


def test_missing_pandas_is_explained(release, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PHSafeError, match="pip install pandas"):
        release.to_pandas()


def test_table_of_a_region_by_name_or_code(estimates):
    by_name = estimates.table("PH7", region="rhode island", iteration="Total population")
    assert by_name.equals(estimates.table("PH7", region="44", iteration="*"))
    assert by_name["LABEL"].to_list()[1] == "Owned with a mortgage or a loan"
    for wrong, why in (
        ({"name": "PH9"}, "expected one of PH2, PH7, got 'PH9'"),
        ({"name": "ph1"}, "PH1: the release has no measurements of PH1_num and PH1_denom"),
        ({"name": "PH2", "region": "44", "iteration": "A"}, "PH2 is not published for this region and iteration"),
        ({"name": "PH7", "region": "Utopia"}, "region: expected a name or code, such as"),
        ({"name": "PH7", "iteration": "Z"}, r"iteration: expected one of \*, A"),
    ):
        with pytest.raises(PHSafeError, match=why):
            estimates.table(**wrong)


def numbers(svg) -> set[str]:
    return {node.text for node in ET.fromstring(str(svg)).iter() if node.tag.endswith("text")}


def test_charts_are_standalone_svg_with_every_number(estimates, tmp_path):
    chart = estimates.plot("PH7", region="Wyoming")
    assert chart._repr_svg_() == chart.write(tmp_path / "chart.svg").read_text()
    for row in estimates.table("PH7", region="56").iter_rows(named=True):
        shown = f"{row['ESTIMATE']:,}  ({row['LOWER_90']:,} – {row['UPPER_90']:,})"
        assert shown in numbers(chart)
    everywhere = estimates.plot("PH2", line=4)
    assert {"Rhode Island", "Wyoming"} <= numbers(everywhere)
    for wrong, why in (
        ({"line": 99}, "line: expected the number of one of the 13 lines of PH2, got 99"),
        ({"region": "44", "line": 1}, "got both"),
        ({"iteration": "A"}, "PH2 is not published for this region and iteration"),
    ):
        with pytest.raises(PHSafeError, match=why):
            estimates.plot("PH2", **wrong)


def test_budget_chart_has_every_measurement(release):
    chart = release.budget.plot()
    (axes,) = chart.figure.axes
    assert len(axes.patches) == len(release.budget.rows)
    widths = sum(patch.get_width() for patch in axes.patches)
    assert widths == pytest.approx(float(release.budget.loss.unbounded))
    assert {"PH2", "PH7", "State × everyone", "Privacy loss (ρ)"} <= numbers(chart)


def test_charts_have_axes_and_are_saved_by_their_ending(estimates, tmp_path):
    chart = estimates.plot("ph7", region=56)
    assert "People" in chart.figure.axes[0].get_xlabel()
    assert chart.write(tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert chart.write(tmp_path / "chart.pdf").read_bytes().startswith(b"%PDF")
    assert str(estimates.plot("ph7", region=56)) == str(chart)


def test_missing_matplotlib_is_explained(estimates, monkeypatch):
    monkeypatch.setattr("phsafe.system.optional_packages.find_spec", lambda name: None)
    with pytest.raises(PHSafeError, match=r"not installed: matplotlib; .+ pip install 'phsafe\[plot\]'"):
        estimates.plot("PH7")


def test_representations_are_short(release, estimates):
    config = release.config
    for result in (config, config.catalog, release, estimates, release.budget, compare(config), phsafe.config("us")):
        assert len(repr(result)) < 200 and "\n" not in repr(result)
        assert str(result) == repr(result)
    assert repr(phsafe.config("us")) == "Config(51 states, 46 measurements with ρ = 1.257281, published)"
    assert repr(phsafe.CENSUS_2020) == "Catalog(PH1, PH2, PH3, PH4, PH5, PH6, PH7, PH8; 6 levels)"


@pytest.mark.parametrize("wyoming", ["WY", "wy", "Wyoming", "wyoming ", "56", 56])
def test_a_region_has_many_names(estimates, wyoming):
    frame = estimates.table("ph7", region=wyoming)
    assert frame["REGION"].unique().to_list() == ["Wyoming"]
    assert frame.equals(estimates.table("PH7", region="56"))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ({"name": "PH77"}, "did you mean PH7"),
        ({"name": "PH7", "region": "Wioming"}, "did you mean Wyoming"),
        ({"name": "PH7", "iteration": "asien alone"}, "did you mean Asian alone"),
    ],
)
def test_mistakes_are_answered_with_what_was_meant(estimates, wrong, meant):
    with pytest.raises(PHSafeError, match=meant):
        estimates.table(**wrong)


def test_measurements_have_names_too(release):
    frame = release.table("ph7")
    assert {"Rhode Island", "Wyoming"} <= set(frame["REGION"])
    assert set(frame["RACE_ETHNICITY"]) == {"Total population"}
    with pytest.raises(PHSafeError, match="got 'PH70'; did you mean PH7"):
        release.table("PH70")


def test_displays_are_complete_and_escape_outside_text(release, estimates):
    evil = "<script>alert(1)</script>"
    foreign = Release(release.path, release.config, {**release.manifest, "release_id": evil})
    shown = foreign._repr_html_()
    assert "&lt;script&gt;" in shown
    assert evil not in shown
    assert "PH2" in shown
    displayed = replace(estimates, diagnostics={"noise_test": {"verdict": evil}})._repr_html_()
    assert evil not in displayed
    assert "PH7 Total Population in Occupied Housing Units by Tenure" in displayed
    both = release.budget._repr_html_() + compare(release.config)._repr_html_()
    for row in release.budget.rows:
        assert f"{row.moe:,.2f}" in both
    for html in (shown, displayed, both):
        assert len(re.findall("<tr>", html)) == len(re.findall("</tr>", html)) > 2
