# SPDX-License-Identifier: Apache-2.0
"""System calls of a daemon that fail on demand: a daemon linked with tests/support/failing_calls.c."""

import mmap
import os
import struct
import tempfile

PROGRAM = os.environ["HANDOFF_EXPORTER_FAILING_CALLS"]

# The order is that of enum failing_kind in failing_calls.c.
KINDS = ["none", "accept", "epoll_create", "epoll_ctl", "epoll_wait", "open", "pread", "pwrite", "sync",
         "truncate", "resolve", "timerfd", "eventfd", "socket", "connect", "mmap", "thread"]


class FailingCalls:
    """The page that the daemon's calls look at (struct failing_calls)."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="handoff-failing-calls-")
        self.file.truncate(mmap.PAGESIZE)
        self.page = mmap.mmap(self.file.fileno(), mmap.PAGESIZE)
        self.environment = {"HANDOFF_FAILING_CALLS": self.file.name}

    def arm(self, kind, place, error, times=1):
        """The call of that kind after `place` others fails."""
        self.disarm()
        struct.pack_into("=iiiI", self.page, 4, place, times, error, 0)
        struct.pack_into("=I", self.page, 0, KINDS.index(kind))

    def disarm(self):
        struct.pack_into("=I", self.page, 0, 0)

    @property
    def fired(self):
        return struct.unpack_from("=I", self.page, 16)[0]

    def calls(self):
        """How many of each kind were made so far."""
        counts = struct.unpack_from(f"={len(KINDS)}I", self.page, 20)
        return dict(zip(KINDS, counts))

    def close(self):
        self.page.close()
        self.file.close()
