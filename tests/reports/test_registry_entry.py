"""`phsafe registry`: entries follow the registry's template, match the release and invent nothing."""

import re
from decimal import Decimal

import pytest
import yaml

import phsafe
from phsafe.privacy.budgets import budget
from phsafe.reports.registry_entry import TODO, leaves
from phsafe.reports.yaml_writer import dump

#: The fields of the registry's template; an entry may omit some but must not add any.
FIELDS = {
    "basic": {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
              "data_product_sector", "publication_date"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "number_of_privacy_units", "privacy_parameters",
                     "privacy_parameters_details"},
    "deployment_model": {"model_name", "model_name_details", "trust_assumptions", "actors", "release_type",
                         "release_type_details", "data_source_type", "data_source_type_details", "access_type",
                         "access_type_details"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing",
                       "justification", "utility", "additional_information"},
    "administrative": {"evidence_sources", "status", "registry_authors", "tier"},
}  # fmt: skip
CHOICES = {
    "data_product_type": {"Summary statistics"},
    "variant_name": {"Pure DP", "Zero-concentrated DP"},
    "model_name": {"Central"},
    "release_type": {"One release"},
    "data_source_type": {"Static"},
    "access_type": {"Non-interactive"},
    "status": {"Draft"},
    "tier": {2},
}
ANSWERS = {
    "name": "Households: 2030",
    "curator": "Bureau of “Tests”",
    "curator_type": "Government",
    "intended_use": "# not a comment\nTo test\u2028things: [yes]",
    "publication_date": "2031-02-28",
    "author": "'A. Writer'",
}


def make_entry(release, path, **answers):
    left = phsafe.registry(release, path, **answers)
    return yaml.safe_load(path.read_text("utf-8")), left


@pytest.mark.parametrize("name", ["one table", "puerto rico", "pure", "tight"])
def test_entry_follows_the_template_and_matches_the_release(name, partial, tmp_path):
    release = partial(name)
    entry, left = make_entry(release, tmp_path / "entry.yaml")
    assert set(entry) == {"url_slug", "deployment"}
    assert set(entry["deployment"]) == set(FIELDS)
    for part, known in FIELDS.items():
        assert set(entry["deployment"][part]) <= known
    values = {path.split(".")[-1]: value for path, value in leaves(entry)}
    for field, allowed in CHOICES.items():
        assert values[field] in allowed, field
    costs = budget(release.config)
    unit = "epsilon" if name == "pure" else "rho"
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert set(parameters) == {unit}
    assert Decimal(str(parameters[unit])) >= costs.loss.bounded
    assert float(parameters[unit]) == pytest.approx(float(costs.loss.bounded), abs=1e-6)
    region = entry["deployment"]["basic"]["data_product_region"]
    assert (region == "Puerto Rico") == (name == "puerto rico")
    assert sorted(left) == sorted(path for path, value in leaves(entry) if isinstance(value, str) and TODO in value)


def test_answers_are_placed_correctly_and_nothing_is_invented(two, tmp_path):
    entry, left = make_entry(two, tmp_path / "entry.yaml", **ANSWERS)
    basic = entry["deployment"]["basic"]
    assert basic["name"] == "Households: 2030"
    assert basic["data_curators"] == [{"data_curator_name": "Bureau of “Tests”", "data_curator_type": "Government"}]
    assert basic["intended_use"] == "# not a comment To test things: [yes]"
    assert basic["publication_date"] == "2031-02-28"
    assert entry["deployment"]["administrative"]["registry_authors"] == ["'A. Writer'"]
    assert entry["url_slug"] == "households-2030-bureau-of-tests-2031"
    blank, all_left = make_entry(two, tmp_path / "blank.yaml")
    assert len(all_left) == len(left) + len(ANSWERS) + 1
    answered = dict(leaves(entry))
    assert {path for path, value in leaves(blank) if answered[path] != value} == set(all_left) - set(left)


def test_command_lists_open_fields_and_refuses_invalid_answers(two, tmp_path, phsafe_command):
    out = tmp_path / "entry.yaml"
    outcome = phsafe_command("registry", two.path, out, "--curator-type", "Guild", "--publication-date", "2031-02-30")
    assert outcome.code == 1
    assert "expected one of Government, Industry, Nonprofit, got Guild" in outcome.err
    assert "expected a date as YYYY-MM-DD, got 2031-02-30" in outcome.err
    assert not out.exists()
    outcome = phsafe_command("registry", two.path, out, "--name", "Tables")
    assert outcome.code == 0
    assert "deployment.implementation.justification" in outcome.err
    assert "deployment.basic.name" not in outcome.err
    assert phsafe_command("registry", two.path, out).code == 1
    outcome = phsafe_command("registry", tmp_path, tmp_path / "other.yaml")
    assert outcome.code == 1
    assert "expected a release folder" in outcome.err


@pytest.mark.parametrize(
    "text", ["", " ", "no", "1.0", "a: b", "#x", "\ttab", "'", '"', "\\", "é\u200b", "x\n y", " x\ny\n", "-"]
)
def test_any_text_survives_a_yaml_round_trip(text):
    back = yaml.safe_load(dump({"a": text, "b": [text, {"c": text, "d": text}]}))
    flat = [value for _, value in leaves(back)]
    assert [re.sub(r"\n$", "", v) for v in flat] == [re.sub(r"\n$", "", text)] * 4
