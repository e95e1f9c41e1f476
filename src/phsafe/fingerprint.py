"""A data source's bytes, or enough of them to know it again: for the ledger's keyed fingerprint."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from phsafe.engines import EngineOptions, Location, open_engine
from phsafe.readers.cef import is_cef
from phsafe.readers.cef_files import local_files
from phsafe.readers.read import DataSource

#: Files up to this size are read whole; of larger ones, the size and evenly spaced pieces.
WHOLE = 64 * 2**20
PIECES, PIECE = 256, 64 * 2**10


def fingerprint_chunks(data: DataSource, options: EngineOptions | None = None) -> Iterator[bytes] | None:
    """What a data source is known by: its files' bytes where this program sees them, else what the engine can say.

    Frames in memory are known by nothing.
    """
    if isinstance(data, Mapping):
        return None
    if is_cef(data, None):
        return _chunks(local_files(data), Path(data).parent)
    if "://" in str(data) or not Path(data).is_dir():
        return iter(_listed(data, options))
    return _chunks(Path(data).rglob("*"), Path(data))


def _listed(data: Location, options: EngineOptions | None) -> list[bytes]:
    """Names and sizes of files that only the engine can see."""
    with open_engine(options) as engine:
        storage = engine.storage
        files = storage.files(storage.address(data)) if storage else {}
    return [f"{name}\0{size}\0".encode() for name, size in sorted(files.items())]


def _chunks(paths: Iterable[Path], folder: Path) -> Iterator[bytes]:
    """Names, sizes and bytes of files, in order."""
    for path in sorted(path for path in paths if path.is_file()):
        size = path.stat().st_size
        yield f"{os.path.relpath(path, folder)}\0{size}\0".encode("utf-8", "surrogateescape")
        with path.open("rb") as stream:
            if size <= WHOLE:
                yield stream.read()
                continue
            for i in range(PIECES):
                stream.seek((size - PIECE) * i // (PIECES - 1), os.SEEK_SET)
                yield stream.read(PIECE)
