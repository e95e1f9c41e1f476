"""A dictionary that can't be changed, for declarations whose checks and derived results must stay true."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(dict[K, V]):
    """A dictionary that refuses changes.

    >>> cells = FrozenMapping({1: "a"})
    >>> cells[1], cells == {1: "a"}
    ('a', True)
    >>> cells[1] = "b"
    Traceback (most recent call last):
    TypeError: a declaration can't be changed; make another with dataclasses.replace
    """

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a declaration can't be changed; make another with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as a whole, because the usual way would add items one by one."""
        return type(self), (dict(self),)
