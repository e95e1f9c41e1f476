"""Writing one file whole or not at all; a file that exists is never replaced."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from phsafe.errors import OutputError


def check_absent(path: Path) -> None:
    """Refuse a file that exists or can't be made, before any work is done."""
    if os.path.lexists(path):
        raise OutputError(f"{path}: expected a file that doesn't exist yet; choose another name or remove it")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: expected the folder {path.absolute().parent} to exist; make it first")


def write_new(path: Path, content: bytes) -> None:
    """Write a new file under a temporary name, then give it its own."""
    check_absent(path)
    # A name that nobody can guess and plant a link at, made anew or not at all.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(partial, path)
    except FileExistsError:
        check_absent(path)
        raise
    except OSError as error:
        raise OutputError(f"{path}: can't write the file: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
