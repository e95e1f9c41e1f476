"""Scenarios: what the page passes on unchanged."""

from dataclasses import replace

from phsafe.configs.config import Config
from phsafe.configs.publication import Publication
from phsafe.explorer.scenario import Scenario
from phsafe.model.tables import CENSUS_2020

ABOUT = {"population": "People of 2030", "publication": {"agency": "Bureau of Examples", "date": "2031-05-01"}}


def test_a_config_keeps_its_population_and_publication_through_the_page():
    config = Config.load("examples/pr.json")
    config = replace(config, population=ABOUT["population"], publication=Publication(**ABOUT["publication"]))
    document = Scenario.from_config(config, "x").to_dict()
    assert {name: document[name] for name in ABOUT} == ABOUT
    again, _, problems = Scenario.from_dict(document, CENSUS_2020).config()
    assert problems == {}
    assert again.to_production() == config.to_production()


def test_a_publication_that_a_config_would_refuse_is_refused():
    document = Scenario.from_config(Config.load("examples/pr.json"), "x").to_dict() | {"publication": {"date": "May"}}
    config, _, problems = Scenario.from_dict(document, CENSUS_2020).config()
    assert config is None
    assert "publication, date: expected YYYY-MM-DD" in problems["scenario"]
