# SPDX-License-Identifier: Apache-2.0
"""What docs/openapi.json declares for each call, against every answer that a scenario gets.

An answer that its call does not declare fails the test that got it, whatever it tests: a client that was generated
from the document would not know what to do with it. Nor may a 429 or a 503 leave open when to come back.
"""

import functools
import json
import os
import pathlib
import re

METHODS = ("get", "put", "post", "delete", "patch")


@functools.lru_cache(maxsize=None)
def declarations():
    """[(method, pattern of the path, {status: codes})], paths without parameters first."""
    document = json.loads(pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"], "docs/openapi.json").read_text("utf-8"))
    found = []
    for path, item in sorted(document["paths"].items(), key=lambda entry: entry[0].count("{")):
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for method in METHODS:
            if method in item:
                found.append((method.upper(), pattern, {
                    int(status): codes_of(answer) for status, answer in item[method]["responses"].items()}))
    return found


def codes_of(answer):
    """The codes of a problem, or None: the answer is none."""
    for media in answer.get("content", {}).values():
        for schema in (media["schema"], *media["schema"].get("allOf", ())):
            code = schema.get("properties", {}).get("code", {})
            if "enum" in code:
                return set(code["enum"])
    return None


def undeclared(method, path, status, code):
    """What is missing in the document, in words, or None. `code`: of a problem, else None."""
    if status == 413 and method in ("GET", "HEAD", "DELETE"):
        return None  # a body that no client sends
    path = path.partition("?")[0]
    for known, pattern, answers in declarations():
        if known == ("GET" if method == "HEAD" else method) and pattern.fullmatch(path):
            if status not in answers:
                return f"{method} {path}: {status} {code or 'alone'} is not declared (CODES or ANSWERS in calls.def)"
            if code is not None and code not in (answers[status] or ()):
                return f"{method} {path}: {status} {code} is not declared (CODES in calls.def)"
            return None
    return None


def check(method, path, reply):
    """Called for every answer to the path of a call."""
    is_problem = reply.header("Content-Type") == "application/problem+json" and reply.raw
    if reply.status >= 400 and not is_problem:
        return  # of the HTTP library, or to a HEAD
    answer = reply.json() if is_problem else {}
    problem = undeclared(method, path, reply.status, answer.get("code"))
    if problem:
        raise AssertionError(problem)
    if reply.status in (429, 503) and is_problem:
        told = answer.get("retry_after_seconds"), reply.header("Retry-After")
        if not isinstance(told[0], int) or told[0] < 1 or told[1] != str(told[0]):
            raise AssertionError(f"{method} {path}: {reply.status} {answer['code']}: retry_after_seconds {told[0]}, "
                                 f"Retry-After {told[1]}")
