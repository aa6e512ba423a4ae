# SPDX-License-Identifier: Apache-2.0
"""What is written from the table of calls (client/calls/calls.def) says what the table says.

That is docs/openapi.json, the schemas of request bodies in docs/schema, the reference of each call
in docs/api.md, and the access table in docs/security.md.

    /usr/bin/python3 tests/lint/test_calls_docs.py --write

rewrites them after the release tree was built; a new call gets its section in docs/api.md.
"""

import functools
import json
import re
import subprocess
import sys
import textwrap
import unittest

import jsonschema
import source_tree

DOCS = source_tree.TOP / "docs"
OPENAPI = DOCS / "openapi.json"
API = DOCS / "api.md"
SECURITY = DOCS / "security.md"
PRINTER = source_tree.BUILD / "tests/print_calls"
WIDTH = 110

# Codes that every call may answer; the head of docs/api.md lists them.
EVERYWHERE = {"ambiguous_request", "unknown_transfer_coding", "unknown_content_coding", "unsupported_media_type",
              "bad_path", "cross_origin", "unauthenticated", "out_of_memory", "shutting_down",
              "store_full", "store_read_only", "store_io", "store_displaced", "store_corrupt",
              "internal"}
# Bodies with a page that explains their fields.
EXPLAINED = {"HandoffRequest": "[envelope.md](envelope.md#the-request)",
             "Observation": "[observations.md](observations.md#the-body)"}


@functools.lru_cache(maxsize=None)
def printed(what):
    """What the code prints: "openapi" or "bodies"."""
    return json.loads(subprocess.check_output([PRINTER, what], text=True))


def operations():
    """[(method, path, operation)] in the order of the table's paths."""
    return [(method.upper(), path, operation)
            for path, methods in printed("openapi")["paths"].items()
            for method, operation in methods.items()]


def as_file(document):
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# ---- schemas of bodies

def kebab(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).replace("_", "-").lower()


def body_name(operation):
    """HandoffRequest, where the body has a name, else None."""
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    reference = body.get("$ref") or body.get("oneOf", [{}])[0].get("$ref")
    return reference and reference.rsplit("/", 1)[1]


def schema_files():
    """{file name: text} of docs/schema."""
    files = {}
    for _, _, operation in operations():
        if "requestBody" not in operation:
            continue
        name = kebab(body_name(operation) or operation["operationId"]).removesuffix("-request")
        schema = printed("bodies")[operation["operationId"]]
        title = name.replace("-", " ").capitalize()
        files[f"{name}-request.schema.json"] = as_file({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"urn:handoff-exporter:{name}-request",
            "$comment": "SPDX-License-Identifier: Apache-2.0; written by test_calls_docs.py",
            "title": f"{title}: the body of a request", **schema})
    return files


# ---- docs/api.md

def paragraph(text):
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def kind(schema):
    """The type and bounds of a field in words."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"] if word)
    least, most = schema.get("minimum"), schema.get("maximum")
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if isinstance(schema.get("type"), list):
        return kind({**schema, "type": schema["type"][0]}) + ", `null`"
    if schema.get("format") == "date-time":
        return "time"
    if schema.get("type") == "string":
        if schema.get("pattern", "").startswith("^(0|"):
            return "duration"
        if "maxLength" in schema:
            return f"{schema.get('minLength', 0)} to {schema['maxLength']} bytes"
        return "text"
    if schema.get("type") == "integer":
        return f"{least} to {most}" if most is not None else f"{least} or more"
    if schema.get("type") == "number":
        return f"number, {least} to {most}" if most is not None else f"number, {least} or more"
    return {"array": "list", None: "any"}.get(schema.get("type"), schema.get("type"))


def field_row(name, place, schema, required, doc):
    default = "required" if required else \
        f"`{json.dumps(schema['default']).strip(chr(34))}`" if "default" in schema else ""
    return f"| `{name}` | {place} | {kind(schema)} | {default} | {doc} |\n"


def field_table(operation):
    rows = [field_row(p["name"], p["in"], p["schema"], p.get("required", False), p["description"])
            for p in operation.get("parameters", []) if p["in"] != "path"]
    if "requestBody" in operation and body_name(operation) not in EXPLAINED:
        body = printed("bodies")[operation["operationId"]]
        rows += [field_row(name, "body", schema, name in body.get("required", []),
                           schema.get("description", ""))
                 for name, schema in body["properties"].items()]
    if not rows:
        return ""
    return "| field | in | type or range | default | description |\n|---|---|---|---|---|\n" + "".join(rows) + "\n"


def body_words(operation):
    if "requestBody" not in operation:
        return ""
    name = body_name(operation)
    file = kebab(name or operation["operationId"]).removesuffix("-request") + "-request.schema.json"
    page = f"{EXPLAINED[name]} explains its fields, " if name in EXPLAINED else ""
    return paragraph(f"Body: {page}[schema/{file}](schema/{file}) is its schema.") + "\n"


def example(operation):
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "example" not in body:
        return ""
    members = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
                         for key, value in body["example"].items())
    return f"```json\n{{\n{members}\n}}\n```\n\n"


def takes_something(operation):
    return "requestBody" in operation or any(p["in"] == "query"
                                             for p in operation.get("parameters", []))


def answers(operation):
    found = []
    for status, response in operation["responses"].items():
        if int(status) < 400:
            found.append(f"{status} {response['description']}")
            continue
        schema = response["content"]["application/problem+json"]["schema"]
        codes = [code for code in schema["properties"]["code"]["enum"] if code not in EVERYWHERE
                 and (code != "invalid_request" or takes_something(operation))]
        if codes:
            found.append(f"{status} " + ", ".join(f"`{code}`" for code in codes))
    return paragraph("Responses: " + " · ".join(found))


def reference(operation):
    """What docs/api.md has between the markers of a call."""
    about = operation["description"].split("\n\nAn agent may call it")[0]
    about = "" if about.startswith("An agent may call it") else " " + about.replace("\n\n", " ")
    return (paragraph(operation["summary"] + "." + about) + "\n" + field_table(operation)
            + body_words(operation) + example(operation) + answers(operation))


def marks(name, what="call"):
    return f"<!-- {what}:{name}:begin -->\n", f"<!-- {what}:{name}:end -->\n"


def shape_table(name):
    """The fields of an object that calls answer."""
    shape = printed("openapi")["components"]["schemas"][name]
    rows = [f"| `{field}` | {kind(schema)} | {schema.get('description', '')} |\n"
            for field, schema in shape["properties"].items()]
    return "| field | type | description |\n|---|---|---|\n" + "".join(rows)


def shapes_document(text):
    """docs/api.md with its tables of objects as the code has them."""
    for name in re.findall(r"<!-- shape:(\w+):begin -->", text):
        begin, end = marks(name, "shape")
        text = re.sub(re.escape(begin) + ".*?" + re.escape(end),
                      lambda _: begin + shape_table(name) + end, text, flags=re.DOTALL)
    return text


def section(method, path, operation):
    begin, end = marks(operation["operationId"])
    return f"### `{method} {path}`\n\n{begin}{reference(operation)}{end}"


def api_document(text):
    """docs/api.md with the references as the table has them; a call that it lacks goes after the
    one before it."""
    before = None
    text = shapes_document(text)
    for method, path, operation in operations():
        begin, end = marks(operation["operationId"])
        block = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if block.search(text):
            text = block.sub(lambda _: begin + reference(operation) + end, text)
        elif before is None:
            text += "\n" + section(method, path, operation)
        else:
            at = text.index(before) + len(before)
            following = re.compile(r"^#{2,3} ", re.MULTILINE).search(text, at)
            at = following.start() if following else len(text)
            text = text[:at].rstrip() + "\n\n" + section(method, path, operation) + "\n" + text[at:]
        before = end
    return text.rstrip() + "\n"


# ---- docs/security.md

def access_table():
    rows = {}
    for method, path, operation in operations():
        rows.setdefault(operation["x-handoff-agent-may"], []).append(f"`{method} {path}`")
    return "| call | an agent may |\n|---|---|\n" + "".join(
        f"| {', '.join(calls)} | {may} |\n" for may, calls in rows.items())


def security_document(text):
    return re.sub(r"(<!-- access:begin -->\n).*?(<!-- access:end -->)",
                  lambda match: match[1] + access_table() + match[2], text, flags=re.DOTALL)


def write():
    OPENAPI.write_text(as_file(printed("openapi")), encoding="utf-8")
    for name, text in schema_files().items():
        (DOCS / "schema" / name).write_text(text, encoding="utf-8")
    for path, document in ((API, api_document), (SECURITY, security_document)):
        path.write_text(document(path.read_text(encoding="utf-8")), encoding="utf-8")


# ---- the tests

class Documents(unittest.TestCase):
    maxDiff = None
    HOW = "build the release tree, then: tests/lint/test_calls_docs.py --write"

    def test_they_say_what_the_table_says(self):
        self.assertEqual(OPENAPI.read_text(encoding="utf-8"), as_file(printed("openapi")), self.HOW)
        for path, document in ((API, api_document), (SECURITY, security_document)):
            with self.subTest(document=path.name):
                text = path.read_text(encoding="utf-8")
                self.assertEqual(text, document(text), self.HOW)

    def test_each_schema_of_a_body_is_there_and_no_other(self):
        found = {path.name: path.read_text(encoding="utf-8")
                 for path in (DOCS / "schema").glob("*-request.schema.json")}
        self.assertEqual(found, schema_files(), self.HOW)
        for text in found.values():
            jsonschema.Draft202012Validator.check_schema(json.loads(text))

    def test_each_call_has_one_section(self):
        text = API.read_text(encoding="utf-8")
        sections = re.findall(r"^### `([A-Z]+) (/\S+)`$", text, re.MULTILINE)
        self.assertEqual(sorted(sections), sorted((m, p) for m, p, _ in operations()))
        self.assertGreater(len(sections), 25)

    def test_every_call_may_answer_what_the_head_lists(self):
        head = API.read_text(encoding="utf-8").split("\n## ")[1]
        for code in EVERYWHERE - {"internal"}:
            self.assertIn(f"`{code}`", head)

    def test_examples_agree_with_the_schemas(self):
        for _, _, operation in operations():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if body:
                with self.subTest(call=operation["operationId"]):
                    jsonschema.Draft202012Validator(printed("bodies")[operation["operationId"]]) \
                        .validate(body["example"])

    def test_what_differs_is_found(self):
        text = API.read_text(encoding="utf-8")
        self.assertNotEqual(text, api_document(text).replace("`idempotency_conflict`", "`conflict`"))
        block = re.compile(r"### `GET /v1/agents`.*?<!-- call:list_agents:end -->\n\n?", re.DOTALL)
        lacking = block.sub("", text)
        self.assertNotIn("GET /v1/agents`", lacking)
        self.assertIn("### `GET /v1/agents`", api_document(lacking))
        text = SECURITY.read_text(encoding="utf-8")
        changed = text.replace("| no; operators", "| yes; operators")
        self.assertNotEqual(changed, security_document(changed))


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        unittest.main()
