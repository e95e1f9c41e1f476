"""A data source's bytes, or enough of them to know it again: for the ledger's keyed fingerprint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: Files up to this size are read whole; of larger ones, the size and evenly spaced pieces.
WHOLE = 64 * 2**20
PIECES, PIECE = 256, 64 * 2**10


def fingerprint_chunks(folder: Path) -> Iterator[bytes]:
    """Names, sizes and bytes of a folder's files, in order."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = path.stat().st_size
        yield f"{path.relative_to(folder)}\0{size}\0".encode("utf-8", "surrogateescape")
        with path.open("rb") as stream:
            if size <= WHOLE:
                yield stream.read()
                continue
            for i in range(PIECES):
                stream.seek((size - PIECE) * i // (PIECES - 1), os.SEEK_SET)
                yield stream.read(PIECE)
