"""The description of the API as a page that loads nothing from elsewhere."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any


def docs_page(description: dict[str, Any]) -> str:
    """Write the page for a description that FastAPI made (OpenAPI)."""
    known = description.get("components", {}).get("schemas", {})
    about = description["info"]
    operations = "".join(
        _operation(method, path, operation, known)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(about['title'])} API</title>\n"
        '<link rel="stylesheet" href="static/css/docs.css">\n'
        f"<h1>{escape(about['title'])} API</h1>\n<p>{escape(about.get('summary', ''))} "
        f'Version {escape(about["version"])}; <a href="api/v1/openapi.json">openapi.json</a> is '
        "the same for programs. Every failure is "
        "<code>{&quot;error&quot;: &quot;One sentence.&quot;}</code>.</p>\n"
        f"{operations}</html>\n"
    )


def _operation(method: str, path: str, operation: dict[str, Any], known: dict[str, Any]) -> str:
    parts = [
        f'<details><summary><span class="{escape(method)}">{escape(method.upper())}</span>'
        f"<code>{escape(path)}</code></summary>",
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    if operation.get("parameters"):
        parts += ["<h3>Parameters</h3><table>", *_parameters(operation["parameters"]), "</table>"]
    if "requestBody" in operation:
        parts += _contents("Body", operation["requestBody"]["content"], known)
    for status, answer in operation.get("responses", {}).items():
        if status.startswith("2"):
            parts += _contents(f"Answer {status}", answer.get("content", {}), known)
    failures = ", ".join(s for s in operation.get("responses", {}) if not s.startswith("2"))
    if failures:
        parts.append(f"<p>Failures: {escape(failures)}.</p>")
    return "".join(parts) + "</details>\n"


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    for one in parameters:
        schema = one.get("schema", {})
        default = f" = {schema['default']}" if "default" in schema else ""
        yield (
            f"<tr><td><code>{escape(one['name'])}{escape(default)}</code></td><td>in the "
            f"{escape(one['in'])}</td><td>{escape(one.get('description', ''))}</td></tr>"
        )


def _contents(heading: str, contents: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    for kind, content in contents.items():
        yield f"<h3>{escape(heading)}: {escape(kind)}</h3>"
        if content.get("schema"):
            shape = json.dumps(_outline(content["schema"], known), indent=2, ensure_ascii=False)
            yield f"<pre>{escape(shape)}</pre>"


def _outline(schema: dict[str, Any], known: dict[str, Any]) -> Any:
    """A schema as an example whose values say what belongs there."""
    if "$ref" in schema:
        return _outline(known[schema["$ref"].rsplit("/", 1)[1]], known)
    if "anyOf" in schema:
        some = [_outline(one, known) for one in schema["anyOf"] if one.get("type") != "null"]
        return some[0] if len(some) == 1 else some
    if "properties" in schema:
        needed = schema.get("required", [])
        return {
            name if name in needed else f"{name}?": _outline(value, known)
            for name, value in schema["properties"].items()
        }
    if "prefixItems" in schema:
        return [_outline(one, known) for one in schema["prefixItems"]]
    if schema.get("type") == "array":
        return [_outline(schema.get("items", {}), known)]
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    text = schema.get("description", "")
    return f"{schema.get('type', 'anything')}{': ' if text else ''}{text}"
