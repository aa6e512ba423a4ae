# SPDX-License-Identifier: Apache-2.0
"""The real PostgreSQL in a folder of the test, on a unix socket, and a server of facts that keeps them in it.

    with Postgres() as database, StoredFacts(database) as server:
        ... spine: {kind: http, url: server.url}
        database.kill()
        database.start()

PostgreSQL does not run as root; where the test does, it is run as its user `postgres`. Queries go through libpq by ctypes,
so Python needs no package.
"""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.parse

from .facts import FactServer
from .wait import eventually

PROGRAMS = pathlib.Path("/usr/lib/postgresql")
TUPLES, COMMAND = 2, 1  # ExecStatusType

FACTS = """
CREATE TABLE facts (
    seq bigserial, id text PRIMARY KEY, pinned boolean NOT NULL, fact jsonb NOT NULL,
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', fact->>'text')) STORED);
CREATE INDEX ON facts USING gin (words);
"""
FOUND = "SELECT fact FROM facts WHERE "
ANY_WORD = "replace(plainto_tsquery('simple', $1)::text, '&', '|')::tsquery"
QUERIES = {
    "get": FOUND + "id = $1",
    "get_many": FOUND + "id IN (SELECT jsonb_array_elements_text($1::jsonb))",
    "search": FOUND + f"words @@ {ANY_WORD} ORDER BY ts_rank(words, {ANY_WORD}) DESC, seq DESC LIMIT $2::int",
    "recent": FOUND + "true ORDER BY seq DESC LIMIT $1::int",
    "pinned": FOUND + "pinned ORDER BY seq",
    "put": "INSERT INTO facts (id, pinned, fact) VALUES ($1, $2::boolean, $3::jsonb) "
           "ON CONFLICT (id) DO UPDATE SET pinned = excluded.pinned, fact = excluded.fact RETURNING fact",
    "delete": "DELETE FROM facts WHERE id = $1 RETURNING fact",
}


class DatabaseError(Exception):
    pass


# ---- libpq ----------------------------------------------------------------------------------------

def load_libpq():
    library = ctypes.CDLL("libpq.so.5")
    texts = ctypes.POINTER(ctypes.c_char_p)
    for name, result, *arguments in (
            ("PQconnectdb", ctypes.c_void_p, ctypes.c_char_p), ("PQstatus", ctypes.c_int, ctypes.c_void_p),
            ("PQerrorMessage", ctypes.c_char_p, ctypes.c_void_p), ("PQfinish", None, ctypes.c_void_p),
            ("PQexecParams", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, texts,
             ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
            ("PQexec", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
            ("PQresultStatus", ctypes.c_int, ctypes.c_void_p), ("PQntuples", ctypes.c_int, ctypes.c_void_p),
            ("PQgetvalue", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int), ("PQclear", None, ctypes.c_void_p)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Connection:
    """One of a thread."""

    def __init__(self, where):
        self.pq = load_libpq()
        self.handle = self.pq.PQconnectdb(where.encode())
        if self.pq.PQstatus(self.handle) != 0:
            raise DatabaseError(self.failure())

    def failure(self):
        return self.pq.PQerrorMessage(self.handle).decode()

    def first_column(self, sql, *values):
        texts = (ctypes.c_char_p * max(len(values), 1))(*(str(value).encode() for value in values))
        result = self.pq.PQexecParams(self.handle, sql.encode(), len(values), None, texts, None, None, 0)
        try:
            if self.pq.PQresultStatus(result) not in (TUPLES, COMMAND):
                raise DatabaseError(self.failure())
            return [self.pq.PQgetvalue(result, row, 0).decode() for row in range(self.pq.PQntuples(result))]
        finally:
            self.pq.PQclear(result)

    def script(self, sql):
        result = self.pq.PQexec(self.handle, sql.encode())
        failed = self.pq.PQresultStatus(result) not in (TUPLES, COMMAND)
        self.pq.PQclear(result)
        if failed:
            raise DatabaseError(self.failure())

    def __del__(self):
        self.pq.PQfinish(self.handle)


# ---- the database ---------------------------------------------------------------------------------

class Postgres:
    """A running server; a context manager that stops it and removes its folder."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pg-"))
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        versions = sorted(PROGRAMS.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
        assert versions, f"no PostgreSQL below {PROGRAMS}: run scripts/install-deps"
        self.programs = versions[-1].parent
        self.run("initdb", "--username=facts", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self.process = None
        self.start()

    def command(self, program, *options):
        return [self.programs / program, "-D", self.folder / "data", *options]

    def run(self, program, *options):
        done = subprocess.run(self.command(program, *options), user=self.user, cwd=self.folder, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr

    @property
    def where(self):
        return f"host={self.folder} user=facts dbname=postgres"

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.command("postgres", "-k", self.folder, "-c", "listen_addresses="), user=self.user, cwd=self.folder,
                stdout=log, stderr=log)
        eventually(self.is_up, "PostgreSQL takes connections")

    def is_up(self):
        try:
            return Connection(self.where)
        except DatabaseError as error:
            raise AssertionError(f"{error}\n{(self.folder / 'log').read_text()[-2000:]}") from error

    def kill(self):
        """Ends it and its sessions without a shutdown, as a crash does."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            print(f"---- log of PostgreSQL\n{(self.folder / 'log').read_text()}----")
        self.kill()
        shutil.rmtree(self.folder)


# ---- the service ----------------------------------------------------------------------------------

class StoredFacts(FactServer):
    """The interface of FactServer, over a database. Without the database, it answers 503."""

    def __init__(self, database):
        self.database, self.local = database, threading.local()
        Connection(database.where).script(FACTS)
        super().__init__()

    def ask(self, query, *values):
        """The facts that it finds, over a connection for each thread; one that broke is replaced."""
        connected = hasattr(self.local, "connection")
        try:
            if not connected:
                self.local.connection = Connection(self.database.where)
            return [json.loads(fact) for fact in self.local.connection.first_column(QUERIES[query], *values)]
        except DatabaseError:
            self.local.__dict__.pop("connection", None)
            if not connected:
                raise
        return self.ask(query, *values)

    def store(self, name, text="a fact", **more):
        fact = {"id": name, "text": text, "created": 1700000000, **more}
        return self.ask("put", name, bool(fact.get("pinned")), json.dumps(fact))[0]

    def answer(self, method, path, body):
        try:
            return self.look_up(method, path, body)
        except DatabaseError as error:
            return 503, {"error": str(error)}

    def look_up(self, method, path, body):
        parts = urllib.parse.urlsplit(path)
        name = urllib.parse.unquote(parts.path.removeprefix("/facts/"))
        query = urllib.parse.parse_qs(parts.query)
        document = json.loads(body) if body else {}
        if parts.path == "/facts/batch":
            return 200, {"facts": self.ask("get_many", json.dumps(document["keys"]))}
        if parts.path == "/search":
            return 200, {"facts": self.ask("search", document["q"], document["top"])}
        if parts.path == "/facts":
            return 200, {"facts": self.ask("pinned") if "pinned" in query else self.ask("recent", query["newest"][0])}
        if method == "PUT":
            return 200, self.store(name, **{key: value for key, value in document.items() if key != "id"})
        found = self.ask("delete" if method == "DELETE" else "get", name)
        if not found:
            return 404, {"error": "no such fact"}
        return (204, None) if method == "DELETE" else (200, {"fact": found[0]})
