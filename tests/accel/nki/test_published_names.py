"""Every public name of the published language is here, or said not to be, with its parameters."""

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import accel.nki.collectives as collectives
import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.nki.enums import Token
from accel.nki.tensor import Tensor

FACTS = tomllib.loads(
    (Path(__file__).parents[3] / "docs" / "nki_names.toml").read_text(encoding="utf-8")
)
OWNERS: dict[str, object] = {
    "language": nl,
    "isa": nisa,
    "isa_members": nisa,
    "collectives": collectives,
    "tensor": Tensor,
    "tile_size": nl.tile_size,
}


def found(part: str, name: str) -> object:
    owner = OWNERS[part]
    for each in name.split("."):
        owner = getattr(owner, each)
    return owner


def accepted(value: object) -> set[str]:
    """Parameter names that a call takes; of a token, those of the function that it calls."""
    call = value._apply if isinstance(value, Token) else value
    assert callable(call)
    parameters = inspect.signature(call).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {"*"}
    return {p.name for p in parameters}


def published() -> Iterator[tuple[str, str]]:
    for part in OWNERS:
        for name in FACTS[part]["names"]:
            yield part, name


@pytest.mark.parametrize(("part", "name"), list(published()))
def test_a_published_name_is_here(part: str, name: str) -> None:
    if part == "tile_size":
        value = found(part, name)
        assert isinstance(value, int)
    else:
        assert found(part, name) is not None


@pytest.mark.parametrize("path", list(FACTS["parameters"]))
def test_a_call_takes_the_published_parameters(path: str) -> None:
    part, _, name = path.partition(".")
    names = accepted(found(part, name))

    missing = [p for p in FACTS["parameters"][path].split() if p not in names]

    assert missing == [] or "*" in names


def test_deviations_are_of_published_names() -> None:
    known = {f"{part}.{name}" for part, name in published()}

    assert [path for path in FACTS["deviations"] if path not in known] == []


def test_a_name_that_is_not_published_is_an_error() -> None:
    for module in (nl, nisa, collectives):
        with pytest.raises(AttributeError, match="has no 'no_such_name'"):
            getattr(module, "no_such_name")  # noqa: B009  # what a kernel does
