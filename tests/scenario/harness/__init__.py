# SPDX-License-Identifier: Apache-2.0
"""What scenario tests share: the real daemon in its own folder, HTTP, and waiting.

    from harness import Daemon, eventually

    with Daemon() as daemon:
        reply = daemon.web.get("/metrics")

Nothing here sleeps for a guessed time and nothing uses a fixed port: a step waits for a condition
with a deadline (eventually), and daemons tell the ports they were given in their log.
"""

from .alertmanager import Alertmanager, Webhook
from .daemon import Daemon, StartFailed, environment
from .http import Http, Reply
from .prometheus import Prometheus
from .receiver import Receiver
from .relay import Relay
from .wait import eventually, TIMEOUT

__all__ = ["Alertmanager", "Daemon", "StartFailed", "environment", "Http", "Reply", "Prometheus", "Receiver",
           "Relay", "Webhook", "eventually", "TIMEOUT"]
