"""`phsafe budget`: the paper's parameter table, the comparison of modes, and the output of the command."""

import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from phsafe.cli.app import app
from phsafe.cli.arguments import SensitivityMode
from phsafe.cli.output import OUTPUT
from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.privacy.budgets import budget
from phsafe.privacy.mechanism import noise_of
from phsafe.privacy.mode_comparison import SOLVED_NAME, ModeGain, SolvedMargins, compare
from phsafe.privacy_math.sensitivity import MODES

EXAMPLES = Path(__file__).parents[2] / "examples"
US = EXAMPLES / "us.json"
# The paper's parameter table: truncation thresholds, and MOE targets by level.
PEOPLE = {"usa_*": 500, "usa_A-G": 500, "usa_H,I": 500, "state_*": 200, "state_A-G": 68, "state_H,I": 200}
TARGETS = {
    "PH1_num": (10, PEOPLE), "PH1_denom": (None, PEOPLE),
    "PH2": (10, {"usa_*": 500, "state_*": 200}),
    "PH3": (6, PEOPLE | {"state_A-G": 20}),
    "PH4": (10, PEOPLE), "PH5_denom": (None, PEOPLE),
    "PH6": (6, {"usa_*": 500, "state_*": 200}),
    "PH7": (10, PEOPLE), "PH8_denom": (None, PEOPLE),
}  # fmt: skip


def run(*arguments):
    try:
        return CliRunner().invoke(app, [str(a) for a in arguments])
    finally:
        OUTPUT.end(0)


def exact(text):
    return json.loads(text, parse_float=Decimal)


def test_the_papers_totals_and_every_margin_of_error():
    document = exact(budget(US).to_json())
    total = document["total"]
    assert set(total) == {"rho", "rho_bounded", "epsilon", "delta"}
    assert (total["rho"], total["rho_bounded"], total["delta"]) == tuple(
        map(Decimal, ("1.257281", "2.514562", "1e-10"))
    )
    found = {(row["tabulation"], row["level"]): row for row in document["levels"]}
    expected = {(name, key) for name, (_, targets) in TARGETS.items() for key in targets}
    assert found.keys() == expected
    assert len(found) == 46
    config = Config.load(US)
    for (name, key), row in found.items():
        tau, targets = TARGETS[name]
        assert set(row) == {
            "tabulation",
            "level",
            "tau",
            "sensitivity",
            "rho",
            "rho_bounded",
            "sigma2",
            "moe",
        }
        assert row["tau"] == tau
        assert row["sensitivity"] == (2 if tau is None else 2 * tau + 2)
        assert isinstance(row["sensitivity"], int)
        stated = config.budgets[name][key]
        assert (row["rho"], row["rho_bounded"]) == (stated, 2 * stated)
        k = 2 if tau is None else 2 * (tau + 1) ** 2
        assert float(row["sigma2"]) == pytest.approx(float(k / Fraction(stated)), rel=1e-12)
        # A budget of six decimal places meets its target to within half a unit of its last place.
        slack = targets[key] * 0.0000005 / float(stated) / 2
        assert abs(float(row["moe"]) - targets[key]) <= slack * 1.05 + 0.001, (name, key)
    assert float(found["PH1_denom", "usa_*"]["moe"]) == pytest.approx(495.99, abs=0.005)


def test_reported_noise_is_that_of_a_release():
    for mode in MODES:
        config = Config.load(US).with_sensitivity(mode)
        reported = [tuple(one.noise for one in row.event.blocks) for row in budget(config).rows]
        assert reported == [noise_of(config, m) for m in config.measurements()]


def test_a_level_with_two_blocks_shows_the_noisiest_and_lists_both():
    document = exact(run("budget", US, "--sensitivity", "structured", "--json").stdout)
    rows = {(row["tabulation"], row["level"]): row for row in document["levels"]}
    blocks = rows["PH3", "state_*"]["blocks"]
    assert [block["cells"] for block in blocks] == [[2, 9, 10], [4, 5, 6, 7]]
    assert sum(block["budget"] for block in blocks) == rows["PH3", "state_*"]["rho"]
    assert rows["PH3", "state_*"]["sigma2"] == max(block["sigma2"] for block in blocks)
    assert [key for key, row in rows.items() if "blocks" in row] == [k for k in rows if k[0] == "PH3"]
    assert float(rows["PH1_num", "state_*"]["moe"]) < 10, "counted without the unit table"


def test_the_modes_say_what_they_assume():
    for mode in MODES:
        text = " ".join(run("budget", US, "--sensitivity", mode).stdout.split())
        assert ("geography of an address is public" in text) == (mode != "published")
    (option,) = SensitivityMode.__metadata__
    assert "structured" in option.help and "protect a whole household less" in option.help


@pytest.mark.parametrize(
    ("mode", "rho", "bounded", "delta_person", "person", "unit"),
    [
        ("published", "1.257281", "2.514562", 22, 242, 2),
        ("tight", "1.2197466", "4.8789864", 10, 50, 0.5),
        ("tight-bounded", "0.6098733", "2.4394932", 20, 100, 1),
        ("structured", "1.2383568", None, 1, 0.5, 0.5),
    ],
)
def test_modes(mode, rho, bounded, delta_person, person, unit):
    result = run("budget", US, "--sensitivity", mode, "--json")
    assert result.exit_code == 0
    document = exact(result.stdout)
    assert document["total"]["rho"] == Decimal(rho)
    assert bounded is None or document["total"]["rho_bounded"] == Decimal(bounded)
    first = next(row for row in document["levels"] if row["tabulation"] == "PH1_num")
    unit_row = next(row for row in document["levels"] if row["tabulation"] == "PH1_denom")
    assert float(first["sensitivity"]) == pytest.approx(delta_person)
    assert float(first["sigma2"]) == pytest.approx(person / 0.002619)
    assert float(unit_row["sigma2"]) == pytest.approx(unit / 0.000022)


def test_exact_margins_are_integers_close_to_the_formula():
    for row in budget(US).rows:
        assert isinstance(row.moe_exact, int)
        assert row.moe_exact == pytest.approx(row.moe, abs=1)


def test_puerto_rico_has_no_national_levels():
    document = exact(budget(EXAMPLES / "pr.json").to_json())
    assert document["total"]["rho"] == Decimal("1.226649")
    assert {row["level"] for row in document["levels"]} == {"state_*", "state_A-G", "state_H,I"}


def test_pure_dp_reports_epsilon_instead_of_rho():
    pure = {**Config.load(US).to_production(), "privacy_defn": "puredp"}
    document = exact(budget(pure).to_json())
    assert document["total"] == {
        "epsilon": Decimal("1.257281"), "epsilon_bounded": Decimal("2.514562"), "delta": 0,
    }  # fmt: skip
    row = document["levels"][0]
    assert {"epsilon", "epsilon_bounded"} <= set(row)
    assert "rho" not in row
    assert row["sensitivity"] == 22
    assert shown(compare(pure).render()).count("2020 noise accounted tightly") == 1
    assert "1.257281" in shown(budget(pure).render())


def test_epsilon_depends_on_delta():
    values = [exact(run("budget", US, "--json", "--delta", d).stdout)["total"] for d in ("1e-5", "1e-10")]
    assert float(values[0]["epsilon"]) == pytest.approx(8.10637, abs=1e-4)
    assert float(values[1]["epsilon"]) == pytest.approx(11.41237, abs=1e-4)


def shown(renderable):
    console = Console(file=StringIO(), width=80)
    console.print(renderable)
    return console.file.getvalue()


def test_tables_fit_eighty_columns_with_all_digits():
    text = shown(budget(US).render())
    for number in ("0.000022", "0.662976", "1.257281", "2.514562", "495.99", "92401.68", "PH8_denom"):
        assert number in text
    assert "…" not in text


def test_comparison_shows_all_modes_and_the_2020_noise_accounted_tightly():
    result = run("budget", US, "--compare")
    assert result.exit_code == 0
    line = next(line for line in result.stdout.split("\n") if "2020 noise accounted tightly" in line)
    unbounded, bounded = line.split()[4:6]
    assert float(unbounded) == pytest.approx(0.4727, abs=0.0001)
    assert float(bounded) == pytest.approx(1.8909, abs=0.0001)
    document = exact(run("budget", US, "--compare", "--json").stdout)
    assert list(document["modes"]) == ["published", "tight", "tight-bounded", "structured"]
    assert float(document["published_accounted_tightly"]["total"]["rho"]) == pytest.approx(0.4727, abs=0.0001)
    for row, expected in ((0, [1, 0.4545, 0.643, 0.0455]), (1, [1, 0.643, 0.909, 0.643])):
        moe = [document["modes"][mode]["levels"][row]["moe"] for mode in document["modes"]]
        assert [float(m / moe[0]) for m in moe] == pytest.approx(expected, abs=0.001)


def test_the_comparison_shows_what_each_mode_saves():
    """Loss at the published margins, and margins at the published losses, for both privacy definitions."""
    found = compare(US).gains
    assert found["published"].loss == compare(US).published.total
    assert found["published"].unbounded == found["published"].bounded == (1.0, 1.0)
    assert found["tight"].loss == found["tight-bounded"].loss == compare(US).published_accounted_tightly
    assert found["tight"].unbounded == pytest.approx(found["tight-bounded"].unbounded)
    # State `*` of PH1_num, the narrowest cell: ± 9 before any joint fit, at the unbounded loss of 2020.
    assert found["structured"].unbounded[0] * 200 < 10
    document = exact(run("budget", US, "--compare", "--json").stdout)["gains"]["structured"]
    assert float(document["at_published_margins"]["rho"]) == pytest.approx(float(found["structured"].loss.unbounded))
    pure = compare({**Config.load(US).to_production(), "privacy_defn": "puredp"})
    assert pure.gains["tight"].loss == pure.published_accounted_tightly


def test_margins_after_joint_estimation_are_shown_if_they_are_known():
    modes = compare(US)
    assert "finished" not in modes.to_dict() and "joint estimation" not in shown(modes.render())
    known = {
        b.config.sensitivity: {(r.event.tabulation, r.event.level): 8765.25 for r in b.rows} for b in modes.budgets
    }
    fitted = replace(modes, finished=known)
    assert exact(fitted.to_json())["finished"]["tight"]["PH3"]["state_A-G"] == 8765.25
    assert shown(fitted.render()).count("8765.25") == 4 * len(modes.budgets[0].rows)


@pytest.mark.parametrize("delta", ["0", "1", "-1", "nan", "inf", "x", "1e-999999999"])
def test_an_invalid_delta_is_a_usage_error(delta):
    assert run("budget", US, f"--delta={delta}").exit_code == 2


def test_an_unknown_mode_or_missing_file_is_reported():
    for arguments in (("budget", US, "--sensitivity", "loose"), ("budget", "absent.json")):
        result = run(*arguments)
        assert isinstance(result.exception, PHSafeError)


def test_a_budget_needs_neither_opendp_nor_numpy():
    """The command starts quickly because it imports no heavy libraries."""
    code = (
        "import sys; from phsafe.privacy.budgets import budget; budget(sys.argv[1]).to_json(); "
        "print([m for m in ('opendp', 'numpy', 'scipy', 'polars', 'ibis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(US)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- phsafe ledger ----------------------------------------------------------------------------------------------


def test_ledger_commands(tmp_path):
    file = tmp_path / "ledger"
    assert run("ledger", "init", file, "--cap", "2.514562").exit_code == 0
    document = exact(run("ledger", "show", file, "--json").stdout)
    assert (document["cap"], document["spent"], document["entries"]) == (Decimal("2.514562"), 0, [])
    from phsafe.privacy.accountant import plan
    from phsafe.privacy.ledger import Ledger

    Ledger.open(file).charge(plan(Config.load(US)).total, "r1", {"sensitivity": "published"})
    document = exact(run("ledger", "show", file, "--json").stdout)
    (entry,) = document["entries"]
    assert (entry["release_id"], entry["loss"], entry["loss_bounded"]) == (
        "r1", Decimal("1.257281"), Decimal("2.514562"),
    )  # fmt: skip
    assert document["left"] == Decimal("1.257281")
    shown = run("ledger", "show", file).stdout
    assert "left 1.257281" in shown
    assert "published" in shown
    details = {
        "config": {"state_filter": ["44"], "sensitivity": "tight"},
        "settings": {"skip_validation": True},
    }
    Ledger.open(file).charge(plan(Config.load(US)).total, "r2", details)
    shown = run("ledger", "show", file).stdout
    assert "tight" in shown
    assert "skipped" in shown
    assert "state_filter" not in shown
    assert run("ledger", "verify", file).exit_code == 0
    assert run("ledger", "verify", file, "--head", entry["hash"]).exit_code == 0
    assert isinstance(run("ledger", "verify", file, "--head", "0").exception, PHSafeError)
    assert isinstance(run("ledger", "init", file, "--cap", "9").exception, PHSafeError)
    for cap in ("0", "-1", "inf", "nan", "x", "1e99999999", "1e-99999999"):
        assert run("ledger", "init", tmp_path / "new", f"--cap={cap}").exit_code == 2
    assert run("ledger", "init", tmp_path / "new", "--cap", "1", "--privacy", "none").exit_code == 2
    assert run("ledger", "init", tmp_path / "new", "--cap", "1", "--privacy", "puredp").exit_code == 0


def test_margins_at_the_published_loss():
    """Margins scale with the square root of ρ, and with ε; every mode then has the published loss."""
    modes = compare(US)
    margins = modes.margins_at_published_loss
    loss = {b.config.sensitivity: b.loss.unbounded for b in modes.budgets}
    for b in modes.budgets:
        mode, row = b.config.sensitivity, b.rows[3]
        factor = float(loss[mode] / loss["published"]) ** 0.5
        assert margins[mode]["PH1_num", "state_*"] == pytest.approx(row.moe * factor)
    assert margins["published"]["PH1_num", "state_*"] == pytest.approx(200, abs=0.01)
    assert margins["structured"]["PH1_num", "state_*"] <= 10
    pure = compare({**Config.load(US).to_production(), "privacy_defn": "puredp"})
    ratio = float(pure.budgets[1].loss.unbounded / pure.published.total.unbounded)
    assert pure.margins_at_published_loss["tight"]["PH2", "usa_*"] == pytest.approx(
        pure.budgets[1].rows[12].moe * ratio
    )
    known = dict.fromkeys(margins["tight"], 4321.5)
    solved = replace(modes, solved=SolvedMargins(ModeGain(modes.published.total, (0.1, 0.2), (0.3, 0.4)), known))
    assert exact(solved.to_json())["at_published_loss"][SOLVED_NAME]["PH3"]["state_A-G"] == Decimal("4321.5")
    assert solved.gains[SOLVED_NAME].bounded == (0.3, 0.4)
    assert "4321.50" in shown(solved.render())


def test_a_budget_is_a_frame_a_chart_and_a_notebook_table():
    found = budget(US)
    frame = found.to_polars()
    assert frame.height == 46
    assert float(found.loss.unbounded) == pytest.approx(frame["LOSS"].sum())
    assert "1.257281" in found.plot().title
    assert "1.257281" in found._repr_html_() and "tight-bounded" in compare(US)._repr_html_()


def test_a_representation_names_the_loss_of_each_mode():
    config = Config.load("examples/us.json")
    assert repr(budget(config)).startswith("Budget(ρ = 1.257281 unbounded, 2.514562 bounded; ")
    assert repr(compare(config)).startswith("Comparison(ρ: published 1.257281, tight ")
