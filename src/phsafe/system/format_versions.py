"""Versions of the file formats that PHSafe writes and reads again, and the refusal of any other version.

The manifest of a release and the ledger check their own versions. Configs have none: theirs is the format of 2020.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from phsafe.errors import PHSafeError


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    Attributes:
        name: Its name in the files, such as ``phsafe-estimates``.
        version: The version that this program writes, and the only one that it reads.
        if_older: How to go on with a file of an older version, as an instruction.

    """

    name: str
    version: int
    if_older: str

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"

    def check(self, where: object, found: object) -> None:
        """Refuse a file whose format is not exactly this one.

        Args:
            where: The file, for the message.
            found: What the file says; None if it says nothing, as files from before there were versions.

        Raises:
            PHSafeError: The file is newer, older or something else, with the way to go on.

        Example:
            >>> FileFormat("phsafe-example", 2, "make it again").check("a.json", "phsafe-example/1")
            Traceback (most recent call last):
            phsafe.errors.PHSafeError: a.json: expected format phsafe-example/2, got phsafe-example/1; make it again

        """
        if found == str(self):
            return
        stated = re.fullmatch(rf"{re.escape(self.name)}/([1-9]\d{{0,5}})", found) if isinstance(found, str) else None
        if stated is None:
            shown, way = "none" if found is None else "another", self.if_older
        elif int(stated[1]) > self.version:
            shown, way = str(found), "a newer version of PHSafe wrote it: use that version"
        else:
            shown, way = str(found), self.if_older
        raise PHSafeError(f"{where}: expected format {self}, got {shown}; {way}")


ESTIMATES = FileFormat("phsafe-estimates", 1, "run phsafe estimate on the release again, which costs no privacy")
SHARES = FileFormat("phsafe-shares", 1, "run phsafe accuracy again")
SCENARIOS = FileFormat("phsafe-scenarios", 1, "export the scenario again, or open its config")
RUN_LOG = FileFormat("phsafe-log", 1, "name a new file")
FORMATS = (ESTIMATES, SHARES, SCENARIOS, RUN_LOG)
