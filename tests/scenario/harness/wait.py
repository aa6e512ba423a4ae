# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition: the only place of the scenario tests that pauses."""

import time

# Long enough for a loaded machine under a sanitizer; a test that passes never waits so long.
TIMEOUT = 30.0
PAUSE = 0.01


def eventually(condition, what, timeout=TIMEOUT):
    """The first true value that condition() answers; AssertionError with `what` when none comes.

    A condition may raise AssertionError or OSError to say "not yet"; the last one is shown.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            value = condition()
            if value:
                return value
            last = None
        except (AssertionError, OSError) as error:
            last = error
        if time.monotonic() >= deadline:
            reason = f": {last}" if last else ""
            raise AssertionError(f"not within {timeout:g} s: {what}{reason}")
        time.sleep(PAUSE)
