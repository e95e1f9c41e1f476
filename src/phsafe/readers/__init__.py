"""Readers: open the input, in any of its formats, as tables of an engine."""

from phsafe.readers.data_folder import DataSource, load, prepare
from phsafe.readers.input_tables import Tables

__all__ = ["DataSource", "Tables", "load", "prepare"]
