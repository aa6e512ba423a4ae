# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of the envelope: valid themselves, true of the golden documents, and refusing."""

import copy
import json
import unittest

import jsonschema
import source_tree

SCHEMAS = source_tree.TOP / "docs" / "schema"
GOLDEN = source_tree.TOP / "tests" / "golden"


def schema(name):
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


def golden(name):
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def validator(name):
    document = schema(name)
    return jsonschema.Draft202012Validator(document)


V2, V2_0, V1 = "envelope-2.1.schema.json", "envelope-2.0.schema.json", "envelope-1.schema.json"


class Schemas(unittest.TestCase):
    def test_the_schemas_are_schemas(self):
        for name in (V1, V2, V2_0):
            jsonschema.Draft202012Validator.check_schema(schema(name))

    def test_the_golden_documents_are_valid(self):
        for name in ("envelope-first.json", "envelope-child.json"):
            validator(V2).validate(golden(name))
        validator(V1).validate(golden("envelope-child.v1.json"))

    def test_a_reader_of_2_0_goes_on(self):
        for name in ("envelope-first.json", "envelope-child.json"):
            validator(V2_0).validate(golden(name))

    def test_what_goes_in_version_3_is_marked(self):
        members = schema(V2)["properties"]
        self.assertEqual([name for name in members if members[name].get("deprecated")],
                         ["previous", "history_trimmed"])

    def test_a_dual_document_is_valid_as_either(self):
        dual = {**golden("envelope-child.v1.json"), **golden("envelope-child.json")}
        validator(V1).validate(dual)
        validator(V2).validate(dual)

    def test_a_minor_version_may_add(self):
        later = golden("envelope-child.json")
        later["envelope_version"] = "2.4"
        later["attachments"] = [1]
        later["hop"]["budget"] = 3
        validator(V2).validate(later)

    def test_what_is_wrong_is_refused(self):
        def without(name):
            return lambda document: document.pop(name)

        def put(value, *way):
            def change(document):
                for step in way[:-1]:
                    document = document[step]
                document[way[-1]] = value
            return change

        changes = [without(name) for name in golden("envelope-first.json")]
        changes += [
            put("3.0", "envelope_version"),
            put("0190aaaa-0000-4000-8000-000000000002", "id"),
            put("md5:1", "digest"),
            put("2026-01-28 09:30", "created_at"),
            put({}, "previous"),
            put("relay", "pattern"),
            put(0, "hop", "count"),
            put("none", "trace", "traceparent"),
            put("urgent", "context", "memories", 0, "priority"),
            put("yes", "context", "memories", 0, "pinned"),
            put([1], "context", "memories", 0, "tags"),
            put([], "context", "constraints"),
            put([{"agent": "a"}], "context", "history"),
            put(["a", "a"], "memory_refs"),
            put([{"id": "a"}], "missing"),
            put([{"id": "a", "reason": "not_found", "since_hop": 0}], "missing"),
            put([{"id": "a"}], "parents"),
            put({"steps": 3}, "omitted"),
            put({"more": "/v1/envelopes/0190aaaa-0000-7000-8000-000000000002/ledger"}, "omitted"),
            put("2.0", "envelope_version"),
            put([{"id": "a", "tokens": 0, "priority": "low"}], "trimmed"),
            put(1.5, "completeness", "ratio"),
            put("smart", "tokens", "strategy"),
        ]
        for change in changes:
            document = copy.deepcopy(golden("envelope-child.json"))
            change(document)
            with self.assertRaises(jsonschema.ValidationError):
                validator(V2).validate(document)


if __name__ == "__main__":
    unittest.main()
