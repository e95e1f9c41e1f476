"""Objects for docstring examples: `release`, `estimates`, and `home`, the folder that contains the release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phsafe

#: The modules whose examples use these objects.
MODULES = ("estimates.py", "release_folder.py", "verify.py")


@pytest.fixture(scope="session")
def example_objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A release of the small test data, and finished tables estimated from it."""
    home: Path = tmp_path_factory.mktemp("examples")
    release = phsafe.release(
        "examples/acs-ri.json", "tests/data/small", home / "release", ledger=home / "small.ledger", new_ledger=True
    )
    return {"phsafe": phsafe, "home": home, "release": release, "estimates": phsafe.estimate(release)}


@pytest.fixture(autouse=True)
def add_example_objects(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> Iterator[None]:
    """Make the objects available to the examples that use them, and to no others: pytest shares the namespace."""
    objects = request.getfixturevalue("example_objects") if request.node.path.name in MODULES else {}
    doctest_namespace.update(objects)
    yield
    for name in objects:
        del doctest_namespace[name]
