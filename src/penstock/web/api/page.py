"""The schema of the API as a page to read at /api.

Owns its looks. It is made of the schema alone, and has no script and nothing from elsewhere, so that its policy
can forbid both; requests are shown as lines for curl.
"""

import base64
import hashlib
import html
from collections.abc import Iterator
from typing import Any, Final

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1c2430;background:#fff}
h2{margin:2rem 0 .5rem;border-bottom:1px solid #c8d0da;text-transform:capitalize}
details{border:1px solid #c8d0da;border-radius:6px;margin:.4rem 0}
summary{cursor:pointer;padding:.5rem .8rem;overflow-wrap:anywhere}
details>div{padding:0 .8rem .8rem;overflow-x:auto}
b{display:inline-block;min-width:4.5rem;font:600 14px ui-monospace,monospace}
code,pre{font:14px/1.45 ui-monospace,monospace}
pre{background:#f3f5f8;padding:.6rem;border-radius:6px;overflow-x:auto}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-top:1px solid #e4e8ee}
.GET{color:#0b6b3a}.DELETE{color:#a3261d}.POST,.PUT{color:#8a4b00}
@media(prefers-color-scheme:dark){body{color:#e4e8ee;background:#14181e}pre{background:#1d232b}
details,h2,td,th{border-color:#39424e}.GET{color:#6bd39a}.DELETE{color:#ff8d84}.POST,.PUT{color:#f0b45f}}
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def render_page(schema: dict[str, Any]) -> str:
    """The page of a schema."""
    operations = [
        (path, method.upper(), operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations))
    info = schema["info"]
    body = [
        f"<h1>{_text(info['title'])} {_text(info['version'])}</h1>",
        *(f"<p>{_prose(each)}</p>" for each in info["description"].split("\n\n")),
        '<p>The same for programs: <a href="/api/v1/openapi.json">openapi.json</a>.</p>',
    ]
    for tag in tags:
        body.append(f"<h2>{_text(tag)}</h2>")
        body += [_operation(*each, schema) for each in operations if each[2]["tags"][0] == tag]
    head = "<meta charset=utf-8><meta name=viewport content='width=device-width'><title>Penstock API</title>"
    return f"<!doctype html><html lang=en><head>{head}<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"


def _operation(path: str, method: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    about, _, role = operation["description"].partition("\n\n")
    parts = [f"<p>{_prose(about)} {_prose(role)}</p>", f"<pre>{_text(_curl(path, method, operation))}</pre>"]
    if operation.get("parameters"):
        rows = [
            (f"{each['name']} ({each['in']})", _kind(each["schema"], schema), each.get("description", ""))
            for each in operation["parameters"]
        ]
        parts.append(_table(("parameter", "type", "meaning"), rows))
    for media in operation.get("requestBody", {}).get("content", {}).values():
        parts += ["<p>Takes:</p>", _fields(media["schema"], schema)]
    for status, answer in sorted(operation["responses"].items()):
        for content_type, media in answer.get("content", {}).items():
            if content_type == "application/json":
                parts += [f"<p>{_text(status)}:</p>", _fields(media["schema"], schema)]
    others = ", ".join(f"{status} {answer['description']}" for status, answer in sorted(operation["responses"].items()))
    parts.append(f"<p>Answers: {_text(others)}.</p>")
    summary = f"<b class={method}>{method}</b> <code>{_text(path)}</code>"
    return f"<details><summary>{summary}</summary><div>{''.join(parts)}</div></details>"


def _curl(path: str, method: str, operation: dict[str, Any]) -> str:
    words = ["curl", *(() if method == "GET" else ("-X", method)), '-H "Authorization: Bearer $PENSTOCK_TOKEN"']
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        words += ["-H 'Content-Type: application/json'", "-d '{…}'"]
    elif content:
        words.append("--data-binary @penstock.toml")
    return " ".join([*words, f"http://127.0.0.1:8080{path}"])


def _fields(part: dict[str, Any], schema: dict[str, Any]) -> str:
    """The fields of an object, and of objects in it, one row each."""
    rows = list(_rows(part, schema, ""))
    return _table(("field", "type", ""), rows) if rows else f"<p>{_text(_kind(part, schema))}</p>"


def _rows(part: dict[str, Any], schema: dict[str, Any], above: str) -> Iterator[tuple[str, str, str]]:
    found = _resolved(part, schema)
    for name, each in found.get("properties", {}).items():
        yield above + name, _kind(each, schema), each.get("description", "")
        for inner in (each, *each.get("anyOf", ())):
            is_list = inner.get("type") == "array"
            yield from _rows(inner["items"] if is_list else inner, schema, f"{above}{name}{'[]' if is_list else ''}.")


def _kind(part: dict[str, Any], schema: dict[str, Any]) -> str:
    found = _resolved(part, schema)
    if "anyOf" in found:
        return " or ".join(_kind(each, schema) for each in found["anyOf"])
    if "enum" in found:
        return " | ".join(map(str, found["enum"]))
    if "const" in found:
        return str(found["const"]).lower()
    if found.get("type") == "array":
        return f"list of {_kind(found['items'], schema)}"
    return str(found.get("format") or found.get("type") or "any")


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    found: dict[str, Any] = schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]
    return found


def _table(head: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    cells = "".join(f"<th>{_text(each)}</th>" for each in head)
    lines = [
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(kind)}</td><td>{_prose(meaning)}</td></tr>"
        for name, kind, meaning in rows
    ]
    return f"<table><tr>{cells}</tr>{''.join(lines)}</table>"


def _text(text: str) -> str:
    return html.escape(text)


def _prose(text: str) -> str:
    """With what is between backquotes as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
