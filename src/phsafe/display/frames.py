"""Conversion of results to Polars, Arrow and pandas frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from phsafe.errors import PHSafeError

if TYPE_CHECKING:
    import polars as pl


class Frames(ABC):
    """A result that converts to one tidy frame."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """Return the result as one tidy Polars frame."""

    def to_arrow(self) -> Any:  # noqa: ANN401
        """Convert the result to Arrow.

        Returns:
            The frame of `to_polars` as a PyArrow table.

        Example:
            >>> import phsafe
            >>> phsafe.budget("examples/us.json").to_arrow().column_names[:2]
            ['TABULATION', 'LEVEL']
        """
        return self.to_polars().to_arrow()

    def to_pandas(self) -> Any:  # noqa: ANN401
        """Convert the result to pandas.

        Returns:
            The frame of `to_polars` as a pandas frame.

        Raises:
            PHSafeError: If pandas is not installed.

        Example:
            >>> import phsafe
            >>> list(phsafe.budget("examples/us.json").to_pandas().columns[:2])
            ['TABULATION', 'LEVEL']
        """
        try:
            return self.to_polars().to_pandas()
        except ModuleNotFoundError:
            raise PHSafeError(
                "conversion to pandas needs pandas, which isn't installed; run: pip install pandas"
            ) from None
