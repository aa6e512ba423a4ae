# SPDX-License-Identifier: Apache-2.0
"""A port for a program that has to be told one."""

import contextlib
import socket


@contextlib.contextmanager
def reserved_port():
    """A port that no other process is given meanwhile, on any address: a program that listens on all of them
    fails where another test's client has the port on 127.0.0.2.

    The socket is bound and never listens: a program that sets SO_REUSEADDR, as servers do, may listen
    there beside it, and until one does, connections are refused.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield holder.getsockname()[1]
