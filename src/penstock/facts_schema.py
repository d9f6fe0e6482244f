"""The telemetry contract as JSON Schema (draft 2020-12), made from the dataclasses of `facts`.

Owns the way from a dataclass to a schema: types from annotations, descriptions from the text below each field. A line
may have fields that the schema does not know, since fields may be added under the same version; one that may be null
may be absent, since an older server does not know it.
"""

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from penstock import facts
from penstock.facts import CONTRACT_VERSION, FACTS, Envelope, Fact

_TYPES: Final[Mapping[type, str]] = {str: "string", int: "integer", float: "number", NoneType: "null"}


def facts_schema() -> dict[str, Any]:
    """One line of facts, of any kind. Each kind is a definition by its name."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock facts",
        "description": f"One line of a file of facts, version {CONTRACT_VERSION} of the contract.",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in FACTS],
        "$defs": {kind: fact_schema(kind) for kind in FACTS},
    }


def fact_schema(kind: str) -> dict[str, Any]:
    """One line of facts of this kind."""
    fields = {**_properties(Envelope), **_properties(FACTS[kind])}
    fields["kind"] |= {"const": kind}
    fields["version"] |= {"minimum": 1, "maximum": CONTRACT_VERSION}
    fields["seq"] |= {"minimum": 1}
    return {
        "title": kind,
        "description": inspect.cleandoc(FACTS[kind].__doc__ or ""),
        "type": "object",
        "properties": fields,
        "required": [name for name, field in fields.items() if "null" not in field["type"]],
    }


def _properties(kind: type[Envelope] | type[Fact]) -> dict[str, dict[str, Any]]:
    hints, meanings = get_type_hints(kind), _meanings()[kind.__name__]
    properties = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        names = [_TYPES[each] for each in get_args(hint) or (hint,)]
        meaning = meanings.get(field.name)
        described = {} if meaning is None else {"description": meaning}
        properties[field.name] = {"type": names[0] if len(names) == 1 else names, **described}
    return properties


@cache
def _meanings() -> Mapping[str, Mapping[str, str]]:
    """What the source of `facts` says below each field, by class and field. Python itself forgets those texts."""
    found = {}
    for node in ast.parse(inspect.getsource(facts)).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                field.target.id: inspect.cleandoc(text.value.value)
                for field, text in zip(node.body, node.body[1:], strict=False)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            }
    return found
