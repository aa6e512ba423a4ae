/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema. A step that was released is never edited; a change is a new step at the end. Times
 * are milliseconds since 1970 UTC; ids of envelopes are the 16 bytes of their UUID.
 *
 * Why it looks like this:
 * - An envelope row is written once and never touched again until retention removes its body, and
 *   later the rest. What changes about it (its handoff is over) lives in a small row of
 * envelope_state, so that a change of state does not rewrite kilobytes.
 * - seq grows with every insert, and UUIDv7 ids nearly do, so both B-trees grow at their right edge
 *   and a group of inserts touches few pages.
 * - body stands last: reading the columns before it does not follow the chain of overflow pages.
 *
 * On the thread that opens the store, before the writer thread starts.
 */
#include "client/store/sqlite/migrate.h"

#include "lib/base/check.h"
#include "lib/base/error.h"

static const char *const steps[] = {
    /* 1: envelopes */
    "CREATE TABLE envelopes ("
    "  seq INTEGER PRIMARY KEY,"
    "  id BLOB NOT NULL UNIQUE,"
    "  task_id TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  digest BLOB NOT NULL,"
    "  cut_at INTEGER NOT NULL,"
    "  cut_size INTEGER NOT NULL,"
    "  body BLOB NOT NULL);"
    "CREATE INDEX envelopes_task ON envelopes (task_id, seq);"
    "CREATE TABLE envelope_state ("
    "  seq INTEGER PRIMARY KEY," /* of the envelope */
    "  finished_at INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX envelope_finished ON envelope_state (finished_at) WHERE finished_at > 0;",

    /* 2: handoffs on their way. seq is the envelope's. The partial indexes hold only what is live
       or parked, which is little, so they cost the many others nothing. */
    "CREATE TABLE handoffs ("
    "  seq INTEGER PRIMARY KEY,"
    "  state INTEGER NOT NULL," /* client/model/handoff_model.def */
    "  source TEXT NOT NULL,"
    "  asked_target TEXT NOT NULL,"
    "  target TEXT NOT NULL,"
    "  pattern INTEGER NOT NULL,"
    "  deadline_at INTEGER NOT NULL,"
    "  due_at INTEGER NOT NULL,"
    "  settled_at INTEGER NOT NULL DEFAULT 0,"
    "  attempts INTEGER NOT NULL DEFAULT 0,"
    "  failures INTEGER NOT NULL DEFAULT 0,"
    "  alternate INTEGER NOT NULL DEFAULT 0,"
    "  replays INTEGER NOT NULL DEFAULT 0,"
    "  reason TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX handoffs_live ON handoffs (seq) WHERE state IN (1, 2, 3);"
    "CREATE INDEX handoffs_parked ON handoffs (target, settled_at) WHERE state = 5;"
    "CREATE TABLE attempts ("
    "  seq INTEGER NOT NULL,"
    "  number INTEGER NOT NULL,"
    "  at INTEGER NOT NULL,"
    "  duration_us INTEGER NOT NULL,"
    "  target TEXT NOT NULL,"
    "  result INTEGER NOT NULL," /* enum handoff_attempt_result */
    "  status INTEGER NOT NULL,"
    "  error TEXT NOT NULL,"
    "  peer TEXT NOT NULL,"
    "  PRIMARY KEY (seq, number)) WITHOUT ROWID;"
    "CREATE TABLE idempotency ("
    "  source TEXT NOT NULL,"
    "  key TEXT NOT NULL,"
    "  seq INTEGER NOT NULL,"
    "  request_digest BLOB NOT NULL,"
    "  PRIMARY KEY (source, key)) WITHOUT ROWID;"
    "CREATE INDEX idempotency_seq ON idempotency (seq);"
    "CREATE TABLE circuits ("
    "  agent TEXT PRIMARY KEY,"
    "  consecutive_failures INTEGER NOT NULL,"
    "  open_until INTEGER NOT NULL) WITHOUT ROWID;",

    /* 3: the embedded spine. A memory that is put anew gets a new seq, so that seq is the order of
       recency, in the table as in the index. Text never changes under its seq; there is no update
       to keep the index in step with. AUTOINCREMENT: the seq of a removed memory never comes back,
       and with it a token count or a cursor that belonged to it. */
    "CREATE TABLE memories ("
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  id TEXT NOT NULL UNIQUE,"
    "  importance INTEGER NOT NULL,"
    "  pinned INTEGER NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL,"
    "  tags TEXT NOT NULL," /* one on each line */
    "  metadata TEXT,"
    "  summary TEXT,"
    "  content TEXT NOT NULL);"
    "CREATE INDEX memories_pinned ON memories (seq) WHERE pinned = 1;"
    "CREATE VIRTUAL TABLE memories_text USING fts5 (content, summary, tags,"
    "  content = 'memories', content_rowid = 'seq',"
    "  tokenize = 'unicode61 remove_diacritics 2');"
    "CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN"
    "  INSERT INTO memories_text (rowid, content, summary, tags)"
    "  VALUES (new.seq, new.content, new.summary, new.tags); END;"
    "CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN"
    "  INSERT INTO memories_text (memories_text, rowid, content, summary, tags)"
    "  VALUES ('delete', old.seq, old.content, old.summary, old.tags);"
    "  DELETE FROM memory_tokens WHERE seq = old.seq; END;"
    "CREATE TABLE memory_tokens ("
    "  seq INTEGER NOT NULL," /* of the memory */
    "  encoding TEXT NOT NULL,"
    "  rendering INTEGER NOT NULL,"
    "  tokens INTEGER NOT NULL,"
    "  PRIMARY KEY (seq, encoding, rendering)) WITHOUT ROWID;"
    "CREATE TRIGGER memories_pin_changed AFTER UPDATE OF pinned ON memories BEGIN"
    "  DELETE FROM memory_tokens WHERE seq = new.seq; END;",

    /* 4: tasks that are over */
    "CREATE TABLE tasks ("
    "  task_id TEXT PRIMARY KEY,"
    "  completed_at INTEGER NOT NULL,"
    "  handoffs INTEGER NOT NULL) WITHOUT ROWID;",

    /* 5: what is live, by a comparison: for a list, SQLite makes a table at every write of a row */
    "DROP INDEX handoffs_live; CREATE INDEX handoffs_live ON handoffs (seq) WHERE state < 4;",

    /* 6: agents that were not given a handoff, each after so many attempts, in their order */
    "CREATE TABLE passed_over ("
    "  seq INTEGER NOT NULL,"
    "  after INTEGER NOT NULL,"
    "  at INTEGER NOT NULL,"
    "  target TEXT NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  UNIQUE (seq, after, at, target));",

    /* 7: the files of bodies (bodies.h). From now on a body may be a TEXT that says where it lies.
       The rows whose bodies are in a file have a seq between its first and last. */
    "CREATE TABLE body_files ("
    "  file INTEGER PRIMARY KEY,"
    "  first_seq INTEGER NOT NULL,"
    "  last_seq INTEGER NOT NULL,"
    "  written INTEGER NOT NULL,"   /* bytes of bodies, ever */
    "  envelopes INTEGER NOT NULL," /* rows that still name it */
    "  bytes INTEGER NOT NULL);",   /* of their bodies */

    /* 8: the index of tasks, filled in batches (task_index.h). Whoever looks for a task's envelopes
       looks into the view. */
    "CREATE TABLE task_index ("
    "  task_id TEXT NOT NULL,"
    "  seq INTEGER NOT NULL,"
    "  PRIMARY KEY (task_id, seq)) WITHOUT ROWID;"
    "INSERT INTO task_index SELECT task_id, seq FROM envelopes ORDER BY task_id, seq;"
    "CREATE TABLE task_indexed (through INTEGER NOT NULL);"
    "INSERT INTO task_indexed SELECT coalesce(max(seq), 0) FROM envelopes;"
    "DROP INDEX envelopes_task;"
    "CREATE VIEW task_envelopes AS SELECT task_id, seq FROM task_index UNION ALL"
    "  SELECT task_id, seq FROM envelopes WHERE seq > (SELECT through FROM task_indexed);",

    /* 9: what a list shows of an envelope, so that it reads rows alone. NULL where an older version
       accepted the handoff; then the envelope is read, on a reader thread. */
    "ALTER TABLE handoffs ADD COLUMN excerpt TEXT;",

    /* 10: the agent that put a memory, which owns it. NULL: nobody, so only an operator changes it.
       That is so for all memories of older versions. */
    "ALTER TABLE memories ADD COLUMN agent TEXT;",

    /* 11: bodies go before their rows (retained_size.h). A removed body is the empty TEXT. Each
       finished envelope is in one of the two indexes, whichever way it is removed next; so a
       finished handoff costs no more inserts than before. `inheritance` is NULL where it is too
       large, or where an older version stored the envelope. The rows of older versions are
       estimated by a flat sum. */
    "ALTER TABLE envelopes ADD COLUMN inheritance TEXT;"
    "ALTER TABLE envelope_state ADD COLUMN body_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE envelope_state ADD COLUMN row_bytes INTEGER NOT NULL DEFAULT 0;"
    "UPDATE envelope_state AS s SET row_bytes = 700, body_bytes = (SELECT"
    "  CASE typeof(e.body) WHEN 'text' THEN substr(e.body, length(rtrim(e.body, '0123456789')) + 1)"
    "  ELSE length(e.body) END FROM envelopes e WHERE e.seq = s.seq)"
    "  WHERE seq IN (SELECT seq FROM envelopes);"
    "DROP INDEX envelope_finished;"
    "CREATE INDEX finished_with_body ON envelope_state (finished_at)"
    "  WHERE finished_at > 0 AND body_bytes > 0;"
    "CREATE INDEX finished_without_body ON envelope_state (finished_at)"
    "  WHERE finished_at > 0 AND body_bytes = 0;"
    "CREATE TABLE kept (bodies INTEGER NOT NULL, rows INTEGER NOT NULL);"
    "INSERT INTO kept SELECT coalesce(sum(body_bytes), 0), coalesce(sum(row_bytes), 0)"
    "  FROM envelope_state WHERE finished_at > 0;"
    "CREATE TRIGGER kept_changed AFTER UPDATE OF finished_at, body_bytes, row_bytes"
    "  ON envelope_state WHEN new.finished_at > 0 OR old.finished_at > 0 BEGIN UPDATE kept SET"
    "  bodies = bodies + (new.finished_at > 0) * new.body_bytes"
    "  - (old.finished_at > 0) * old.body_bytes,"
    "  rows = rows + (new.finished_at > 0) * new.row_bytes"
    "  - (old.finished_at > 0) * old.row_bytes; END;"
    "CREATE TRIGGER kept_removed AFTER DELETE ON envelope_state WHEN old.finished_at > 0 BEGIN"
    "  UPDATE kept SET bodies = bodies - old.body_bytes, rows = rows - old.row_bytes; END;",

    /* 12: scopes of memories. The upper bits of a memory's seq are the number of its scope, the
       lower 40 are the order of recency, over all scopes. So what is ordered by seq, which is the
       table, its indexes and the full-text index, has the memories of a scope next to each other,
       the newest at its end: reading one scope does not touch another, however large that is.
       Scope 0 is what is shared, as are all memories of older versions; so their rows, and the
       index of their words, stay as they are. Other scopes have words of their own
       (client/spine/embedded/full_text.h). */
    "CREATE TABLE memory_scopes ("
    "  number INTEGER PRIMARY KEY CHECK (number BETWEEN 0 AND 8388607),"
    "  name TEXT NOT NULL UNIQUE,"
    "  memories INTEGER NOT NULL DEFAULT 0);"
    "INSERT INTO memory_scopes SELECT 0, '', count(*) FROM memories;"
    "CREATE TABLE memory_clock (last INTEGER NOT NULL);"
    "INSERT INTO memory_clock SELECT coalesce((SELECT seq FROM sqlite_sequence"
    "  WHERE name = 'memories'), 0);"
    "ALTER TABLE memories ADD COLUMN task_id TEXT;"
    "CREATE INDEX memories_task ON memories (task_id, seq) WHERE task_id IS NOT NULL;"
    "CREATE INDEX memories_recent ON memories (seq & 1099511627775);"
    "CREATE INDEX memories_pinned_recent ON memories (seq & 1099511627775) WHERE pinned = 1;"
    "DROP TRIGGER memories_added; DROP TRIGGER memories_removed;"
    "CREATE TRIGGER memories_added AFTER INSERT ON memories WHEN new.seq >> 40 = 0 BEGIN"
    "  INSERT INTO memories_text (rowid, content, summary, tags)"
    "  VALUES (new.seq, new.content, new.summary, new.tags); END;"
    "CREATE TRIGGER memories_added_to_scope AFTER INSERT ON memories WHEN new.seq >> 40 > 0 BEGIN"
    "  INSERT INTO memories_text (rowid, content, summary, tags)"
    "  VALUES (new.seq, handoff_scope_words(new.seq >> 40, new.content),"
    "  handoff_scope_words(new.seq >> 40, new.summary),"
    "  handoff_scope_words(new.seq >> 40, new.tags)); END;"
    "CREATE TRIGGER memories_removed AFTER DELETE ON memories WHEN old.seq >> 40 = 0 BEGIN"
    "  INSERT INTO memories_text (memories_text, rowid, content, summary, tags)"
    "  VALUES ('delete', old.seq, old.content, old.summary, old.tags); END;"
    "CREATE TRIGGER memories_removed_from_scope AFTER DELETE ON memories"
    "  WHEN old.seq >> 40 > 0 BEGIN"
    "  INSERT INTO memories_text (memories_text, rowid, content, summary, tags)"
    "  VALUES ('delete', old.seq, handoff_scope_words(old.seq >> 40, old.content),"
    "  handoff_scope_words(old.seq >> 40, old.summary),"
    "  handoff_scope_words(old.seq >> 40, old.tags)); END;"
    "CREATE TRIGGER memory_tokens_removed AFTER DELETE ON memories BEGIN"
    "  DELETE FROM memory_tokens WHERE seq = old.seq; END;"
    "CREATE TRIGGER scope_grew AFTER INSERT ON memories BEGIN"
    "  UPDATE memory_scopes SET memories = memories + 1 WHERE number = new.seq >> 40; END;"
    "CREATE TRIGGER scope_shrank AFTER DELETE ON memories BEGIN"
    "  UPDATE memory_scopes SET memories = memories - 1 WHERE number = old.seq >> 40; END;",

    /* 13: the ledger (client/store/ledger.h). A contribution has its envelope's seq, and outlives
       it as an orphan (contribution_rows.h): only then it has the columns from `id` on. `form` says
       what `text` is: a contribution, or what stands for that of an older version's envelope; until
       that one's body is removed it is NULL. */
    "CREATE TABLE contributions ("
    "  seq INTEGER PRIMARY KEY,"
    "  hop INTEGER NOT NULL," /* 0: an older version stored the envelope */
    "  source TEXT,"          /* NULL: its handoff's */
    "  target TEXT,"
    "  root BLOB,"        /* the id of its oldest ancestor; NULL: it has none */
    "  replaced_by BLOB," /* the id of the envelope that took its place */
    "  form INTEGER NOT NULL DEFAULT 0,"
    "  charged_to INTEGER," /* whose row_bytes include `bytes`; NULL: it is no orphan */
    "  bytes INTEGER,"
    "  id BLOB,"
    "  task_id TEXT,"
    "  created_at INTEGER,"
    "  digest BLOB,"
    "  text TEXT);"
    "CREATE INDEX contributions_charged ON contributions (charged_to)"
    "  WHERE charged_to IS NOT NULL;"
    "CREATE TABLE lineage ("
    "  child INTEGER NOT NULL,"
    "  place INTEGER NOT NULL," /* from 0: the newest parent first */
    "  parent INTEGER NOT NULL,"
    "  PRIMARY KEY (child, place)) WITHOUT ROWID;"
    "CREATE INDEX lineage_parent ON lineage (parent, child);"
    /* who may continue which envelope (addressed.h). Of what was only assembled, its own target is
       addressed. Whoever changes what `addresses` says of an envelope inserts it into
       address_anew, which does nothing while the task is not listed. */
    "CREATE TABLE addressed ("
    "  task_id TEXT NOT NULL,"
    "  agent TEXT NOT NULL,"   /* '': one row for each envelope */
    "  open INTEGER NOT NULL," /* 1: the agent may continue it, and nothing does */
    "  seq INTEGER NOT NULL,"
    "  PRIMARY KEY (task_id, agent, open, seq)) WITHOUT ROWID;"
    "CREATE INDEX addressed_seq ON addressed (seq);"
    "CREATE VIEW continuable (seq, task_id, open) AS SELECT e.seq, e.task_id,"
    "  NOT EXISTS (SELECT 1 FROM lineage l WHERE l.parent = e.seq)"
    "  FROM envelopes e LEFT JOIN contributions c ON c.seq = e.seq WHERE c.replaced_by IS NULL;"
    "CREATE VIEW addresses (seq, task_id, agent, open) AS"
    "  SELECT seq, task_id, '', 0 FROM envelopes"
    "  UNION ALL SELECT e.seq, e.task_id, h.asked_target, e.open"
    "  FROM continuable e JOIN handoffs h ON h.seq = e.seq"
    "  UNION ALL SELECT e.seq, e.task_id, h.target, e.open"
    "  FROM continuable e JOIN handoffs h ON h.seq = e.seq WHERE h.target <> h.asked_target"
    "  UNION ALL SELECT e.seq, e.task_id, a.target, 0"
    "  FROM continuable e JOIN handoffs h ON h.seq = e.seq JOIN attempts a ON a.seq = e.seq"
    "  WHERE a.target NOT IN (h.asked_target, h.target)"
    "  UNION ALL SELECT e.seq, e.task_id, c.target, e.open"
    "  FROM continuable e JOIN contributions c ON c.seq = e.seq"
    "  WHERE c.target IS NOT NULL AND e.seq NOT IN (SELECT seq FROM handoffs);"
    "INSERT OR IGNORE INTO addressed SELECT task_id, agent, open, seq FROM addresses"
    "  WHERE task_id IN"
    "  (SELECT task_id FROM task_envelopes GROUP BY task_id HAVING count(*) > 1);"
    "CREATE VIEW address_anew (seq) AS SELECT DISTINCT seq FROM addressed;"
    "CREATE TRIGGER address_anew_now INSTEAD OF INSERT ON address_anew"
    "  WHEN EXISTS (SELECT 1 FROM addressed WHERE seq = new.seq) BEGIN"
    "  DELETE FROM addressed WHERE seq = new.seq;"
    "  INSERT OR IGNORE INTO addressed (task_id, agent, open, seq)"
    "  SELECT task_id, agent, open, seq FROM addresses WHERE seq = new.seq; END;"
    "CREATE TRIGGER addressed_another AFTER UPDATE OF target ON handoffs"
    "  WHEN new.target <> old.target BEGIN INSERT INTO address_anew VALUES (new.seq); END;"
    "CREATE TRIGGER addressed_by_attempt AFTER INSERT ON attempts"
    "  WHEN NOT EXISTS (SELECT 1 FROM addressed WHERE seq = new.seq AND agent = new.target)"
    "  BEGIN INSERT INTO address_anew VALUES (new.seq); END;"
    "CREATE TRIGGER addressed_continued AFTER INSERT ON lineage BEGIN"
    "  UPDATE addressed SET open = 0 WHERE seq = new.parent AND open = 1; END;"
    "CREATE TRIGGER addressed_not_continued AFTER DELETE ON lineage BEGIN"
    "  INSERT INTO address_anew VALUES (old.parent); END;"
    /* what came with an acknowledgement and was no valid request (deliver/hand_on.h) */
    "CREATE TABLE refused_next ("
    "  seq INTEGER PRIMARY KEY," /* of the acknowledged handoff */
    "  at INTEGER NOT NULL,"
    "  code TEXT NOT NULL,"
    "  detail TEXT NOT NULL,"
    "  request TEXT NOT NULL);",

    /* 14: the newest progress that the agent with the handoff reported, and when; NULL: nothing */
    ("ALTER TABLE handoffs ADD COLUMN progress TEXT;"
     "ALTER TABLE handoffs ADD COLUMN progress_at INTEGER;"),

    /* 15: the search index of memories (client/spine/embedded/index.h): its files, and which of
       their memories were removed since. What was removed after that was written down is in
       memories_gone. */
    "CREATE TABLE search_segments ("
    "  number INTEGER PRIMARY KEY,"
    "  first INTEGER NOT NULL," /* the order of recency of the memories that it covers */
    "  last INTEGER NOT NULL,"
    "  documents INTEGER NOT NULL,"
    "  checksum INTEGER NOT NULL," /* of its head, which has that of the rest */
    "  removed_count INTEGER NOT NULL DEFAULT 0,"
    "  removed BLOB);" /* a bit for each memory */
    "CREATE TABLE memories_gone (seq INTEGER PRIMARY KEY);"
    "CREATE TRIGGER memory_gone AFTER DELETE ON memories BEGIN"
    "  INSERT OR IGNORE INTO memories_gone (seq) VALUES (old.seq); END;",

    /* 16: the full-text index of older versions goes; that of step 15 takes its place. */
    "DROP TRIGGER memories_added; DROP TRIGGER memories_added_to_scope;"
    "DROP TRIGGER memories_removed; DROP TRIGGER memories_removed_from_scope;"
    "DROP TABLE memories_text;",

    /* 17: only what is handed off continues its parents (addressed.h). The column says it when the
       rows of the envelope and its handoff are gone, too. Those that are gone already count as
       handed off, since nobody knows. */
    "ALTER TABLE contributions ADD COLUMN handed_off INTEGER NOT NULL DEFAULT 1;"
    "UPDATE contributions SET handed_off = 0"
    "  WHERE charged_to IS NULL AND seq NOT IN (SELECT seq FROM handoffs);"
    "DROP VIEW continuable;"
    "CREATE VIEW continuable (seq, task_id, open) AS SELECT e.seq, e.task_id,"
    "  NOT EXISTS (SELECT 1 FROM lineage l JOIN contributions child ON child.seq = l.child"
    "   WHERE l.parent = e.seq AND child.handed_off = 1)"
    "  FROM envelopes e LEFT JOIN contributions c ON c.seq = e.seq WHERE c.replaced_by IS NULL;"
    "DROP TRIGGER addressed_continued;"
    "CREATE TRIGGER addressed_continued AFTER INSERT ON lineage"
    "  WHEN (SELECT handed_off FROM contributions WHERE seq = new.child) BEGIN"
    "  UPDATE addressed SET open = 0 WHERE seq = new.parent AND open = 1; END;"
    "CREATE TRIGGER addressed_continued_later AFTER UPDATE OF handed_off ON contributions"
    "  WHEN new.handed_off = 1 BEGIN UPDATE addressed SET open = 0 WHERE open = 1"
    "  AND seq IN (SELECT parent FROM lineage WHERE child = new.seq); END;"
    "INSERT INTO address_anew SELECT DISTINCT l.parent FROM lineage l"
    "  JOIN contributions child ON child.seq = l.child WHERE child.handed_off = 0;",

    /* 18: what was decided about handoffs (decisions.h). A row is never changed, and outlives its
       handoff. A write that is repeated finds its row by (handoff, at, action). AUTOINCREMENT: a
       number never comes back, as it is what a cursor holds. */
    "CREATE TABLE decisions ("
    "  number INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  handoff BLOB NOT NULL,"
    "  at INTEGER NOT NULL,"
    "  action INTEGER NOT NULL," /* enum handoff_action */
    "  who TEXT NOT NULL,"
    "  said_by TEXT NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  task_id TEXT NOT NULL,"
    "  source TEXT NOT NULL,"
    "  target TEXT NOT NULL,"
    "  sent_to TEXT NOT NULL,"
    "  cause TEXT NOT NULL,"
    "  fields TEXT NOT NULL," /* separated by commas */
    "  replacement BLOB,"
    "  job BLOB,"
    "  UNIQUE (handoff, at, action));"
    "CREATE INDEX decisions_task ON decisions (task_id, number);"
    "CREATE INDEX decisions_job ON decisions (job, number) WHERE job IS NOT NULL;"
    "CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions BEGIN"
    "  SELECT RAISE(ABORT, 'a decision is never changed'); END;"
    /* bulk jobs (jobs.h), and what became of each of their handoffs */
    "CREATE TABLE jobs ("
    "  id BLOB PRIMARY KEY,"
    "  action INTEGER NOT NULL,"
    "  state TEXT NOT NULL,"
    "  sent_to TEXT NOT NULL,"
    "  who TEXT NOT NULL,"
    "  said_by TEXT NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  rate INTEGER NOT NULL,"
    "  canary INTEGER NOT NULL," /* 1: it waits after the first; 2: it did, and goes on */
    "  began_at INTEGER NOT NULL,"
    "  ended_at INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;"
    "CREATE TABLE job_items ("
    "  job BLOB NOT NULL,"
    "  handoff BLOB NOT NULL,"
    "  fate INTEGER NOT NULL DEFAULT 0," /* enum handoff_fate */
    "  code TEXT NOT NULL DEFAULT '',"
    "  detail TEXT NOT NULL DEFAULT '',"
    "  PRIMARY KEY (job, handoff)) WITHOUT ROWID;"
    /* what lists show and search of a handoff. `summary` is NULL where an older version accepted
       it; `error` is that of its last attempt when it was parked. The index has all that a walk
       through what is parked looks at, so that it reads no rows (parked.h). */
    "ALTER TABLE handoffs ADD COLUMN summary TEXT;"
    "ALTER TABLE handoffs ADD COLUMN error TEXT NOT NULL DEFAULT '';"
    "UPDATE handoffs SET error = coalesce((SELECT a.error FROM attempts a WHERE"
    "  a.seq = handoffs.seq ORDER BY a.number DESC LIMIT 1), '') WHERE state = 5;"
    "CREATE INDEX handoffs_parked_rows ON handoffs"
    "  (seq, target, source, reason, error, summary, settled_at) WHERE state = 5;",

    /* 19: publications (delivery_rows.h). Their deliveries are rows of envelopes and handoffs,
       whose bodies are TEXTs such as "@17". */
    "CREATE TABLE publications ("
    "  seq INTEGER PRIMARY KEY," /* of its envelope */
    "  channel TEXT NOT NULL,"
    "  source TEXT NOT NULL,"
    "  at INTEGER NOT NULL,"
    "  unfinished INTEGER NOT NULL);" /* deliveries that are not over */
    "CREATE INDEX publications_channel ON publications (channel, seq);"
    "CREATE TABLE channel_deliveries ("
    "  seq INTEGER PRIMARY KEY," /* of its handoff */
    "  publication INTEGER NOT NULL,"
    "  receiver TEXT NOT NULL);"
    "CREATE INDEX channel_deliveries_publication ON channel_deliveries (publication);",

    /* 20: an orphan can be continued, and its agents stay parties to its task
       (contribution_rows.h). So it is found by its id and by its task, and `addresses` has it.
       asked_target is whom its source asked, where another agent has it now. Those of older
       versions have none. */
    "ALTER TABLE contributions ADD COLUMN asked_target TEXT;"
    "CREATE INDEX contributions_of_task ON contributions (task_id, seq) WHERE task_id IS NOT NULL;"
    "CREATE INDEX contributions_by_id ON contributions (id) WHERE id IS NOT NULL;"
    "CREATE VIEW continuable_orphans (seq, task_id, target, asked_target, open) AS"
    "  SELECT c.seq, c.task_id, c.target, c.asked_target,"
    "  NOT EXISTS (SELECT 1 FROM lineage l JOIN contributions child ON child.seq = l.child"
    "   WHERE l.parent = c.seq AND child.handed_off = 1)"
    "  FROM contributions c WHERE c.task_id IS NOT NULL AND c.replaced_by IS NULL;"
    "DROP VIEW addresses;"
    "CREATE VIEW addresses (seq, task_id, agent, open) AS"
    "  SELECT seq, task_id, '', 0 FROM envelopes"
    "  UNION ALL SELECT e.seq, e.task_id, h.asked_target, e.open"
    "  FROM continuable e JOIN handoffs h ON h.seq = e.seq"
    "  UNION ALL SELECT e.seq, e.task_id, h.target, e.open"
    "  FROM continuable e JOIN handoffs h ON h.seq = e.seq WHERE h.target <> h.asked_target"
    "  UNION ALL SELECT e.seq, e.task_id, a.target, 0"
    "  FROM continuable e JOIN handoffs h ON h.seq = e.seq JOIN attempts a ON a.seq = e.seq"
    "  WHERE a.target NOT IN (h.asked_target, h.target)"
    "  UNION ALL SELECT e.seq, e.task_id, c.target, e.open"
    "  FROM continuable e JOIN contributions c ON c.seq = e.seq"
    "  WHERE c.target IS NOT NULL AND e.seq NOT IN (SELECT seq FROM handoffs)"
    "  UNION ALL SELECT seq, task_id, '', 0 FROM contributions WHERE task_id IS NOT NULL"
    "  UNION ALL SELECT seq, task_id, target, open"
    "  FROM continuable_orphans WHERE target IS NOT NULL"
    "  UNION ALL SELECT seq, task_id, asked_target, open"
    "  FROM continuable_orphans WHERE asked_target IS NOT NULL;"
    "INSERT OR IGNORE INTO addressed SELECT task_id, agent, open, seq FROM addresses"
    "  WHERE seq IN (SELECT seq FROM contributions WHERE task_id IS NOT NULL)"
    "  AND task_id IN (SELECT task_id FROM addressed);",

    /* 21: memories that the receiver lacked (client/model/gaps.h); NULL: none */
    "ALTER TABLE handoffs ADD COLUMN gaps TEXT;",

    /* 22: receivers of channels by a decision at run time (subscriptions.h). `named`: the publisher
       named the receivers, so that nobody else is to catch up with it. */
    "CREATE TABLE subscriptions ("
    "  channel TEXT NOT NULL,"
    "  receiver TEXT NOT NULL,"
    "  state INTEGER NOT NULL," /* enum handoff_subscription_state */
    "  at INTEGER NOT NULL,"
    "  from_at INTEGER NOT NULL,"
    "  position INTEGER NOT NULL,"
    "  PRIMARY KEY (channel, receiver)) WITHOUT ROWID;"
    "ALTER TABLE publications ADD COLUMN named INTEGER NOT NULL DEFAULT 0;",

    /* 23: the time by which what is finished grows old (retention_clock.h); 0: not known yet */
    "CREATE TABLE retention_clock (now INTEGER NOT NULL);"
    "INSERT INTO retention_clock VALUES (0);",

    /* 24: what has expired, which an alert leads to */
    "CREATE INDEX handoffs_expired ON handoffs (seq) WHERE state = 6;",

    /* 25: who had a delivery of a publication that retention has removed, as long as the
       publication is there (delivery_rows.h): so it is never sent twice */
    "CREATE TABLE channel_received ("
    "  publication INTEGER NOT NULL,"
    "  receiver TEXT NOT NULL,"
    "  PRIMARY KEY (publication, receiver)) WITHOUT ROWID;",

    /* 26: an attempt at another agent than the one that has the handoff is listed by the code that
       stores it (addressed.h): the trigger cost every attempt */
    "DROP TRIGGER addressed_by_attempt;",

    /* 27: how the answer to an attempt begins, if it had an error status */
    "ALTER TABLE attempts ADD COLUMN answer TEXT NOT NULL DEFAULT '';",

    /* 28: what channels keep (shelves.h), and what retention took before a subscriber had come to
       it. `newer`: publications from this number on were made after the subscription, and count
       whatever their time. */
    "ALTER TABLE publications ADD COLUMN shelf INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE publications ADD COLUMN shelf_bytes INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX publications_kept ON publications (channel, shelf, seq)"
    "  WHERE shelf > 1 AND unfinished = 0;"
    "CREATE TABLE channel_shelves ("
    "  channel TEXT PRIMARY KEY,"
    "  publications INTEGER NOT NULL,"
    "  bytes INTEGER NOT NULL) WITHOUT ROWID;"
    "ALTER TABLE subscriptions ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE subscriptions ADD COLUMN newer INTEGER NOT NULL DEFAULT 0;"
    "UPDATE subscriptions SET newer = (SELECT coalesce(max(seq), 0) + 1 FROM envelopes);"
    "CREATE INDEX subscriptions_dropped ON subscriptions (channel) WHERE dropped > 0;",

    /* 29: an update of a key's column makes a table for what it finds, also where that is nothing,
       as of a task that is not listed */
    "DROP TRIGGER addressed_continued;"
    "CREATE TRIGGER addressed_continued AFTER INSERT ON lineage"
    "  WHEN EXISTS (SELECT 1 FROM addressed WHERE seq = new.parent AND open = 1)"
    "  AND (SELECT handed_off FROM contributions WHERE seq = new.child) BEGIN"
    "  UPDATE addressed SET open = 0 WHERE seq = new.parent AND open = 1; END;",
};

int handoff_migrate_newest(void)
{
    return (int)(sizeof steps / sizeof *steps);
}

static enum handoff_code refuse_schema(struct handoff_db *db, enum handoff_code code,
                                       const char *message, struct handoff_error *error)
{
    return handoff_error_set(error, code, message, "storage.path", db->path);
}

static enum handoff_code check_application(struct handoff_db *db, int64_t version,
                                           struct handoff_error *error)
{
    int64_t application, tables;
    enum handoff_code code = handoff_db_number(db, "PRAGMA application_id", &application, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db, "SELECT count(*) FROM sqlite_schema", &tables, error);
    if (code != HANDOFF_OK || application == HANDOFF_STORE_APPLICATION_ID)
        return code;
    if (application == 0 && version == 0 && tables == 0)
        return HANDOFF_OK; /* a new file */
    return refuse_schema(
        db, HANDOFF_ERR_STORE_FOREIGN,
        "the database belongs to another program; point storage.path at another directory", error);
}

enum handoff_code handoff_migrate_version(struct handoff_db *db, int *version,
                                          struct handoff_error *error)
{
    int64_t number;
    *version = 0;
    enum handoff_code code = handoff_db_number(db, "PRAGMA user_version", &number, error);
    if (code == HANDOFF_OK)
        code = check_application(db, number, error);
    if (code != HANDOFF_OK)
        return code;
    if (number < 0 || number > handoff_migrate_newest()) {
        refuse_schema(
            db, HANDOFF_ERR_STORE_NEWER,
            "the store was written by a newer version of this program; install that version, or "
            "restore a backup made before the upgrade",
            error);
        handoff_error_seen(error, "%s: schema version %lld", db->path, (long long)number);
        handoff_error_allow(error, "up to %d", handoff_migrate_newest());
        return HANDOFF_ERR_STORE_NEWER;
    }
    *version = (int)number;
    return HANDOFF_OK;
}

static enum handoff_code run_step(struct handoff_db *db, int number, struct handoff_error *error)
{
    char mark[96];
    sqlite3_snprintf(sizeof mark, mark, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                     HANDOFF_STORE_APPLICATION_ID, number);
    enum handoff_code code = handoff_db_exec(db, steps[number - 1], error);
    return code == HANDOFF_OK ? handoff_db_exec(db, mark, error) : code;
}

/* All steps in one transaction: a new store is made with one sync instead of one for each step. */
enum handoff_code handoff_migrate(struct handoff_db *db, int to, struct handoff_error *error)
{
    int version;
    BASE_CHECK(to <= handoff_migrate_newest());
    enum handoff_code code = handoff_migrate_version(db, &version, error);
    if (code != HANDOFF_OK || version >= to)
        return code;
    code = handoff_db_exec(db, "BEGIN IMMEDIATE", error);
    while (code == HANDOFF_OK && version < to)
        code = run_step(db, ++version, error);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, "COMMIT", error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    return code;
}
