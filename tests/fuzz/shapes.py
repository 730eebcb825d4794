"""Bodies of a wire model, made from the JSON Schema that pydantic derives from it: a new kind is fuzzed at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from runtime_actors.contract.base import WireModel
from tests.fuzz.source import Source

Pools = Mapping[str, Sequence[Any] | Callable[[Source], Any]]
"""By the name of a field: values that mean something to the runtime that will read them."""

_SHARE_OF_POOLS: Final = 0.85
_MOST_ITEMS: Final = 4


class Shape:
    """One model."""

    def __init__(self, model: type[WireModel]) -> None:
        self._root = model.model_json_schema()
        self._definitions: dict[str, Any] = self._root.get("$defs", {})

    def body(self, source: Source, pools: Pools) -> dict[str, Any]:
        """One that holds, as far as the schema says."""
        made = self._value(source, pools, self._root)
        assert isinstance(made, dict)
        return made

    def _value(self, source: Source, pools: Pools, schema: dict[str, Any], name: str = "") -> Any:  # noqa: ANN401, C901
        if name in pools and source.chance(_SHARE_OF_POOLS):
            pool = pools[name]
            return pool(source) if callable(pool) else copy.deepcopy(source.pick(pool))
        if "$ref" in schema:
            return self._value(source, pools, self._definitions[schema["$ref"].rpartition("/")[2]])
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._value(source, pools, source.pick(choices))
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return source.pick(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(source, pools, schema)
            case "array":
                least = schema.get("minItems", 0)
                count = source.random.randint(least, min(schema.get("maxItems", _MOST_ITEMS), least + _MOST_ITEMS))
                return [self._value(source, pools, schema["items"]) for _ in range(count)]
            case "string":
                return _text(source, schema)
            case "integer":
                return _number(source, schema)
            case "number":
                return _number(source, schema) + source.pick((0, 0, 0.5))
            case "boolean":
                return source.chance(0.5)
        return None

    def _object(self, source: Source, pools: Pools, schema: dict[str, Any]) -> dict[str, Any]:
        required = schema.get("required", ())
        if "properties" in schema:
            return {
                name: self._value(source, pools, one, name)
                for name, one in schema["properties"].items()
                if name in required or source.chance(0.5)
            }
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict):
            return {source.pick("abc"): self._value(source, pools, inner) for _ in range(source.below(3))}
        if "patternProperties" in schema:
            [(pattern, inner)] = schema["patternProperties"].items()
            return {source.matching(pattern): self._value(source, pools, inner) for _ in range(source.below(3))}
        return {source.pick("abc"): source.plain() for _ in range(source.below(4))}


def _text(source: Source, schema: dict[str, Any]) -> str:
    if "pattern" in schema:
        return source.matching(schema["pattern"])
    least, most = schema.get("minLength", 0), schema.get("maxLength", 200)
    made = source.text().replace("\0", "").encode("utf-8", "replace").decode()
    return (made + "x" * least)[: max(least, source.pick((most, 50)))] if len(made) < least else made[:most]


def _number(source: Source, schema: dict[str, Any]) -> int:
    least, most = int(schema.get("minimum", -1000)), int(schema.get("maximum", 2**53 - 1))
    return source.pick((least, most, min(most, least + 1), source.random.randint(least, min(most, least + 100))))


# --- mutation ---


def spoil(source: Source, tree: dict[str, Any], pools: Pools) -> None:
    """Change one place of a tree: another value, none, one more, another type, another's id."""
    place, key = _somewhere(source, tree)
    kind = source.random.random()
    if kind < 0.2 and key is not None:
        del place[key]
    elif kind < 0.3:
        _put(source, place, source.json())
    elif kind < 0.5 and pools:
        pool = pools[key if key in pools and source.chance(0.7) else source.pick(sorted(pools))]
        place[key] = pool(source) if callable(pool) else copy.deepcopy(source.pick(pool))
    elif kind < 0.6 and isinstance(place.get(key) if isinstance(place, dict) else None, str):
        place[key] = source.pick((place[key] + source.text(), place[key][:-1], place[key].upper(), [place[key]]))
    elif kind < 0.9:
        place[key] = source.scalar()
    elif kind < 0.96:
        place[key] = source.json()
    elif kind < 0.985:
        place[key] = source.no_json()
    else:
        place[key] = source.extreme() if source.chance(0.7) else source.large_text()


def _somewhere(source: Source, tree: Any) -> tuple[Any, Any]:  # noqa: ANN401 - JSON
    """A container that is not empty, and a place in it."""
    at = tree
    while True:
        key = source.pick(sorted(at, key=repr)) if isinstance(at, dict) else source.below(len(at))
        inner = at[key]
        if not inner or not isinstance(inner, (dict, list)) or source.chance(0.3):
            return at, key
        at = inner


def _put(source: Source, place: Any, value: object) -> None:  # noqa: ANN401 - JSON
    if isinstance(place, dict):
        place[source.key()] = value
    else:
        place.append(value)
