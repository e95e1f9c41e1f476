"""JSON and TOML files with exact decimals: configs, catalogs, targets. A hostile file can't use up time or memory."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from phsafe.errors import ConfigError, did_you_mean


def read_document(path: Path, what: str, max_bytes: int) -> dict[str, Any]:
    """Read a JSON or TOML file, depending on its extension.

    Args:
        path: The file.
        what: What the file should be, for messages: "config".
        max_bytes: The largest size; anything larger is a mistake or an attack.

    Raises:
        ConfigError: The file can't be read, is too large, or can't be parsed.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ConfigError(f"{path}: expected a {what} of at most {max_bytes} bytes, got a larger file")
        text = content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: can't read the {what}: {error.strerror}{_similar_file(path)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a UTF-8 text file, got other bytes") from None
    toml = path.suffix.lower() == ".toml"
    try:
        document: Any = tomllib.loads(text, parse_float=Decimal) if toml else parse_json(text)
    except (ValueError, ArithmeticError, RecursionError) as error:
        form = "TOML" if toml else "JSON"
        why = str(error).splitlines()[0] if not isinstance(error, RecursionError) else "nested too deeply"
        ending = "" if toml else " (TOML must be in a file ending in .toml)"
        raise ConfigError(f"{path}: expected {form}{ending}, got text that can't be parsed: {why}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected an object with the fields of a {what}, got {document!r:.40}")
    return document


def _similar_file(path: Path) -> str:
    """Suggest a JSON or TOML file beside one that doesn't exist."""
    try:
        names = [] if path.exists() else [file.name for file in path.parent.iterdir()]
    except OSError:
        return ""
    return did_you_mean(path.name, [name for name in names if name.lower().endswith((".json", ".toml"))])


def parse_json(text: str) -> Any:  # noqa: ANN401
    """Parse JSON with exact decimals. An object with a repeated key is refused: one value would be lost silently."""
    return json.loads(text, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=_no_repeats)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        repeated = sorted(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise ValueError(f"{', '.join(repeated)[:200]} occurs more than once in one object")
    return document
