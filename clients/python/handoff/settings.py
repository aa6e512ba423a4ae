# SPDX-License-Identifier: Apache-2.0
"""Where the sidecar is, and who calls it: arguments first, then the environment, then defaults."""

import logging
import os
import ssl
from typing import Optional, Tuple

from .errors import AuthenticationError
from .flows import Retry, parts

log = logging.getLogger("handoff")

ENDPOINT = "http://127.0.0.1:8780"


class Token:
    """A bearer token. One in a file is read again when the file changes.

    A file can be gone or empty for a moment while it is replaced; until it is there again, its last token stays.
    """

    def __init__(self, text: Optional[str], file: Optional[str]) -> None:
        self.file = None if text is not None else file
        self._read: Tuple[object, str] = (None, text or "")  # which state of the file, and the token in it
        self._lost = False

    def current(self) -> str:
        if self.file:
            try:
                self._read_again(self.file)
            except (OSError, ValueError) as error:
                self._keep(error)
        return self._read[1]

    def _read_again(self, path: str) -> None:
        found = os.stat(path)
        state = (found.st_mtime_ns, found.st_ino, found.st_size)
        if state != self._read[0]:
            with open(path, encoding="utf-8") as file:
                text = file.read().strip()
            if not text:
                raise ValueError("it is empty")
            self._read = (state, text)
        self._lost = False

    def _keep(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else error
        if not self._read[1]:
            raise AuthenticationError(f"token file {self.file}: {reason}", code="no_token") from error
        if not self._lost:
            log.warning("token file %s: %s; its last token is used", self.file, reason)
        self._lost = True


class Settings:
    def __init__(self, endpoint: Optional[str], source_agent: Optional[str], token: Token,
                 tls: Optional[ssl.SSLContext], retry: Retry) -> None:
        self.endpoint = endpoint or os.environ.get("HANDOFF_API_URL") or ENDPOINT
        parts(self.endpoint)  # a bad one fails here, not at the first call
        self.source_agent = source_agent or os.environ.get("HANDOFF_SOURCE_AGENT")
        self.token = token  # shared by copies: each has the last one
        self.tls = tls
        self.retry = retry
