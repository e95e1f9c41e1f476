"""What finished tables say about whom they count, by target and method."""

from dataclasses import replace

import pytest

from phsafe.estimation import estimate_frames
from phsafe.estimation.people_counted import coverage_text, how_estimated, interval_command, limit_text, limits

LIMITS = {f"PH{i}": 6 if i in (3, 6) else 10 for i in range(1, 9)}
LEFT_OUT = (
    "These tables count at most 10 people per household (6 people of the universe in PH3 and PH6) and leave out the "
    "others. Given the noise, a 90 % interval contains the value without them about nine times in ten; totals of all "
    "people are slightly higher."
)
COUNTED = "a 90 % interval contains the true value about nine times in ten."


@pytest.fixture(scope="module")
def made(three_states, noisy):
    """A function from method and target to estimates, each made once."""
    config, counts = three_states
    frames, found = noisy(config, counts), {}

    def estimates(*options):
        if options not in found:
            found[options] = estimate_frames(config, frames, *options)
        return found[options]

    return estimates


def spec(estimates, name):
    return next(table for table in estimates.config.catalog.tables if table.name == name)


def test_everybody_is_counted_by_default(made):
    estimates = made("joint")
    assert limits(estimates) == {}
    assert coverage_text(estimates) == f"Given the noise and what is known about very large households, {COUNTED}"
    assert {limit_text(estimates, table) for table in estimates.config.catalog.tables} == {""}
    assert interval_command(estimates) == "phsafe interval RELEASE"


@pytest.mark.parametrize(
    ("options", "command"),
    [(("joint", "truncated"), "phsafe interval RELEASE --target truncated"), (("independent",), "")],
)
def test_the_truncated_target_and_the_independent_method_leave_people_out(made, options, command):
    estimates = made(*options)
    assert limits(estimates) == LIMITS
    assert coverage_text(estimates) == LEFT_OUT
    of_table = " Counts at most 6 people of its universe per household and leaves out the others."
    assert limit_text(estimates, spec(estimates, "PH6")) == of_table
    assert limit_text(estimates, spec(estimates, "PH5")) == (
        " Counts at most 10 people per household and leaves out the others."
    )
    assert interval_command(estimates) == command


def test_limits_are_those_of_the_config(made):
    estimates = made("independent")
    tau = dict.fromkeys(estimates.config.tau, 10) | {"PH2": 8, "PH4": 7}
    text = coverage_text(replace(estimates, config=replace(estimates.config, tau=tau)))
    assert (
        "at most 10 people per household (8 people of the universe in PH2; 7 people of the universe in PH4 and PH5)"
        in text
    )


def test_tables_without_public_shares_leave_people_out(made):
    estimates = made("joint")

    def without(*names):
        truncation = estimates.diagnostics["truncation"] | {"without_shares": list(names)}
        return replace(estimates, diagnostics=estimates.diagnostics | {"truncation": truncation})

    some = without("PH3", "PH4")
    assert limits(some) == {"PH3": 6, "PH4": 10, "PH5": 10}
    assert coverage_text(some).endswith(f"{COUNTED} People beyond the thresholds are left out of PH3, PH4 and PH5.")
    every = without(*estimates.config.tau)
    assert coverage_text(every) == LEFT_OUT


def test_cells_that_are_never_truncated_are_an_exception(made):
    estimates = made("independent")
    structured = replace(estimates, config=estimates.config.with_sensitivity("structured"))
    assert "leave out the others, except in cells that read only the person. Given" in coverage_text(structured)
    assert limit_text(structured, spec(structured, "PH3")).endswith("except in cells that read only the person.")
    assert limit_text(structured, spec(structured, "PH4")).endswith("leaves out the others.")


@pytest.mark.parametrize("truncation", [3, None, {"without_shares": 3}, {"about": 3}])
def test_diagnostics_of_strange_types_do_no_harm(made, truncation):
    estimates = made("joint")
    other = replace(estimates, diagnostics=estimates.diagnostics | {"truncation": truncation})
    counts_nobody = "contains the value without them" in coverage_text(other)
    assert counts_nobody == (not isinstance(truncation, dict)) == bool(limits(other))
    assert how_estimated(other) == ""
