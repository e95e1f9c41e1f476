"""Python calls as users make them: arguments are checked by their annotations, and notebooks show progress.

The command line calls the functions themselves.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import wraps
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from phsafe.errors import ArgumentError, did_you_mean

P = ParamSpec("P")
T = TypeVar("T")

#: What to call a type in a message.
TYPE_NAMES: Mapping[Any, str] = {
    str: "text", Path: "a path", int: "a whole number", float: "a number", bool: "True or False", Mapping: "a mapping",
    type(None): "None",
}  # fmt: skip
#: (expected type, given type) → what to do instead.
ADVICE = {
    ("Config", "Catalog"): "a catalog has tables but no budgets: pass a config, such as phsafe.config('us')",
    ("Config", "Release"): "pass release.config",
    ("Config", "Estimates"): "pass estimates.config",
    ("Release", "Estimates"): "pass the release that they were estimated from",
    ("Release", "Config"): "a config is not a release: make one with phsafe.release",
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Check the types of the arguments of a public call, and show its progress in a notebook.

    A wrong argument raises `ArgumentError`, which is also a `TypeError`, with one sentence for each problem.

    >>> @checked
    ... def half(number: int) -> float:
    ...     return number / 2
    >>> half("3")
    Traceback (most recent call last):
    phsafe.errors.ArgumentError: half, number: expected a whole number, got text ('3')
    """
    signature, title = inspect.signature(function), function.__qualname__.rpartition(">.")[2]
    annotations: dict[str, Any] = {}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = _bound(title, signature, args, kwargs)
        if not annotations:
            annotations.update(_annotations(function, signature))
        problems = [
            problem
            for name, value in bound.arguments.items()
            if name in annotations and (problem := _problem(title, name, value, annotations[name]))
        ]
        if problems:
            raise ArgumentError(problems)
        if "progress" in signature.parameters and "progress" not in bound.arguments and _in_notebook():
            with _notebook_progress(title) as progress:
                bound.arguments["progress"] = progress
                return function(*bound.args, **bound.kwargs)
        return function(*args, **kwargs)

    return call


def _bound(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> inspect.BoundArguments:  # noqa: ANN401
    unknown = [key for key in kwargs if key not in signature.parameters]
    known = [key for key in signature.parameters if key != "self"]
    if unknown:
        raise ArgumentError(
            [
                f"{name}: expected the arguments {', '.join(known)}, got {key!r}{did_you_mean(key, known)}"
                for key in unknown
            ]
        )
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{name}: expected the arguments {', '.join(known)}: {error}") from None


def _annotations(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """The types of the parameters. Those that can't be resolved are imported for type checkers only, and skipped."""
    found = {}
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, vars(sys.modules[function.__module__]))  # noqa: S307  (our own source)
            except NameError:
                continue
        if annotation is not inspect.Parameter.empty:
            found[name] = annotation
    return found


def _problem(function: str, name: str, value: object, annotation: Any) -> str:  # noqa: ANN401
    """What is wrong with the type of an argument; empty if nothing is."""
    if _fits(value, annotation):
        return ""
    kinds = [kind for kind in _parts(annotation) if not (kind is str and Path in _parts(annotation))]
    named = list(dict.fromkeys(_name(kind) for kind in kinds if kind is not type(None)))
    expected = ", ".join(named[:-1]) + " or " + named[-1] if len(named) > 1 else named[0]
    got = _given(value)
    advice = next((text for kind in kinds if (text := ADVICE.get((_simple(kind), type(value).__name__)))), "")
    return f"{function}, {name}: expected {expected}, got {got}{f'; {advice}' if advice else ''}"


def _parts(annotation: Any) -> list[Any]:  # noqa: ANN401
    """The alternatives of an annotation."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for each in get_args(annotation) for part in _parts(each)]
    return [annotation]


def _fits(value: object, annotation: Any) -> bool:  # noqa: ANN401
    """Whether a value has one of the types of an annotation. Types that can't be checked fit."""
    for part in _parts(annotation):
        kind = get_origin(part) or part
        if not isinstance(kind, type):
            return True
        if kind is int:
            fits = isinstance(value, Integral) and not isinstance(value, bool)
        elif kind is float:
            fits = isinstance(value, Real) and not isinstance(value, bool)
        elif kind is Path:
            fits = isinstance(value, PurePath)
        else:
            fits = isinstance(value, kind)
        if fits:
            return True
    return False


def _simple(kind: Any) -> str:  # noqa: ANN401
    return str(getattr(get_origin(kind) or kind, "__name__", kind))


def _name(kind: Any) -> str:  # noqa: ANN401
    base = get_origin(kind) or kind
    return TYPE_NAMES.get(base) or f"{'an' if _simple(base)[0] in 'AEIOU' else 'a'} {_simple(base)}"


def _given(value: object) -> str:
    """The type of an argument; short text and numbers as they are."""
    known = TYPE_NAMES.get(type(value))
    shown = f" ({value!r:.40})" if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return f"{known}{shown}" if known else _name(type(value))


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which can show a bar that moves."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _notebook_progress(title: str) -> Any:  # noqa: ANN401
    """Yield a progress callback that shows a bar in the notebook, and at the end that the call is done."""
    from html import escape  # noqa: PLC0415

    import IPython.display as notebook  # noqa: PLC0415

    shown = -1
    handle = notebook.display(notebook.HTML(f"<small>{title}</small>"), display_id=True)

    def bar(stage: str | int, done: float) -> None:
        nonlocal shown
        text, share = (stage, done) if isinstance(stage, str) else ("", stage / done)
        percent = int(100 * share)
        if percent != shown:
            shown = percent
            meter = f"<progress max=100 value={percent}></progress>"
            handle.update(notebook.HTML(f"<small>{escape(f'{title}: {text}')} {meter}</small>"))

    end = "stopped"
    try:
        yield bar
        end = "done"
    finally:
        handle.update(notebook.HTML(f"<small>{title}: {end}</small>"))
