"""Results as frames of whichever library a person works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from phsafe.errors import PHSafeError

if TYPE_CHECKING:
    import polars as pl


class Frames(ABC):
    """What can be had as one tidy frame: Polars at home, pandas and Arrow on the way out."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """Everything in one tidy Polars frame."""

    def to_arrow(self) -> Any:  # noqa: ANN401
        """The same as a PyArrow table."""
        return self.to_polars().to_arrow()

    def to_pandas(self) -> Any:  # noqa: ANN401
        """The same as a pandas frame; needs pandas."""
        try:
            return self.to_polars().to_pandas()
        except ModuleNotFoundError:
            raise PHSafeError("a pandas frame needs pandas, which isn't installed; run: pip install pandas") from None
