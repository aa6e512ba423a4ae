# SPDX-License-Identifier: Apache-2.0
"""What a PromQL expression reads: its selectors, and the labels it groups by or joins on.

promtool says whether an expression is PromQL, but not whether the series in it exist. This reads just
enough to ask that: it splits an expression into tokens, follows its parentheses, and knows neither
types nor precedence. What promtool accepts, it understands.

    read = parse('sum by (target_agent) (rate(handoff_attempts_total{result="ack"}[5m]))')
    read.selectors          [Selector(name='handoff_attempts_total', matchers={'result': ('=', 'ack')})]
    read.groups             [Group(labels=['target_agent'], selectors=[...])]
"""

import collections
import re

Selector = collections.namedtuple("Selector", "name matchers text")
# The labels of one by, without, on, ignoring or group_left, and the selectors it looks at. What follows
# "and on" or "unless on" only decides what stays, so an aggregation around it does not look at it.
Group = collections.namedtuple("Group", "labels selectors")
Read = collections.namedtuple("Read", "selectors groups")

TOKEN = re.compile(r"""\s+|\#[^\n]* |
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`) |
    (?P<range>\[[^\]]*\]) |
    (?P<number>\d[\w.]*(?:[eE][+-]?\d+)?|\.\d+) |
    (?P<name>[A-Za-z_:][\w:]*) |
    (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=@(){},])""", re.VERBOSE)

WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool",
         "offset", "inf", "nan", "atan2"}
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}


def tokens(text):
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"no PromQL at {text[at:at + 20]!r}")
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found


class _Parser:
    def __init__(self, text):
        self.tokens = tokens(text) + [("end", "")]
        self.at = 0
        self.last_begin = 0  # of the selectors in the parentheses that were closed last
        self.selectors = []
        self.groups = []
        self.deciding = set()  # places of selectors behind "and on" and "unless on"

    def peek(self, ahead=0):
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self):
        token = self.peek()
        self.at += 1
        return token

    def expect(self, sign):
        kind, text = self.take()
        if text != sign:
            raise ValueError(f"{text!r} where {sign!r} belongs")

    def names(self):
        """The names in ( ... )."""
        self.expect("(")
        found = []
        while self.peek()[1] != ")":
            kind, text = self.take()
            if kind == "name":
                found.append(text)
            elif text != ",":
                raise ValueError(f"{text!r} among labels")
        self.expect(")")
        return found

    def matchers(self):
        self.expect("{")
        found = {}
        while self.peek()[1] != "}":
            name, sign, value = self.take()[1], self.take()[1], self.take()[1]
            found[name] = (sign, value[1:-1])
            if self.peek()[1] == ",":
                self.take()
        self.expect("}")
        return found

    def selector(self, name):
        first = self.at - (1 if name else 0)
        matchers = self.matchers() if self.peek()[1] == "{" else {}
        text = "".join(token for _, token in self.tokens[first:self.at])
        self.selectors.append(Selector(name, matchers, text))

    def expression(self, closing):
        """Reads up to `closing`; a grouping in it is about all that is read in its scope."""
        start, pending, decides_from = len(self.selectors), [], None
        while self.peek()[1] != closing:
            kind, text = self.take()
            if decides_from is not None and text.lower() == "or":
                self.deciding.update(range(decides_from, len(self.selectors)))
                decides_from = None
            if text.lower() == "on" and self.tokens[self.at - 2][1].lower() in ("and", "unless"):
                decides_from = len(self.selectors)
            if kind == "end":
                raise ValueError(f"it ends where {closing!r} belongs")
            if kind == "name" and text.lower() in GROUPING:
                self.grouping(text.lower(), start, pending)
            elif text == "(":
                begin = len(self.selectors)
                self.expression(")")
                self.expect(")")
                self.close(pending, begin)
            elif text == "{":
                self.at -= 1
                self.selector("")
            elif kind == "name" and text.lower() not in WORDS and self.peek()[1] != "(" and \
                    self.peek()[1].lower() not in ("by", "without"):
                self.selector(text)
        if decides_from is not None:
            self.deciding.update(range(decides_from, len(self.selectors)))

    def grouping(self, word, start, pending):
        if word.startswith("group_") and self.peek()[1] != "(":
            return  # it takes no more labels over
        labels = self.names()
        # a join is about both sides, an aggregation about the parentheses behind or before it
        if word not in ("by", "without"):
            self.groups.append([labels, start, None])
        elif self.peek()[1] == "(":
            pending.append(labels)
        else:
            self.groups.append([labels, self.last_begin, len(self.selectors)])

    def close(self, pending, begin):
        self.last_begin = begin
        for labels in pending:
            self.groups.append([labels, begin, len(self.selectors)])
        pending.clear()

    def looked_at(self, begin, end):
        """The selectors of a group."""
        return [one for place, one in list(enumerate(self.selectors))[begin:end] if place not in self.deciding]


def parse(text):
    parser = _Parser(text)
    parser.expression("")
    return Read(parser.selectors, [Group(labels, parser.looked_at(begin, end)) for labels, begin, end in parser.groups])
