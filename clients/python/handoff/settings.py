# SPDX-License-Identifier: Apache-2.0
"""Where the sidecar is, and who calls it: arguments first, then the environment, then defaults."""

import os
import ssl
from typing import Optional, Tuple

from .flows import Retry, parts

ENDPOINT = "http://127.0.0.1:8780"


class Settings:
    def __init__(self, endpoint: Optional[str], source_agent: Optional[str], token: Optional[str],
                 token_file: Optional[str], tls: Optional[ssl.SSLContext], retry: Retry) -> None:
        self.endpoint = endpoint or os.environ.get("HANDOFF_API_URL") or ENDPOINT
        parts(self.endpoint)  # a bad one fails here, not at the first call
        self.source_agent = source_agent or os.environ.get("HANDOFF_SOURCE_AGENT")
        self.token = token
        self.token_file = token_file or (None if token else os.environ.get("HANDOFF_TOKEN_FILE"))
        self.tls = tls
        self.retry = retry
        self._read: Tuple[int, str] = (-1, "")  # when the file had changed, and the token in it

    def current_token(self) -> str:
        if self.token is not None or not self.token_file:
            return self.token or ""
        changed = os.stat(self.token_file).st_mtime_ns
        if changed != self._read[0]:
            with open(self.token_file, encoding="utf-8") as file:
                self._read = (changed, file.read().strip())
        return self._read[1]
