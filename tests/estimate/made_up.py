"""A made-up nation and releases of it, quick and self-contained: truth for the tests of the estimates.

Counting follows the specs with Polars alone, so that these tests depend on nothing that reads data. Noise
is numpy's: here it only has to have the right distribution, not to protect anyone.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from phsafe import grid
from phsafe.config import Config
from phsafe.privacy import sensitivity

SIZES = np.array([28.89, 34.15, 15.29, 12.25, 5.70, 2.24, 0.85, 0.40, 0.12, 0.04, 0.04, 0.03])
RACE_SHARES = np.array([66.0, 12.5, 0.9, 5.5, 0.15, 6.0, 8.95])


def microdata(config: Config, households: int, seed: int) -> pl.DataFrame:
    """Person rows joined with their unit and state, consistent in all codes."""
    rng = np.random.default_rng(seed)
    states = np.array(config.states)
    weights = rng.lognormal(0, 1, len(states))
    unit = {
        "MAFID": np.arange(households),
        "TABBLKST": rng.choice(states, households, p=weights / weights.sum()),
        "size": rng.choice(np.arange(1, 13), households, p=SIZES / SIZES.sum()),
        "TEN": rng.choice(np.array(["1", "2", "3", "4"]), households, p=[0.39, 0.263, 0.33, 0.017]),
        "HHSPAN": rng.choice(np.array([1, 2]), households, p=[0.85, 0.15]),
        "kind": rng.choice(np.array([1, 2, 3, 4, 5]), households, p=[0.60, 0.007, 0.085, 0.005, 0.303]),
        "male": rng.random(households) < 0.45,
    }
    tilt = rng.dirichlet(np.full(len(RACE_SHARES), 2.0), len(states)) * RACE_SHARES
    tilt /= tilt.sum(axis=1, keepdims=True)
    cumulative = tilt.cumsum(axis=1)[np.searchsorted(states, unit["TABBLKST"])]
    race = (rng.random((households, 1)) > cumulative).sum(axis=1).clip(0, 6)
    unit["HHRACE"] = np.array(["01", "02", "03", "04", "05", "06", "07"])[race]
    units = pl.DataFrame(unit).with_columns(
        CPLT=pl.when(pl.col("size") > 1).then(pl.col("kind")).otherwise(5).cast(pl.String)
    )
    persons = units.select("MAFID", "size", "CPLT", "HHRACE", "HHSPAN").select(
        pl.all().repeat_by("size").list.explode()
    )
    n = len(persons)
    place = persons.select(pl.int_range(pl.len()).over("MAFID").alias("place"))["place"].to_numpy()
    couple = persons["CPLT"].to_numpy()
    other = rng.choice(np.array(["25", "30", "33", "28", "36", "34"]), n, p=[0.74, 0.05, 0.04, 0.03, 0.06, 0.08])
    partner = np.array(["", "21", "23", "22", "24", ""])[couple.astype(int)]
    relship = np.where(place == 0, "20", np.where((place == 1) & (partner != ""), partner, other))
    adult = np.isin(relship, ["20", "21", "22", "23", "24"])
    age = np.where(adult | (rng.random(n) < 0.25), rng.integers(18, 90, n), rng.integers(0, 18, n))
    persons = persons.select("MAFID").with_columns(
        RTYPE=pl.lit(3, pl.Int64), QAGE=pl.Series(age), RELSHIP=pl.Series(relship),
        CENRACE=persons["HHRACE"], CENHISP=persons["HHSPAN"],
    )  # fmt: skip
    own = pl.col("RELSHIP").is_in(["25", "26", "27"]) & (pl.col("QAGE") < 18)
    related = pl.col("RELSHIP").is_in([str(code) for code in range(25, 34)])
    facts = persons.group_by("MAFID").agg(own=own.any(), related=related.any())
    units = units.join(facts, on="MAFID", maintain_order="left")
    married, cohabiting = pl.col("CPLT").is_in(["1", "2"]), pl.col("CPLT").is_in(["3", "4"])
    alone, sex = pl.col("size") == 1, pl.when(pl.col("male"))
    hht2 = (
        pl.when(married).then(pl.when("own").then(pl.lit("01")).otherwise(pl.lit("02")))
        .when(cohabiting).then(pl.when("own").then(pl.lit("03")).otherwise(pl.lit("04")))
        .when(alone).then(sex.then(pl.lit("09")).otherwise(pl.lit("05")))
        .when("own").then(sex.then(pl.lit("10")).otherwise(pl.lit("06")))
        .when("related").then(pl.when(pl.col("male")).then(pl.lit("11")).otherwise(pl.lit("07")))
        .otherwise(pl.when(pl.col("male")).then(pl.lit("12")).otherwise(pl.lit("08")))
    )  # fmt: skip
    hht = (
        pl.when(married).then(pl.lit("1"))
        .when("related").then(pl.when(pl.col("male")).then(pl.lit("2")).otherwise(pl.lit("3")))
        .otherwise(pl.lit("4"))
    )  # fmt: skip
    units = units.with_columns(HHT2=hht2, HHT=hht).drop("kind", "male", "own", "related")
    return persons.join(units, on="MAFID", maintain_order="left")


def exact_counts(config: Config, joined: pl.DataFrame) -> dict[tuple[str, str], np.ndarray]:
    """(tabulation, level key) → truncated counts in the grid's order."""
    counts = {}
    for tabulation in config.catalog.tabulations:
        rows = joined
        for name, codes in (tabulation.persons or tabulation.units).terms:
            if name != "RTYPE":
                rows = rows.filter(pl.col(name).is_in(list(codes)))
        if tabulation.counts_persons:
            for name, codes in tabulation.units.terms:
                rows = rows.filter(pl.col(name).is_in(list(codes)))
            rows = rows.filter(pl.int_range(pl.len()).over("MAFID") < config.tau[tabulation.name])
        else:
            rows = rows.unique("MAFID", keep="first", maintain_order=True)
        cell = pl.coalesce(
            pl.when(_condition(where)).then(pl.lit(number)) for number, where in tabulation.cells.items()
        )
        rows = rows.with_columns(DATA_CELL=cell).filter(pl.col("DATA_CELL").is_not_null())
        for level in config.levels_of(tabulation):
            group = pl.coalesce(
                pl.when(_condition(i.condition(tabulation.iterate_by or "householder"))).then(pl.lit(i.code))
                for i in level.iteration_level.iterations
            )
            region = pl.col("TABBLKST") if level.geography.columns else pl.lit("1")
            found = rows.group_by(region.alias("REGION_ID"), group.alias("ITERATION_CODE"), "DATA_CELL").len()
            frame = pl.DataFrame(
                grid.level_rows(config, tabulation, level), schema=list(grid.KEYS), orient="row"
            )
            keys = ["REGION_ID", "ITERATION_CODE", "DATA_CELL"]
            frame = frame.join(found.cast({"DATA_CELL": pl.Int64}), on=keys, how="left", maintain_order="left")
            counts[tabulation.name, level.key] = frame["len"].fill_null(0).cast(pl.Int64).to_numpy()
    return counts


def _condition(where) -> pl.Expr:
    expression = pl.lit(True)
    for name, codes in where.terms:
        expression = expression & pl.col(name).is_in(list(codes))
    return expression


def release(config: Config, counts, rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Noisy measurements of every tabulation with a budget, as a release's frames."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for m in config.measurements():
        about = sensitivity.of(config.tau.get(m.tabulation.name), config.sensitivity)
        truth = counts[m.tabulation.name, m.level.key]
        if config.privacy == "zcdp":
            name, variance = "Discrete Gaussian", float(about.variance_times_rho) / float(m.budget)
            noise = np.rint(rng.normal(0, np.sqrt(variance), truth.shape))
        else:
            q = np.exp(-float(m.budget) / about.l1)
            name, variance = "Two-Sided Geometric", 2 * q / (1 - q) ** 2
            noise = rng.geometric(1 - q, truth.shape) - rng.geometric(1 - q, truth.shape)
        keys = pl.DataFrame(grid.level_rows(config, m.tabulation, m.level), schema=list(grid.KEYS), orient="row")
        frame = keys.with_columns(
            COUNT=pl.Series(truth + noise.astype(np.int64)),
            NOISE_DISTRIBUTION=pl.lit(name),
            VARIANCE=pl.lit(variance),
        )
        frames.setdefault(m.tabulation.name, []).append(frame)
    return {name: grid.in_file_order(config, pl.concat(parts)) for name, parts in frames.items()}
