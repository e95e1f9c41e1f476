"""`phsafe.tabulate`: the known answers, and one answer for every form of the data."""

import gzip
import shutil

import numpy as np
import polars as pl
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.engines import EngineOptions
from phsafe.errors import PHSafeError
from phsafe.model.levels import LEVELS
from phsafe.model.tables import CENSUS_2020
from phsafe.pipeline.exact_counts import write_counts

NAMES = ("persons", "units", "geo")
ONE_THREAD = EngineOptions(threads=1)


def same_on_every_cell(found, expected):
    """Equal where a count is expected, and zero elsewhere."""
    assert set(expected) <= set(found)
    assert {key: n for key, n in found.items() if n} == {key: n for key, n in expected.items() if n}


@pytest.fixture(scope="module")
def small_counts(us, small):
    return phsafe.tabulate(us, small)


def test_small_truncated(small, small_counts, expected, as_dict):
    same_on_every_cell(as_dict(small_counts), expected(small / "expected_truncated_counts.csv"))


def test_small_without_truncation(us, small, expected, as_dict):
    counts = as_dict(phsafe.tabulate(us, small, truncate=False))
    same_on_every_cell(counts, expected(small / "expected_counts.csv"))


def test_truncation_drops_persons_and_never_units(us, small, small_counts):
    everyone = phsafe.tabulate(us, small, truncate=False)
    dropped = everyone.with_columns(DROPPED=everyone["COUNT"] - small_counts["COUNT"])
    units = pl.col("TABULATION").str.ends_with("_denom")
    assert dropped.filter(units)["DROPPED"].abs().sum() == 0
    assert dropped.filter(~units)["DROPPED"].min() == 0 and dropped.filter(~units)["DROPPED"].max() > 0


def test_parity_with_the_production_program(us, parity, expected, as_dict):
    counts = as_dict(phsafe.tabulate(us, parity))
    production = expected(parity / "truncated_counts_2020.csv")
    assert len(production) == len(counts) == 12_688
    assert counts == production


def test_a_state_without_records_gets_zeros(us, small_frames):
    nobody = small_frames | {"geo": small_frames["geo"].filter(pl.col("TABBLKST") != "44")}
    counts = phsafe.tabulate(us, nobody, skip_validation=True, options=ONE_THREAD)
    rhode_island = counts.filter(REGION_ID="44")
    assert rhode_island.height == 12_688 // 52
    assert rhode_island["COUNT"].sum() == 0
    assert counts["COUNT"].sum() > 0


def test_puerto_rico_counts_puerto_rico_only(pr, small_frames):
    states = pl.when(pl.int_range(pl.len()) < 100).then(pl.lit("72")).otherwise("TABBLKST")
    frames = small_frames | {"geo": small_frames["geo"].with_columns(TABBLKST=states)}
    counts = phsafe.tabulate(pr, frames, skip_validation=True, options=ONE_THREAD)
    assert counts["REGION_TYPE"].unique().to_list() == ["STATE"]
    assert counts["REGION_ID"].unique().to_list() == ["72"]
    assert 0 < counts.filter(TABULATION="PH1_denom", ITERATION_CODE="*")["COUNT"].item() <= 100


def folder_of(frames, path, write):
    path.mkdir()
    for name, frame in frames.items():
        write(frame, path, name)
    return path


def shuffled(frames, seed=7):
    return {
        name: frame.sample(fraction=1, shuffle=True, seed=seed).select(reversed(frame.columns))
        for name, frame in frames.items()
    }


def typed(frames):
    """Integers as integers."""
    integers = ["RTYPE", "MAFID", "QAGE", "CENHISP", "FINAL_POP", "NPF", "HHSPAN"]
    return {
        name: f.with_columns(pl.col([c for c in integers if c in f.columns]).cast(pl.Int64))
        for name, f in frames.items()
    }


def forms(frames, small, tmp_path):
    def plain(frame, path, name):
        frame.write_csv(path / f"{name}.csv", line_terminator="\n")

    def crlf(frame, path, name):
        frame.write_csv(path / f"{name}.csv", line_terminator="\r\n", quote_style="always")

    def gzipped(frame, path, name):
        (path / f"{name}.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))

    def parquet(frame, path, name):
        frame.write_parquet(path / f"{name}.parquet")

    places = typed(frames)["geo"].select("MAFID", STATE="TABBLKST")

    def by_state(frame, path, name):
        (path / name).mkdir()
        for (state,), part in frame.join(places, on="MAFID", how="left").group_by("STATE"):
            part.drop("STATE").write_parquet(path / name / f"state-{state}.parquet")

    other = shuffled(frames)
    yield "plain", folder_of(frames, tmp_path / "plain", plain)
    yield "other order", folder_of(other, tmp_path / "order", plain)
    yield "crlf", folder_of(other, tmp_path / "crlf", crlf)
    yield "gzip", folder_of(frames, tmp_path / "gzip", gzipped)
    yield "parquet", folder_of(other, tmp_path / "parquet", parquet)
    yield "typed parquet", folder_of(typed(frames), tmp_path / "typed", parquet)
    yield "parquet by state", folder_of(typed(other), tmp_path / "state", by_state)
    yield "polars", typed(other)
    yield "arrow", {name: frame.to_arrow() for name, frame in other.items()}
    yield "pandas", {name: frame.to_pandas() for name, frame in typed(other).items()}
    mixed = shutil.copytree(small, tmp_path / "mixed")
    (mixed / "geo.csv").unlink()
    frames["geo"].write_parquet(mixed / "geo.parquet")
    yield "mixed", mixed


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_format_gives_the_same_frame_and_bytes(us, small, small_frames, small_counts, tmp_path):
    for label, data in forms(small_frames, small, tmp_path):
        counts = phsafe.tabulate(us, data, skip_validation=True, options=ONE_THREAD)
        assert counts.equals(small_counts), label
        assert counts.write_csv() == small_counts.write_csv(), label


def test_counts_are_integers(small_counts):
    assert small_counts.schema["COUNT"] == pl.Int64
    assert small_counts["COUNT"].min() == 0


def test_written_bytes_depend_on_counts_alone(us, tmp_path):
    config = Config.load(us)
    counts = {
        (m.tabulation.name, m.level.key): np.zeros(
            sum(1 for _ in m.level.groups(config.states)) * len(m.tabulation.cells), dtype=np.int64
        )
        for m in config.measurements()
    }
    write_counts(config, counts, tmp_path / "a")
    write_counts(config, counts, tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert len(content(tmp_path / "a")) == 12


def test_a_config_may_be_a_mapping_or_an_object(us, us_document, small_frames):
    document = us_document | {"state_filter": ["44", "56"]}
    one = phsafe.tabulate(document, small_frames, skip_validation=True, options=ONE_THREAD)
    other = phsafe.tabulate(Config.load(document), small_frames, skip_validation=True, options=ONE_THREAD)
    assert one.equals(other)
    assert one["REGION_ID"].unique().sort().to_list() == ["1", "44", "56"]


def test_public_names_are_complete_and_lazy():
    assert set(phsafe.__all__) <= set(dir(phsafe))
    assert all(getattr(phsafe, name) is not None for name in phsafe.__all__)
    assert phsafe.CENSUS_2020 is CENSUS_2020
    assert phsafe.PHSafeError is PHSafeError
    assert CENSUS_2020.levels == LEVELS
    with pytest.raises(AttributeError):
        phsafe.nothing  # noqa: B018
