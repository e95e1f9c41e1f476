"""The output folder of a study: page, tables, plot and shares."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import polars as pl
import pytest

from phsafe.accuracy_study.study_page import empty_regions_warning, page
from phsafe.errors import PHSafeError
from phsafe.explorer.public_tables import truncation


@pytest.fixture(scope="module")
def folder(report, tmp_path_factory):
    return report.write(tmp_path_factory.mktemp("accuracy") / "out")


def test_folder_is_complete(report, folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "accuracy.html", "cells.csv", "lines.csv", "shares.json", "tables.csv", "tabulations.csv", "tau.svg",
    ]  # fmt: skip
    for name in ("tabulations", "cells", "tables", "lines"):
        frame = getattr(report, name)
        read = pl.read_csv(folder / f"{name}.csv", separator="|", schema=frame.schema)
        assert read.equals(frame)
    with pytest.raises(PHSafeError, match="doesn't exist yet"):
        report.write(folder)


def test_explorer_reads_the_shares(report, folder):
    found = truncation(folder / "shares.json")
    assert found.shares == report.shares
    assert found.dropped("PH7", 3) == report.shares["PH7"][3]
    assert "phsafe accuracy" in found.source


def test_page_is_self_contained(folder):
    text = (folder / "accuracy.html").read_text()
    assert not re.search(r"<script|<link|<img|<iframe|src=|url\((?!#)|@import|https?://(?!www\.w3\.org)", text)
    assert "default-src 'none'" in text


def test_page_shows_every_level(report):
    text = page(report)
    rows = report.base(report.tabulations)
    assert text.count("<tr") > 2 * len(rows) + len(report.base(report.tables)) // 2
    for tabulation in rows["TABULATION"].unique():
        assert f">{tabulation}<" in text
    assert "As stated" in text
    assert text.count('class="best') == 6 * 2 + 1
    assert "lowest at τ" in text
    assert "RMSE of estimates at each threshold, joint" in text


def test_page_reports_noise_that_is_not_as_stated(report):
    off = replace(report, tabulations=report.tabulations.with_columns(AS_STATED=pl.lit(False)))
    assert "Not as stated" in page(off)
    assert page(off).count('<b class="wrong">no</b>') == len(report.base(report.tabulations))


def test_outside_text_is_escaped(report):
    text = page(replace(report, source="<script>alert(1)</script>", empty_regions=("01", "02", "04", "05")))
    assert "<script" not in text
    assert "Alabama, Alaska, Arizona and 1 more" in text
    assert "56" in empty_regions_warning(["5699"])


def test_plot_marks_each_minimum(folder):
    plot = ET.parse(folder / "tau.svg").getroot()
    circles = [one for one in plot.iter() if one.get("class", "").startswith("best")]
    # One tabulation at six levels with two budgets, plus the legend.
    assert len(circles) == 6 * 2 + 1


def test_single_threshold_has_no_plot(report, tmp_path):
    plain = replace(report, tabulations=report.base(report.tabulations), tests=report.tests[:1])
    out = plain.write(tmp_path / "out")
    assert not (out / "tau.svg").exists()
    assert "Total error by threshold" not in (out / "accuracy.html").read_text()
