# SPDX-License-Identifier: Apache-2.0
"""The tables of the model, as the lints read them."""

import re

import source_tree

TABLE = source_tree.TOP / "client/model/handoff_model.def"
ROW = re.compile(r"^HANDOFF_([A-Z_]+)\((.*)\)$", re.MULTILINE)
FIELD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",\s][^",]*)')


def rows(table):
    """The rows of one table, "STATE" say, each a tuple of its columns as text."""
    return [tuple(text or word.strip() for text, word in FIELD.findall(columns))
            for name, columns in ROW.findall(TABLE.read_text(encoding="utf-8")) if name == table]


def names(table):
    """The names of an enumeration in the order of its rows: the first column in quotes."""
    found = []
    for name, columns in ROW.findall(TABLE.read_text(encoding="utf-8")):
        if name == table:
            found.append(re.search(r'"(\w+)"', columns)[1])
    return found


def reasons_to_park():
    return [name for _, name, kind, _, _ in rows("REASON") if kind == "PARKS"]
