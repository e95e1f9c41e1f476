"""Fingerprints of data sources: the bytes, or enough of them to recognise a source, for the ledger's keyed hash."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from phsafe.engines import EngineOptions, Location, open_engine
from phsafe.readers.cef import is_cef
from phsafe.readers.cef_index import local_files
from phsafe.readers.data_folder import DataSource

#: Files up to this size are read in full; larger ones as their size and evenly spaced samples.
FULL_READ = 64 * 2**20
SAMPLES, SAMPLE = 256, 64 * 2**10


def fingerprint_chunks(data: DataSource, options: EngineOptions | None = None) -> Iterator[bytes] | None:
    """Yield the bytes that identify a data source.

    These are the contents of its files, or, for files that only the engine can read, their names and sizes. Frames in
    memory have no fingerprint.
    """
    if isinstance(data, Mapping):
        return None
    if is_cef(data, None):
        return _chunks(local_files(data), Path(data).parent)
    if "://" in str(data) or not Path(data).is_dir():
        return iter(_listed(data, options))
    return _chunks(Path(data).rglob("*"), Path(data))


def _listed(data: Location, options: EngineOptions | None) -> list[bytes]:
    """Return the names and sizes of files that only the engine can read."""
    with open_engine(options) as engine:
        storage = engine.storage
        files = storage.files(storage.address(data)) if storage else {}
    return [f"{name}\0{size}\0".encode() for name, size in sorted(files.items())]


def _chunks(paths: Iterable[Path], folder: Path) -> Iterator[bytes]:
    """Yield the names, sizes and bytes of files, in order of their paths."""
    for path in sorted(path for path in paths if path.is_file()):
        size = path.stat().st_size
        yield f"{os.path.relpath(path, folder)}\0{size}\0".encode("utf-8", "surrogateescape")
        with path.open("rb") as stream:
            if size <= FULL_READ:
                yield stream.read()
                continue
            for i in range(SAMPLES):
                stream.seek((size - SAMPLE) * i // (SAMPLES - 1), os.SEEK_SET)
                yield stream.read(SAMPLE)
