import json
import re
from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.configs.config import MAX_BYTES, Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import ConfigError
from phsafe.model.exact_numbers import dumps
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy.accountant import plan

#: A config with MOE targets (90 %), to be filled in with those of the 2020 parameter table.
TARGETS = """
states = "us"
tau = {{ PH1_num = 10, PH2 = 10, PH3 = 6, PH4 = 10, PH6 = 6, PH7 = 10 }}

[{section}]
PH1_num   = {{ {all} }}
PH1_denom = {{ {units} }}
PH2       = {{ {total} }}
PH3       = {{ {minors} }}
PH4       = {{ {all} }}
PH5_denom = {{ {units} }}
PH6       = {{ {total} }}
PH7       = {{ {all} }}
PH8_denom = {{ {units} }}
"""


def toml(section="moe", **levels):
    def row(*numbers):
        keys = ("usa_*", "usa_A-G", "usa_H,I", "state_*", "state_A-G", "state_H,I")
        chosen = keys if len(numbers) == 6 else ("usa_*", "state_*")
        return ", ".join(f'"{key}" = {number}' for key, number in zip(chosen, numbers, strict=True))

    return TARGETS.format(section=section, **{name: row(*numbers) for name, numbers in levels.items()})


def reasons(document, **changes):
    with pytest.raises(ConfigError) as caught:
        Config.load(document | changes)
    return caught.value.reasons


def with_budget(document, value, tabulation="PH2", level="usa_*"):
    budgets = document["privacy_budget"]
    return document | {"privacy_budget": budgets | {tabulation: budgets[tabulation] | {level: value}}}


def with_truncation(document, **budgets):
    return document | {"privacy_budget": document["privacy_budget"] | budgets}


class TestProductionFiles:
    def test_united_states(self, us):
        config = Config.load(us)
        assert config.total == Fraction("1.257281")
        assert len(config.measurements()) == 46
        assert len(config.states) == 51
        assert config.tau == {"PH1_num": 10, "PH2": 10, "PH3": 6, "PH4": 10, "PH6": 6, "PH7": 10}
        assert (config.privacy, config.reader, config.sensitivity) == ("zcdp", "csv", "published")
        assert not config.is_puerto_rico

    def test_puerto_rico(self, pr):
        config = Config.load(pr)
        assert config.total == Fraction("1.226649")
        assert config.states == ("72",)
        assert {m.level.geography.key for m in config.measurements()} == {"state"}

    def test_budgets_keep_their_digits(self, us, us_document):
        budgets = Config.load(us).budgets
        assert budgets["PH1_denom"]["usa_*"] == Decimal("0.000022")
        assert all(type(b) is Decimal for levels in budgets.values() for b in levels.values())
        nothing = {t.name: dict.fromkeys((k.key for k in CENSUS_2020.levels_of(t)), 0) for t in CENSUS_2020.truncation}
        assert budgets == us_document["privacy_budget"] | nothing

    def test_budgets_are_not_rounded_to_floats(self, us_document):
        exact = Decimal("0.100000000000000000000000000001")
        assert Config.load(with_budget(us_document, exact)).budgets["PH2"]["usa_*"] == exact

    def test_round_trip(self, us, tmp_path):
        path = tmp_path / "again.json"
        path.write_text(dumps(Config.load(us).to_production()))
        assert Config.load(path) == Config.load(us)

    def test_levels_without_a_budget_are_left_out(self, us_document):
        config = Config.load(with_budget(us_document, 0, "PH7", "usa_A-G"))
        keys = [level.key for level in config.levels_of(config.catalog.derived[1])]
        assert keys == ["usa_*", "usa_H,I", "state_*", "state_A-G", "state_H,I"]
        nothing = dict.fromkeys(us_document["privacy_budget"]["PH7"], 0)
        budgets = us_document["privacy_budget"] | {"PH7": nothing}
        config = Config.load(us_document | {"privacy_budget": budgets})
        assert not {"PH7", "PH8_num"} & {output.name for output, _ in config.outputs()}


class TestTruncation:
    """Budgets for what truncation drops are optional; its thresholds are those of the tabulations it refers to."""

    @pytest.mark.parametrize(("run", "most"), [("us", "0.0251"), ("pr", "0.0245")])
    def test_shipped_configs_add_at_most_two_percent(self, run, most):
        plain, measured = parameters_2020(run), parameters_2020(f"{run}-measured")
        before, after = Config.load(plain), Config.load(measured)
        added = {m.tabulation.kind for m in after.measurements()} - {m.tabulation.kind for m in before.measurements()}
        assert added == {"dropped", "oversized"}
        assert (
            measured | {"privacy_budget": {k: measured["privacy_budget"][k] for k in plain["privacy_budget"]}} == plain
        )
        losses = [plan(config).total.unbounded for config in (before, after)]
        assert 0 < losses[1] - losses[0] <= Fraction(most) <= losses[0] / 50

    def test_absent_budgets_are_zero_and_stay_absent(self, us_document):
        config = Config.load(us_document)
        assert config.to_production() == us_document
        assert {o.name for o, _ in config.outputs()} == {*us_document["privacy_budget"], "PH5_num", "PH8_num"}
        given = with_truncation(us_document, PH1_dropped={"usa_*": 0, "state_*": 0})
        assert Config.load(given).to_production() == us_document

    def test_given_budgets_are_kept_and_need_every_level(self, us_document):
        given = with_truncation(us_document, PH1_dropped={"usa_*": Decimal("0.1"), "state_*": 0})
        config = Config.load(given)
        assert config.to_production() == given
        assert [level.key for level in config.levels_of(config.catalog.tabulation("PH1_dropped"))] == ["usa_*"]
        with pytest.raises(ConfigError, match=r"PH1_dropped: state_\* missing"):
            Config.load(with_truncation(us_document, PH1_dropped={"usa_*": 1}))
        with pytest.raises(ConfigError, match="expected only usa_"):
            Config.load(with_truncation(us_document, PH1_dropped={"usa_*": 1, "state_*": 1, "state_A-G": 1}))

    def test_thresholds_are_never_given_twice(self, us_document):
        given = with_truncation(us_document, PH7_oversized=us_document["privacy_budget"]["PH7"])
        config = Config.load(given | {"tau": given["tau"] | {"PH7": 7}})
        assert config.tau_of(config.catalog.tabulation("PH7_oversized")) == 7
        assert config.tau_of(config.catalog.tabulation("PH1_denom")) is None
        with pytest.raises(ConfigError, match="PH7_oversized"):
            Config.load(given | {"tau": given["tau"] | {"PH7_oversized": 7}})

    def test_targets(self, us_document):
        """σ² = 1/(2ρ) for dropped persons, 2/ρ for oversized households."""
        levels = {name: dict.fromkeys(of, 500) for name, of in us_document["privacy_budget"].items()}
        levels |= {"PH1_dropped": {"usa_*": 100, "state_*": 50}, "PH1_oversized": dict.fromkeys(levels["PH1_num"], 200)}
        document = {name: value for name, value in us_document.items() if name != "privacy_budget"}
        budgets = Config.load(document | {"moe_target": levels}).budgets
        assert budgets["PH1_dropped"] == {"usa_*": Decimal("0.000135"), "state_*": Decimal("0.000541")}
        assert budgets["PH1_oversized"]["usa_*"] == Decimal("0.000135")
        assert set(budgets["PH6_dropped"].values()) == {0}


class TestToml:
    def test_budgets(self, tmp_path, us):
        rows = {
            "all": ("0.002619", "0.002619", "0.002619", "0.016371", "0.141622", "0.016371"),
            "units": ("2.2e-5", "0.000022", "0.000022", "0.000135", "0.00117", "0.000135"),
            "minors": ("0.001061", "0.001061", "0.001061", "0.00663", "0.662976", "0.00663"),
            "total": (1, 2),
        }
        path = tmp_path / "run.toml"
        path.write_text(toml("budget", **rows))
        config = Config.load(path)
        assert config.states == Config.load(us).states
        assert config.budgets["PH3"] == Config.load(us).budgets["PH3"]
        assert config.budgets["PH1_denom"] == Config.load(us).budgets["PH1_denom"]
        assert config.budgets["PH6"] == {"usa_*": 1, "state_*": 2}

    def test_the_targets_of_the_paper_give_all_of_its_budgets(self, tmp_path, us):
        path = tmp_path / "targets.toml"
        rows = {
            "all": (500, 500, 500, 200, 68, 200),
            "units": (500, 500, 500, 200, 68, 200),
            "minors": (500, 500, 500, 200, 20, 200),
            "total": (500, 200),
        }
        path.write_text(toml(**rows))
        config = Config.load(path)
        assert config.budgets == Config.load(us).budgets
        assert config.total == Fraction("1.257281")

    def test_a_target_that_no_budget_can_meet_is_refused(self, us_document):
        targets = {"moe_target": us_document.pop("privacy_budget")}
        targets["moe_target"]["PH2"]["usa_*"] = Decimal("1e-20")
        (reason,) = reasons(us_document, **targets)
        assert reason.startswith("moe_target, PH2, usa_*: expected a target that a budget can meet")

    def test_a_target_of_zero_means_no_budget(self, us_document):
        targets = {"moe_target": us_document.pop("privacy_budget")}
        targets["moe_target"]["PH2"]["usa_*"] = 0
        assert Config.load(us_document | targets).budgets["PH2"]["usa_*"] == 0

    def test_targets_work_with_zcdp_only_and_not_together_with_budgets(self, us_document):
        targets = {"moe_target": us_document["privacy_budget"]}
        assert any("got both" in reason for reason in reasons(us_document, **targets))
        without = {name: value for name, value in us_document.items() if name != "privacy_budget"}
        assert any("zcdp only" in reason for reason in reasons(without | targets, privacy_defn="puredp"))


class TestBadInput:
    def test_all_problems_are_reported_together(self, us_document):
        document = with_budget(us_document, -1) | {
            "state_filter": ["44", "44", "99"],
            "tau": us_document["tau"] | {"PH2": 0},
            "reader": "xls",
            "privacy_defn": "none",
            "sensitivity": "loose",
            "colour": "blue",
        }
        found = "\n".join(reasons(document))
        for word in ("usa_*", "'44' repeated", "'99'", "tau, PH2", "xls", "'none'", "loose", "colour"):
            assert word in found
        assert len(reasons(document)) == 8

    @pytest.mark.parametrize(
        "value",
        [-1, Decimal("-0.1"), "0.1", None, True, [], {}, float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"),
         Decimal("Infinity"), Decimal("-Infinity"), 10**40,
         pytest.param(10**5000, id="5001 digits"), Decimal("1e40"), Decimal("1e-40"), 1j],
    )  # fmt: skip
    def test_invalid_budgets(self, us_document, value):
        (reason,) = reasons(with_budget(us_document, value))
        assert reason.startswith("privacy_budget, PH2, usa_*: expected a finite number, zero or above")
        assert len(reason) < 200

    @pytest.mark.parametrize(
        "value", [0, -3, 1.5, Decimal(2), "10", None, True, 10**6, pytest.param(10**5000, id="5001 digits"), [10]]
    )
    def test_invalid_thresholds(self, us_document, value):
        (reason,) = reasons(us_document, tau=us_document["tau"] | {"PH4": value})
        assert reason.startswith("tau, PH4: expected a whole number from 1")

    @pytest.mark.parametrize(
        ("states", "words"),
        [
            (["03"], "'03'"),
            (["1"], "'1'"),
            (["44", "44"], "repeated"),
            (["72", "44"], "alone"),
            ([], "list"),
            ([44], "list"),
            ("44", "list"),
            (None, "list"),
            ([["44"]], "list"),
            (["44\n"], r"'44\n'"),
        ],
    )
    def test_invalid_state_filters(self, us_document, states, words):
        assert any(words in reason and "state_filter" in reason for reason in reasons(us_document, state_filter=states))

    @pytest.mark.parametrize("states", [["RI", "WY"], ["Wyoming", "rhode island"], ["56", "RI"]])
    def test_states_by_postal_code_and_name(self, us_document, states):
        config = Config.load(us_document | {"state_filter": states})
        assert config == Config.load(us_document | {"state_filter": ["44", "56"]})
        assert "repeated" in reasons(us_document, state_filter=[*states, "44"])[0]

    def test_a_name_like_that_of_a_shipped_config(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name, hint in (
            ("usa", "; shipped configs: pr, pr-measured, us, us-measured"),
            ("us", "config us > us.json"),
        ):
            with pytest.raises(ConfigError, match=re.escape(hint)):
                Config.load(name)
        with pytest.raises(ConfigError) as caught:
            Config.load("parameters.json")
        assert "shipped" not in str(caught.value)

    def test_puerto_rico_has_no_national_level(self, pr_document):
        found = reasons(with_budget(pr_document, Decimal("0.1"), "PH3", "usa_A-G"))
        assert found == (
            "privacy_budget, PH3: expected 0 for usa_A-G because a Puerto Rico config has no national levels, got more",
        )

    def test_unknown_and_missing_names(self, us_document):
        budgets = dict(us_document["privacy_budget"])
        budgets["PH9"] = budgets.pop("PH2")
        found = "\n".join(reasons(us_document, privacy_budget=budgets, tau={"PH1_num": 10}))
        assert "'PH9'" in found
        assert "PH2 missing" in found
        assert "PH2, PH3, PH4, PH6, PH7 missing" in found
        assert "usa_A-G" in "\n".join(reasons(with_budget(us_document, 1, "PH2", "usa_A-G")))

    @pytest.mark.parametrize("field", ["privacy_budget", "tau"])
    @pytest.mark.parametrize("value", [None, [], "x", 1])
    def test_anything_but_a_mapping_is_refused(self, us_document, field, value):
        found = reasons(us_document, **{field: value})
        assert any(reason.startswith(f"{field}: expected a mapping") for reason in found)

    def test_a_field_under_both_of_its_names_is_refused(self, us_document):
        found = reasons(us_document, budget=us_document["privacy_budget"])
        assert found == ("expected privacy_budget or budget, got both",)

    def test_an_empty_document(self):
        assert len(reasons({})) == 3

    def test_numpy_numbers_are_accepted(self, us_document):
        import numpy as np

        config = Config.load(with_budget(us_document, np.float64(0.25)))
        assert config.budgets["PH2"]["usa_*"] == Decimal("0.25")


class TestFiles:
    def refuse(self, path, words=""):
        with pytest.raises(ConfigError) as caught:
            Config.load(path)
        assert words in str(caught.value)
        assert len(str(caught.value)) < 500 + len(str(path))
        return str(caught.value)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "expected JSON"),
            ("{", "expected JSON"),
            ("[]", "expected an object"),
            ("3", "expected an object"),
            ('"x"', "expected an object"),
            ("null", "expected an object"),
            ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
            ('{"a":' * 90_000 + "1" + "}" * 90_000, "nested too deeply"),
            ('{"tau": {}, "tau": {}}', "tau occurs more than once"),
            ('{"tau": {"PH2": 1, "PH2": 2}}', "PH2 occurs more than once"),
            ('{"tau": ' + "9" * 10_000 + "}", "expected JSON"),
            ('{"tau": 1e99999999999999999999}', "expected"),
        ],
    )
    def test_json(self, tmp_path, text, words):
        path = tmp_path / "c.json"
        path.write_text(text)
        self.refuse(path, words)

    @pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e400", "-0.1"])
    def test_json_numbers(self, tmp_path, us, word):
        path = tmp_path / "c.json"
        path.write_text(us.read_text().replace("0.002619", word, 1))
        self.refuse(path, "PH1_num, usa_*: expected a finite number")

    @pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "a = [" * 5000, "a = 2020-01-01"])
    def test_toml(self, tmp_path, text):
        path = tmp_path / "c.toml"
        path.write_text(text)
        self.refuse(path)

    def test_toml_numbers(self, tmp_path):
        rows = {"all": ("nan",) * 6, "units": ("inf",) * 6, "minors": (1,) * 6, "total": (1, "-inf")}
        path = tmp_path / "c.toml"
        path.write_text(toml("budget", **rows))
        assert self.refuse_many(path) == 3 * 6 + 3 * 6 + 2

    def refuse_many(self, path):
        with pytest.raises(ConfigError) as caught:
            Config.load(path)
        return len(caught.value.reasons)

    def test_not_utf_8(self, tmp_path, us):
        path = tmp_path / "c.json"
        path.write_bytes(us.read_text().encode("utf-16"))
        self.refuse(path, "UTF-8")

    def test_a_file_over_the_size_limit_is_refused(self, tmp_path):
        path = tmp_path / "c.json"
        with path.open("wb") as file:
            file.truncate(100 * 2**20)
        self.refuse(path, f"at most {MAX_BYTES} bytes")

    def test_an_endless_file_is_refused(self):
        self.refuse("/dev/zero", "at most")

    def test_a_missing_file_or_a_folder_is_refused(self, tmp_path):
        self.refuse(tmp_path / "none.json", "can't read the config")
        self.refuse(tmp_path, "can't read the config")

    def test_load_accepts_mappings_and_configs(self, us, us_document):
        assert Config.load(us_document) == Config.load(us)
        assert Config.load(json.loads(us.read_text())) == Config.load(us)
        assert Config.load(Config.load(us)) == Config.load(us)


def test_a_share_for_blind_cells(us_document):
    config = Config.load(us_document | {"sensitivity": "structured", "blind_share": {"PH3": Decimal("0.25")}})
    level = config.catalog.levels[0]
    assert [block.share for block in config.blocks(config.catalog.tabulation("PH3"), level)] == [
        Fraction(1, 4),
        Fraction(3, 4),
    ]
    assert Config.load(config.to_production()) == config
    assert "blind_share" not in Config.load(us_document).to_production()


@pytest.mark.parametrize("share", [0, 1, -1, 2, "0.5", True, float("nan"), None])
def test_a_share_outside_of_0_to_1_is_refused(us_document, share):
    with pytest.raises(ConfigError, match="blind_share, PH3: expected a number between 0 and 1"):
        Config.load(us_document | {"blind_share": {"PH3": share}})


def test_a_share_for_a_tabulation_without_persons_is_refused(us_document):
    with pytest.raises(ConfigError, match="blind_share: expected only"):
        Config.load(us_document | {"blind_share": {"PH1_denom": Decimal("0.5")}})


def test_structured_targets_are_met_by_every_block(us_document):
    """A target is about the noisiest block, and a given share counts."""
    targets = {name: dict.fromkeys(levels, 100) for name, levels in us_document.pop("privacy_budget").items()}
    for shares in ({}, {"PH3": Decimal("0.9")}):
        config = Config.load(us_document | {"moe_target": targets, "sensitivity": "structured", "blind_share": shares})
        for tabulation, level, budget in config.measurements():
            margins = [
                1.645 * float(block.noise_factor("zcdp") / Fraction(budget)) ** 0.5
                for block in config.blocks(tabulation, level)
            ]
            assert int(max(margins)) <= 100
            assert max(margins) > 98 or budget <= Decimal("0.0002")


def test_a_publication_is_kept_and_cited(us_document):
    given = {"agency": "Bureau of Examples", "contact": "data@example.org", "date": "2031-05-01", "version": "2"}
    config = Config.load(us_document | {"publication": given})
    assert config.to_production()["publication"] == given
    assert Config.load(config.to_production()) == config
    assert "publication" not in Config.load(us_document).to_production()
    cited = config.publication.cite("Households 2030", "0f0e")
    assert cited == "Bureau of Examples (2031). Households 2030. Version 2. Release 0f0e. Published 2031-05-01."
    assert Config.load(us_document | {"publication": {"citation": "As you like."}}).publication.cite("x", "y") == (
        "As you like."
    )


def test_a_wrong_publication_is_refused_with_every_problem(us_document):
    wrong = {"agency": 3, "contact": "two\nlines", "licence": " ", "citation": "x" * 1001, "date": "1 May 2031"}
    with pytest.raises(ConfigError) as refused:
        Config.load(us_document | {"publication": wrong})
    assert [reason.split(":")[0] for reason in refused.value.reasons] == [
        *(f"publication, {name}" for name in ("agency", "contact", "licence", "citation", "date"))
    ]
    for other in ([], "x", {"publisher": "x"}, {1: "x"}):
        with pytest.raises(ConfigError, match="publication: expected a mapping of title, agency"):
            Config.load(us_document | {"publication": other})
