"""Plan text to a validated PlanFile; every error names file, line, key path, what was found and what is allowed."""

from __future__ import annotations

import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from collector.core.errors import PlanError, close_words
from collector.core.plan_schema import PlanFile

MOST_ERRORS = 10

Path = tuple[str | int, ...]


def read_plan_text(text: str, name: str) -> tuple[PlanFile, Any]:
    """Return the plan and the YAML tree that knows its lines. `name` is the file as the user knows it."""
    tree = _load(text, name)
    plain = _plain(tree)
    if not isinstance(plain, dict):
        raise PlanError(
            f"{name}: found {_kind(plain)}, expected a mapping with the keys {', '.join(PlanFile.model_fields)}"
        )
    try:
        return PlanFile.model_validate(plain), tree
    except ValidationError as error:
        told = [_sentence(one, tree, name) for one in error.errors()]
        rest = len(told) - MOST_ERRORS
        raise PlanError("\n".join(told[:MOST_ERRORS] + ([f"… and {rest} more"] if rest > 0 else []))) from None


def place(tree: Any, path: Path, name: str) -> str:
    """Return `file, line N: key.path` for a path of the plan, as near as the tree knows it."""
    line: int | None = None
    node, known = tree, list[str]()
    for key in path:
        if not _holds(node, key):
            continue
        listed = isinstance(node, list)
        marks = node.lc.data or {}  # a key that came by a merge (<<) has no mark: the nearest line above is told
        line, node = marks[key][0] + 1 if key in marks else line, node[key]
        known.append(f"[{key}]" if listed else f".{key}" if known else str(key))
    return f"{name}{f', line {line}' if line else ''}: {''.join(known) or 'plan'}"


def _load(text: str, name: str) -> Any:
    yaml = YAML(typ="rt", pure=True)
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise PlanError(f"{where}: not YAML: {error.problem or error.context}") from error
    except YAMLError as error:
        raise PlanError(f"{name}: not YAML: {error}") from error
    except RecursionError:
        raise PlanError(f"{name}: not YAML that can be read: nested too deeply") from None
    except Exception as error:  # a date that is none, a tag on the wrong kind: the parser fails in its own ways
        raise PlanError(f"{name}: not YAML: {error}") from error


def _plain(node: Any) -> Any:
    """Return the tree as plain Python values, without ruamel's own scalar types."""
    if isinstance(node, dict):
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(one) for one in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return f"{text[:60]}{'…' if len(text) > 60 else ''} ({type(value).__name__})"


def _at(tree: Any, path: Path) -> object:
    for key in path:
        if _holds(tree, key):
            tree = tree[key]
    return _plain(tree)


def _holds(node: Any, key: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(key, int) and key < len(node)
    return isinstance(node, dict) and key in node


def _models_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_models_in, typing.get_args(annotation))), None)


def _allowed_keys(path: Path) -> list[str]:
    """Return the keys that the part of the plan at `path` may have."""
    model: type[BaseModel] = PlanFile
    for key in path:
        if isinstance(key, str) and key in model.model_fields:
            model = _models_in(model.model_fields[key].annotation) or model
    return list(model.model_fields)


def _sentence(error: ErrorDetails, tree: Any, name: str) -> str:
    path: Path = error["loc"]
    where = place(tree, path, name)
    if error["type"] == "extra_forbidden":
        allowed = _allowed_keys(path[:-1])
        return f"{where}: unknown key{close_words(str(path[-1]), allowed)}; allowed: {', '.join(allowed)}"
    if error["type"] == "missing":
        return f"{place(tree, path[:-1], name)}: the key {path[-1]!r} is missing"
    if error["type"] == "invalid_key":
        return f"{where}: found the key {path[-1]}, expected a word; quote it"
    expected = _expected(error, path)
    if path[-1:] == ("[key]",):
        return f"{where}: found the key {path[-2]}, {expected}"
    found = "" if expected.startswith("found") else f"found {_kind(_at(tree, path))}, "
    return f"{where}: {found}{expected}"


def _expected(error: ErrorDetails, path: Path) -> str:
    """Return what would be right at `path`, as the end of a sentence."""
    if error["type"] == "too_short":
        return "expected at least one entry"
    if error["type"] == "model_type":
        return f"expected a mapping with the keys {', '.join(_allowed_keys(path))}"
    if error["type"] == "literal_error":
        words = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return f"allowed: {words}{close_words(str(error['input']), words.split(', '))}"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error" and "allowed" in message:
        return message
    return "expected " + message.removeprefix("Input should be ").replace("a valid dictionary", "a mapping")
