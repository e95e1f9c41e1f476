"""Sums, differences and ratios of published cells, and joint draws of all of them."""

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import phsafe
from phsafe.cli.app import app
from phsafe.errors import PHSafeError
from phsafe.estimation import estimate_frames
from phsafe.estimation.estimates import VALUES
from phsafe.estimation.expressions import parse


@pytest.fixture(scope="module")
def joint(three_states, noisy):
    config, counts = three_states
    return estimate_frames(config, noisy(config, counts, seed=5), "joint")


def test_compare_says_whether_a_difference_is_more_than_noise(joint):
    clear = joint.compare("PH7[HI, 1]", "PH7[WY, 1]")
    same = joint.interval("PH7[HI, 1] - PH7[WY, 1]")
    assert (clear.estimate, clear.lower, clear.upper) == (same.estimate, same.lower, same.upper)
    assert clear.is_more_than_noise == (not same.lower <= 0 <= same.upper)
    assert clear.verdict.startswith("PH7[HI, 1] is larger than PH7[WY, 1]")
    assert joint.compare("PH7[WY, 1]", "PH7[HI, 1]").verdict.startswith("PH7[WY, 1] is smaller")
    small = joint.compare("PH7[WY, E, 2] + PH7[WY, E, 3]", "PH7[WY, E, 4]")
    assert small.expression == "(PH7[WY, E, 2] + PH7[WY, E, 3]) - PH7[WY, E, 4]"
    assert small.lower <= 0 <= small.upper and not small.is_more_than_noise
    assert "either could be larger" in repr(small) and "(90 % interval" in repr(small)


def row(estimates, table, region, iteration, cell):
    frame = estimates.table(table, region=region, iteration=iteration).filter(CELL=cell)
    return frame.select(VALUES).row(0)


def test_a_single_cell_is_as_published(joint):
    for table, region, iteration, cell in (("PH3", "RI", "*", 2), ("PH1", "15", "A", 1), ("PH7", "Wyoming", "H", 4)):
        found = joint.interval(f"{table}[{region}, {iteration}, {cell}]")
        assert (found.estimate, found.lower, found.upper, found.std_error) == row(joint, table, region, iteration, cell)


def test_a_line_equals_the_sum_of_its_parts(joint):
    """The sum of the lines that a total adds up has the interval of the total, before rounding."""
    total = row(joint, "PH7", "RI", "*", 1)
    found = joint.interval("PH7[RI, 2] + PH7[RI, 3] + PH7[RI, 4]")
    assert found.estimate == total[0]
    assert found.std_error == pytest.approx(total[3], rel=1e-3)
    assert total[1] <= found.lower <= total[1] + 1 and total[2] - 1 <= found.upper <= total[2]


def test_states_that_make_up_the_nation(joint):
    found = joint.interval("PH3[RI, 1] + PH3[HI, 1] + PH3[WY, 1] - PH3[US, 1]")
    assert abs(found.estimate) < 1e-9 and found.std_error < 1e-3


def test_ratios_match_the_delta_method_where_noise_is_small(three_states, noisy, make_config):
    config, counts = three_states
    budgets = {name: {k: v * 10_000 for k, v in levels.items()} for name, levels in config.budgets.items()}
    estimates = estimate_frames(make_config(privacy_budget=budgets), noisy(make_config(privacy_budget=budgets), counts))
    share = estimates.interval("PH2[RI, 2] / PH2[RI, 1]")
    part, total = (estimates.interval(f"PH2[RI, {line}] + 0 * PH2[RI, 5]") for line in (2, 1))
    assert share.estimate == pytest.approx(part.estimate / total.estimate)
    rest = estimates.interval(f"PH2[RI, 2] - {share.estimate} * PH2[RI, 1]")
    assert share.std_error == pytest.approx(rest.std_error / total.estimate, rel=0.02)
    assert share.upper - share.lower == pytest.approx(2 * 1.645 * share.std_error, rel=0.03)


def test_simulated_coverage_of_combinations(three_states, noisy):
    config, counts = three_states
    from phsafe.pipeline.exact_tables import exact_lines

    truth = pl.concat([f.with_columns(TABLE=pl.lit(n)) for n, f in exact_lines(config, counts).items()])

    def true(cell):
        codes = {"RI": "44", "HI": "15", "WY": "56"}
        return truth.filter(
            TABLE=cell.table, REGION_ID=codes[cell.region], ITERATION_CODE=cell.iteration, CELL=int(cell.line)
        )["VALUE"][0]

    expressions = ["PH7[RI, 1] - PH7[HI, 1]", "PH2[RI, 2] / PH2[RI, 1]", "PH3[RI, 1] + PH3[HI, 1]"]
    hits = np.zeros(len(expressions))
    for seed in range(12):
        estimates = estimate_frames(config, noisy(config, counts, seed=seed), target="truncated")
        for i, expression in enumerate(expressions):
            found = estimates.interval(expression)
            goal = parse(expression).evaluate(true, float)
            hits[i] += found.lower <= goal <= found.upper
    assert hits.sum() >= 27  # of 36; fewer have a probability of less than 1 in 1,000


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("PH9[RI, *, 1]", r"PH9\[RI, \*, 1\]: expected one of PH1, PH2, PH3, PH4, PH5, PH6, PH7, PH8, got 'PH9'$"),
        ("PH3[Utah, *, 1]", r"PH3\[Utah, \*, 1\]: region: expected a name or code"),
        ("PH3[RI, Q, 1]", r"PH3\[RI, Q, 1\]: iteration: expected one of"),
        ("PH3[RI, *, 99]", r"PH3\[RI, \*, 99\]: expected the number of one of the 10 lines of PH3, got 99"),
        ("PH2[RI, A, 1]", r"PH2\[RI, A, 1\]: PH2 is not published for this region and iteration"),
        ("PH3[RI]", r"PH3\[RI\]: expected TABLE\[region, iteration, line\]"),
        ("1 + 2", "expected at least one cell"),
        ("PH3[RI, 1] +", "got nothing more"),
        ("(PH3[RI, 1]", "expected a closing parenthesis"),
        ("PH3[RI, 1] PH3[RI, 2]", "joined by"),
        ("PH3[RI, 1] / 0", "expected no division by zero"),
        ("PH3[RI, 1] ** 2", "joined by"),
        ("__import__('os')", "joined by"),
        ("PH3[RI, 1] / (PH7[RI, F, 2] - PH7[RI, F, 2])", "a denominator can't be distinguished from zero"),
        ("(" * 300 + "PH3[RI, 1]", "expected at most 100 nested"),
        ("PH3[RI, 1]" * 2000, "expected at most 10000 characters"),
    ],
)
def test_bad_expressions_are_refused_in_one_sentence(joint, expression, message):
    with pytest.raises(PHSafeError, match=message) as refused:
        joint.interval(expression)
    assert len(refused.value.reasons) == 1


def test_all_unknown_cells_are_named(joint):
    with pytest.raises(PHSafeError) as refused:
        joint.interval("PH9[RI, 1] + PH3[Utah, 1]")
    assert len(refused.value.reasons) == 2


def test_tables_without_a_fit_cannot_be_combined(three_states, noisy):
    config, counts = three_states
    estimates = estimate_frames(config, noisy(config, counts), "independent")
    with pytest.raises(PHSafeError, match="expected tables just estimated by the joint method to combine"):
        estimates.interval("PH3[RI, 1]")
    with pytest.raises(PHSafeError, match="to draw from"):
        estimates.draws(3)


def test_draws_reproduce_the_published_intervals(joint):
    draws = joint.draws(600)
    keys = ["TABLE", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL"]
    both = draws.join(joint.to_polars(), on=keys, validate="m:1")
    assert len(both) == len(draws) == 600 * len(joint.to_polars())
    inside = both.group_by("TABLE").agg(pl.col("VALUE").is_between("LOWER_90", "UPPER_90").mean().alias("share"))
    for table, share in inside.rows():
        assert 0.88 < share < 0.96, table
    assert both["VALUE"].min() >= 0
    wide = draws.filter(TABLE="PH7", REGION_ID="44", ITERATION_CODE="*").pivot("CELL", index="DRAW", values="VALUE")
    gap = wide["1"] - wide["2"] - wide["3"] - wide["4"]
    assert gap.abs().median() < 1e-6
    assert draws.equals(joint.draws(600))


@pytest.mark.parametrize("number", [0, -1, 10_001])
def test_number_of_draws_is_checked(joint, number):
    with pytest.raises(PHSafeError, match=f"draws: expected a number from 1 to 10000, got {number}"):
        joint.draws(number)


def test_commands(tmp_path):
    data = phsafe.synth(tmp_path / "data", 20_000, "44")
    release = phsafe.release(
        "examples/acs-ri.json", data, tmp_path / "r", ledger=tmp_path / "l.ledger", new_ledger=True
    )
    assert release.release_id
    run = CliRunner().invoke(app, ["interval", str(tmp_path / "r"), "PH2[RI, 2] / PH2[RI, 1]", "--json"])
    assert run.exit_code == 0, run.output
    assert '"STD_ERROR"' in run.stdout
    plain = CliRunner().invoke(app, ["interval", str(tmp_path / "r"), "PH2[RI, 2] + PH2[RI, 5]"])
    assert "90 % interval" in plain.stdout
    args = ["estimate", str(tmp_path / "r"), str(tmp_path / "t"), "--draws", "3", "--target", "truncated"]
    assert CliRunner().invoke(app, args).exit_code == 0
    assert pl.read_parquet(tmp_path / "t" / "draws.parquet")["DRAW"].n_unique() == 3
