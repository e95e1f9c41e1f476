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
from phsafe.estimation.named_cells import find_cell, quotient_of
from phsafe.estimation.quotients import as_rows, possible_range, simplified


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
    joined = joint.interval("PH3[RI, 1] + PH3[HI, 1] + PH3[WY, 1]")
    nation = joint.interval("PH3[US, 1] + 0 * PH3[US, 1]")
    assert joined.estimate == nation.estimate and joined.std_error == pytest.approx(nation.std_error, rel=1e-3)


def test_multiples_of_a_cell_are_those_of_its_table(joint):
    for cell in ("PH7[WY, D, 1]", "PH1[WY, C, 3]", "PH8[HI, B, 2]"):
        shown = joint.interval(cell)
        for text, times, more in ((f"2 * {cell}", 2, 0), (f"3 - {cell} / 2 - {cell} / 2", -1, 3)):
            found = joint.interval(text)
            ends = sorted((times * shown.lower + more, times * shown.upper + more))
            assert [found.lower, found.upper] == pytest.approx(ends)
            assert found.estimate == pytest.approx(times * shown.estimate + more)
            assert found.std_error == pytest.approx(abs(times) * shown.std_error)


def test_averages_in_expressions_have_the_posterior_of_their_table(joint):
    """Also in groups smaller than the noise, where bounds and other tables say more than the group's own counts."""
    cells = [("WY", "56", "D", 1), ("HI", "15", "B", 1), ("WY", "56", "F", 2)]
    drawn = joint.draws(2000).filter(TABLE="PH1").sort("DRAW")

    def values(region, code, cell):
        return drawn.filter(REGION_ID=region, ITERATION_CODE=code, CELL=cell)["VALUE"].to_numpy()

    for i, (state, region, code, cell) in enumerate(cells):
        other = cells[i - 1]
        found = joint.interval(f"PH1[{state}, {code}, {cell}] - PH1[{other[0]}, {other[2]}, {other[3]}]")
        of_draws = values(region, code, cell) - values(*other[1:])
        assert found.std_error == pytest.approx(of_draws.std(), rel=0.08)
        assert 0.87 < np.mean((found.lower <= of_draws) & (of_draws <= found.upper)) < 0.93


GROUPS = "ABCDEFG"
SUM_OF_RACES = "(" + " + ".join(f"PH7[WY, {group}, 1]" for group in GROUPS) + ")"


@pytest.mark.parametrize(
    "ways",
    [
        *(
            (
                f"PH7[WY, {group}, 4] / PH7[WY, {group}, 1]",
                f"PH7[WY, {group}, 4] / (PH7[WY, {group}, 2] + PH7[WY, {group}, 3] + PH7[WY, {group}, 4])",
                f"1 - (PH7[WY, {group}, 2] + PH7[WY, {group}, 3]) / PH7[WY, {group}, 1]",
                f"1 - PH7[WY, {group}, 2] / PH7[WY, {group}, 1] - PH7[WY, {group}, 3] / PH7[WY, {group}, 1]",
            )
            for group in "BDHI"
        ),
        ("PH7[WY, A, 1] / PH7[WY, 1]", f"PH7[WY, A, 1] / {SUM_OF_RACES}"),
        ("PH7[WY, I, 1] / PH7[WY, A, 1]", "1 - (PH7[WY, A, 1] - PH7[WY, I, 1]) / PH7[WY, A, 1]"),
        ("PH4[HI, B, 1] / PH7[HI, B, 1]", "2 * PH4[HI, B, 1] / (2 * PH7[HI, B, 1])"),
        ("PH1[HI, F, 2] / PH1[HI, F, 1]",),
    ],
)
def test_a_share_is_a_share_in_whichever_way_it_is_written(joint, ways):
    found = [joint.interval(way) for way in ways]
    for other in found:
        assert 0 <= other.lower <= other.estimate <= other.upper <= 1
        assert 0 < other.std_error <= (other.upper - other.lower) / 2
        for name in ("estimate", "lower", "upper", "std_error"):
            assert getattr(other, name) == pytest.approx(getattr(found[0], name), abs=1e-6)


def reduced(joint, expression):
    return simplified(parse(expression), lambda cell: quotient_of(joint.model, find_cell(joint, cell))).value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("PH7[WY, D, 4] / PH7[WY, D, 1]", (0, 1)),
        ("100 * PH7[WY, D, 4] / PH7[WY, D, 1]", (0, 100)),
        ("PH7[WY, D, 1] / PH7[WY, D, 4]", (1, np.inf)),
        ("(PH7[WY, D, 4] - PH7[WY, D, 3]) / PH7[WY, D, 1]", (-1, 1)),
        ("PH7[WY, A, 1] / PH7[WY, 1]", (0, 1)),
        ("PH7[WY, I, 1] / PH7[WY, A, 1]", (0, 1)),
        ("(PH7[WY, H, 1] + PH7[WY, I, 1]) / PH7[WY, 1]", (0, 1)),
        ("PH7[WY, 1] / PH7[US, 1]", (0, 1)),
        ("PH7[WY, I, 2] / PH7[US, 1]", (0, 1)),
        ("PH4[WY, D, 1] / PH7[WY, D, 1]", (0, 1)),
        ("PH7[WY, D, 1] / PH7[RI, D, 1]", (0, np.inf)),
        (f"{SUM_OF_RACES} / PH7[WY, 1]", (1, 1)),
    ],
)
def test_possible_range_of_a_ratio(joint, expression, expected):
    assert possible_range(joint.model.measured, joint.model.cells, reduced(joint, expression)) == pytest.approx(
        expected
    )


def test_own_children_of_two_tables_are_equal_by_construction(joint):
    """They are the same people, although each table measures them on its own."""
    for one, other in (("PH3[WY, 3]", "PH6[WY, 1]"), ("PH3[US, 5]", "PH6[US, 7]")):
        assert joint.interval(one).estimate == joint.interval(other).estimate
        assert joint.compare(one, other).verdict == "equal by construction"
        assert joint.interval(f"{one} / {other}").text == "1: certain by construction"
        shown, same = joint.interval(one), joint.interval(f"2 * {one} - {other}")
        assert (same.lower, same.upper, same.std_error) == (shown.lower, shown.upper, shown.std_error)
        assert same.estimate == shown.estimate
        assert joint.interval(f"{one} / PH7[US, 1] - {other} / PH2[US, 1]").text == "0: equal by construction"


def test_a_line_and_the_sum_of_its_parts_have_one_interval(joint):
    """Also where a part of the sum, but not the line alone, counts the same people as another table."""
    line, rest = joint.interval("PH6[WY, 3]"), joint.interval("PH6[WY, 2] - PH6[WY, 4] - PH6[WY, 5] - PH6[WY, 6]")
    assert (rest.lower, rest.upper, rest.std_error) == pytest.approx((line.lower, line.upper, line.std_error), abs=1)
    two = joint.interval("PH6[WY, 3] + PH6[WY, 4]")
    for same in ("PH6[WY, 2] - PH6[WY, 5] - PH6[WY, 6]", "PH3[WY, 4] - PH6[WY, 5] - PH6[WY, 6]"):
        other = joint.interval(same)
        assert other.estimate == two.estimate
        assert (other.lower, other.upper, other.std_error) == pytest.approx(
            (two.lower, two.upper, two.std_error), abs=0.1
        )


def test_draws_agree_about_the_same_people(joint):
    drawn = joint.draws(200).filter(REGION_ID="56", ITERATION_CODE="*")
    wide = drawn.with_columns(pl.format("{} {}", "TABLE", "CELL").alias("LINE")).pivot(
        "LINE", index="DRAW", values="VALUE"
    )
    for one, other in (("PH3 3", "PH6 1"), ("PH3 4", "PH6 2"), ("PH3 7", "PH6 17")):
        assert wide[one].to_numpy() == pytest.approx(wide[other].to_numpy(), abs=1e-6)


def test_decimal_weights_that_cancel_leave_nothing(joint):
    found = joint.interval("PH3[WY, 1] * 0.7 + PH3[WY, 1] * 0.2 + PH3[WY, 1] * 0.1 - PH3[WY, 1]")
    assert found.text == "0: equal by construction"
    rest = joint.interval("PH7[WY, 1] + PH3[WY, 1] * 0.3 - PH3[WY, 1] * 0.1 - PH3[WY, 1] * 0.2")
    assert rest.std_error == joint.interval("PH7[WY, 1]").std_error


@pytest.mark.parametrize("group", "CDEF")
def test_sums_that_cannot_be_negative_are_not(joint, group):
    rest = joint.interval(f"PH7[US, {group}, 2] - PH7[HI, {group}, 2] - PH7[RI, {group}, 2]")
    shown = joint.interval(f"PH7[WY, {group}, 2]")
    assert 0 <= shown.lower <= rest.lower <= rest.upper <= shown.upper
    assert rest.lower < shown.lower + 1 and rest.upper > shown.upper - 1
    assert joint.interval(f"PH7[WY, {group}, 1] - PH4[WY, {group}, 1]").lower >= 0
    below = joint.interval(f"PH4[WY, {group}, 1] - PH7[WY, {group}, 1] - 5")
    assert below.lower < below.upper <= -5


def test_a_tiny_weight_is_not_taken_for_none(joint):
    assert joint.interval("0.0000001 * PH7[US, 1] + PH3[WY, 4] - PH6[WY, 2]").std_error > 0


@pytest.mark.parametrize("group", "BDEF")
def test_draws_of_a_share_are_those_that_are_possible(joint, group):
    """Draws outside the possible range are left out, not moved to its ends."""
    share = f"PH7[WY, {group}, 4] / PH7[WY, {group}, 1]"
    quotient, cells = reduced(joint, share), joint.model.cells
    rows = as_rows([quotient.above, quotient.below], len(cells.estimates))[:, :-1].tocsr()
    rng = np.random.default_rng(0)
    part, whole = rng.multivariate_normal(rows @ cells.estimates, cells.covariance(rows), 400_000).T
    possible = (part >= 0) & (part <= whole)
    found = joint.interval(share)
    assert found.std_error == pytest.approx((part[possible] / whole[possible]).std(), rel=0.03)


def test_differences_of_shares_and_other_ratios_stay_within_what_is_possible(joint):
    difference = joint.interval("PH7[WY, D, 4] / PH7[WY, D, 1] - PH7[WY, H, 4] / PH7[WY, H, 1]")
    assert -1 <= difference.lower <= difference.upper <= 1
    # The denominator may be near zero, so draws of the ratio have no useful standard deviation.
    wild = joint.interval("PH7[HI, 1] / PH7[WY, D, 1]")
    assert wild.std_error <= (wild.upper - wild.lower) / 2
    assert joint.interval("PH7[US, 1] / PH7[WY, D, 1]").lower >= 1


@pytest.mark.parametrize(
    "expression",
    [
        "PH7[WY, 1] - PH7[WY, 2] - PH7[WY, 3] - PH7[WY, 4]",
        "PH3[RI, 1] + PH3[HI, 1] + PH3[WY, 1] - PH3[US, 1]",
        f"{SUM_OF_RACES} - PH7[WY, 1]",
        "PH1[WY, 1] - PH1[WY, 2] - PH1[WY, 3]",
        "PH1[WY, 1] - PH8[WY, 1]",
        "0 * PH7[WY, 1]",
        f"{SUM_OF_RACES} / PH7[WY, 1] - 1",
    ],
)
def test_what_is_zero_by_construction_is_shown_without_digits(joint, expression):
    found = joint.interval(expression)
    assert (found.estimate, found.lower, found.upper, found.std_error) == (0, 0, 0, 0)
    assert found.text == "0: equal by construction"


def test_verdict_on_what_is_equal_by_construction(joint):
    same = joint.compare("PH7[WY, 1]", "PH7[WY, 2] + PH7[WY, 3] + PH7[WY, 4]")
    assert same.verdict == "equal by construction" and not same.is_more_than_noise
    assert repr(same).endswith("PH7[WY, 4]) = 0: equal by construction")
    assert joint.interval("PH7[WY, 1] / PH7[WY, 1]").text == "1: certain by construction"


def test_small_noise_is_not_taken_for_a_rounding_error(joint):
    """Neither in a tiny multiple, nor where a difference is small compared with its terms."""
    whole, part = (joint.interval(text) for text in ("PH2[RI, 2] / PH2[RI, 1]", "PH2[RI, 2] / PH2[RI, 1] * 0.0000001"))
    assert part.std_error == pytest.approx(whole.std_error / 10_000_000) and "e-" in part.text
    scaled = joint.interval("0.0000001 * (PH2[RI, 2] / PH2[RI, 1] - PH2[HI, 2] / PH2[HI, 1])")
    assert scaled.std_error > 0
    assert joint.interval("PH7[RI, 1] + 1000000000000").std_error == pytest.approx(
        joint.interval("PH7[RI, 1]").std_error, rel=1e-3
    )


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
        ("PH3[RI, 1] +", "got the end of the expression"),
        ("(PH3[RI, 1]", "expected a closing parenthesis"),
        ("PH3[RI, 1] PH3[RI, 2]", "joined by"),
        ("PH3[RI, 1] / 0", "expected no division by zero"),
        ("PH3[RI, 1] ** 2", "joined by"),
        ("__import__('os')", "joined by"),
        ("PH3[RI, 1] / (PH7[RI, F, 2] - PH7[RI, F, 2])", "expected no division by zero, got one"),
        ("PH3[RI, 1] / (PH7[WY, D, 2] - PH7[WY, E, 2])", "a denominator can't be distinguished from zero"),
        ("1 / (PH7[RI, 1] / PH7[US, 1] - PH7[RI, 1] / PH7[US, 1])", "a denominator can't be distinguished from zero"),
        ("", "got the end of the expression"),
        (" ", "got the end of the expression"),
        ("()", r"got '\)'"),
        ("PH3[RI, 1])", r"got '\)'"),
        ("PH3[]", "expected TABLE"),
        ("²PH3[RI, 1]", "joined by"),
        ("٣ * PH3[RI, 1]", "joined by"),
        ("PH3[RI, ١]", "expected the number of one of the 10 lines of PH3"),
        ("PH3[RI, -1]", "expected the number of one of the 10 lines of PH3"),
        ("9" * 400 + " * PH3[RI, 1]", "expected numbers of ordinary size"),
        ("9" * 300 + " * PH3[RI, 1] * PH3[RI, 1] / PH3[HI, 1]", "expected numbers of ordinary size"),
        ("PH3[RI, 1] / 0." + "0" * 310 + "1", "expected numbers of ordinary size"),
        (" * ".join(["PH3[RI, 1]"] * 99), "expected numbers of ordinary size"),
        (
            "PH1[RI, 1] + PH7[RI, 1]",
            "expected sums and differences of counts, or of averages and ratios, got a mixture",
        ),
        ("PH7[RI, 2] / PH7[RI, 1] - PH7[RI, 2]", "got a mixture of both"),
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
    minus = CliRunner().invoke(app, ["interval", str(tmp_path / "r"), "-2 * PH2[RI, 2]"])
    assert minus.exit_code == 2 and "write --" in minus.output and "--log" not in minus.output
    negative = CliRunner().invoke(app, ["interval", str(tmp_path / "r"), "--", "-2 * PH2[RI, 2]"])
    assert negative.exit_code == 0 and negative.stdout.startswith("-")
    args = ["estimate", str(tmp_path / "r"), str(tmp_path / "t"), "--draws", "3", "--target", "truncated"]
    assert CliRunner().invoke(app, args).exit_code == 0
    alone = ["estimate", str(tmp_path / "r"), str(tmp_path / "t2"), "--draws", "3", "--method", "independent"]
    refused = CliRunner().invoke(app, alone)
    assert refused.exit_code == 1 and "expected the joint method" in str(refused.exception)
    assert pl.read_parquet(tmp_path / "t" / "draws.parquet")["DRAW"].n_unique() == 3
