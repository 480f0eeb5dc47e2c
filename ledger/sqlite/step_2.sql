-- From schema 1 to schema 2.

-- None of this changes a byte of any row: columns are added behind the last that is
-- stored, a computed one says something else, and AUTOINCREMENT, which cost each
-- event a page of its own, is not needed where nothing is ever deleted. ALTER TABLE
-- would hold every row against every constraint, once for each column.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
  'is_open      INTEGER GENERATED ALWAYS AS (
    state IN (''pending'', ''uncertain'') OR state = ''failed'' AND doubted = 1
    OR conflict <> '''' OR recheck_at <> 0 OR parked_until <> 0
  ) VIRTUAL,
',
  'undelivered  INTEGER NOT NULL DEFAULT 0
    CONSTRAINT undelivered_is_0_or_1 CHECK (undelivered IN (0, 1)),
  awaits       TEXT NOT NULL DEFAULT '''',
  is_open      INTEGER GENERATED ALWAYS AS (
    state = ''uncertain'' OR state = ''failed'' AND doubted = 1
    OR conflict <> '''' OR recheck_at <> 0 OR parked_until <> 0
  ) VIRTUAL,
')
 WHERE type = 'table' AND name = 'operations';
UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER PRIMARY KEY AUTOINCREMENT', 'INTEGER PRIMARY KEY')
 WHERE type = 'table' AND name = 'events';
PRAGMA writable_schema = RESET;

ALTER TABLE events ADD COLUMN
  conflict     TEXT NOT NULL DEFAULT '';

DROP INDEX operations_resolved;
CREATE INDEX operations_resolved ON operations (updated_at) WHERE resolved = 1;
DROP INDEX operations_resolved_by_age;
CREATE INDEX operations_pending ON operations (deadline_at, kind, attempt_count, started_at) WHERE state = 'pending';
CREATE INDEX operations_by_awaits ON operations (scope, awaits) WHERE awaits <> '';

-- The list, under the number of the operation, and without what is in flight.
CREATE TABLE open_operations_2 (
  seq             INTEGER PRIMARY KEY,
  class           TEXT NOT NULL GENERATED ALWAYS AS (CASE
    WHEN parked_until <> 0 OR grant_until <> 0     THEN 'moving'
    WHEN conflict <> ''                            THEN 'conflict'
    WHEN state = 'pending'                         THEN 'pending'
    WHEN state = 'uncertain' AND hands_off = 1     THEN 'decide'
    WHEN state = 'uncertain' AND ripe = 1          THEN 'ripe'
    WHEN state = 'uncertain'                       THEN 'reading'
    WHEN state = 'failed' AND doubted = 1          THEN 'not_landed'
    ELSE 'resolved' END) STORED,
  search          TEXT NOT NULL GENERATED ALWAYS AS (
    lower(title || char(10) || kind || char(10) || key || char(10) || id || char(10) || source)) STORED,
  id              TEXT NOT NULL,
  kind            TEXT NOT NULL,
  key             TEXT NOT NULL,
  token           TEXT NOT NULL,
  fingerprint     TEXT NOT NULL,
  title           TEXT NOT NULL,
  target          TEXT NOT NULL,
  source          TEXT NOT NULL,
  source_run      TEXT NOT NULL,
  source_host     TEXT NOT NULL,
  source_pid      INTEGER NOT NULL,
  state           TEXT NOT NULL,
  version         INTEGER NOT NULL,
  error_class     TEXT NOT NULL,
  verdict         TEXT NOT NULL,
  conflict        TEXT NOT NULL,
  doubted         INTEGER NOT NULL,
  hands_off       INTEGER NOT NULL,
  receipt         TEXT NOT NULL,
  actor           TEXT NOT NULL,
  attempts        INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  deadline_at     INTEGER NOT NULL,
  doubted_at      INTEGER NOT NULL,
  parked_until    INTEGER NOT NULL,
  recheck_at      INTEGER NOT NULL,
  granted_at      INTEGER NOT NULL,
  grant_until     INTEGER NOT NULL,
  digest          TEXT NOT NULL DEFAULT '',
  downstream      TEXT NOT NULL DEFAULT '',
  priced_title    TEXT NOT NULL DEFAULT '',
  priced_target   TEXT NOT NULL DEFAULT '',
  duplicate_value REAL NOT NULL DEFAULT 0,
  duplicate_word  TEXT NOT NULL DEFAULT '',
  duplicate_guess INTEGER NOT NULL DEFAULT 0,
  miss_value      REAL NOT NULL DEFAULT 0,
  miss_word       TEXT NOT NULL DEFAULT '',
  miss_guess      INTEGER NOT NULL DEFAULT 0,
  odds            REAL NOT NULL DEFAULT 0,
  rank            REAL NOT NULL DEFAULT 0,
  decide_at       INTEGER NOT NULL DEFAULT 0,
  read_at         INTEGER NOT NULL DEFAULT 0,
  reads           INTEGER NOT NULL DEFAULT 0,
  ripe            INTEGER NOT NULL DEFAULT 1,
  calm            INTEGER GENERATED ALWAYS AS (conflict = '') VIRTUAL,
  loss_order      REAL GENERATED ALWAYS AS (-rank) VIRTUAL,
  clock_at        INTEGER GENERATED ALWAYS AS (CASE WHEN state = 'uncertain' THEN decide_at ELSE 0 END) VIRTUAL
) STRICT;

INSERT INTO open_operations_2 (seq, id, kind, key, token, fingerprint, title, target, source, source_run, source_host, source_pid,
       state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts,
       created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until,
       digest, downstream, priced_title, priced_target, duplicate_value, duplicate_word, duplicate_guess,
       miss_value, miss_word, miss_guess, odds, rank, decide_at, read_at, reads, ripe)
SELECT o.seq, h.id, h.kind, h.key, h.token, h.fingerprint, h.title, h.target, h.source, h.source_run, h.source_host, h.source_pid,
       h.state, h.version, h.error_class, h.verdict, h.conflict, h.doubted, h.hands_off, h.receipt, h.actor, h.attempts,
       h.created_at, h.updated_at, h.deadline_at, h.doubted_at, h.parked_until, h.recheck_at, h.granted_at, h.grant_until,
       h.digest, h.downstream, h.priced_title, h.priced_target, h.duplicate_value, h.duplicate_word, h.duplicate_guess,
       h.miss_value, h.miss_word, h.miss_guess, h.odds, h.rank, h.decide_at, h.read_at, h.reads, h.ripe
  FROM open_operations h CROSS JOIN operations o ON o.id = h.id
 WHERE h.class <> 'pending';

DROP TABLE open_operations;
ALTER TABLE open_operations_2 RENAME TO open_operations;
CREATE INDEX open_by_loss   ON open_operations (class, calm, loss_order, created_at);
CREATE INDEX open_by_change ON open_operations (class, updated_at);
CREATE INDEX open_by_age    ON open_operations (class);
CREATE INDEX open_by_clock  ON open_operations (class, clock_at);
CREATE INDEX open_by_read   ON open_operations (read_at)          WHERE state = 'uncertain' OR recheck_at <> 0;
CREATE INDEX open_by_digest ON open_operations (digest);
CREATE INDEX open_by_doubt  ON open_operations (kind, doubted_at) WHERE state = 'uncertain';

-- States are counted by kind.
DELETE FROM counts WHERE what GLOB 'state.*';
CREATE TABLE census (
  kind      TEXT PRIMARY KEY,
  pending   INTEGER NOT NULL DEFAULT 0,
  committed INTEGER NOT NULL DEFAULT 0,
  failed    INTEGER NOT NULL DEFAULT 0,
  uncertain INTEGER NOT NULL DEFAULT 0,
  abandoned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO census (kind, pending, committed, failed, uncertain, abandoned)
SELECT kind, sum(state = 'pending'), sum(state = 'committed'), sum(state = 'failed'), sum(state = 'uncertain'), sum(state = 'abandoned')
  FROM operations GROUP BY kind;

-- How doubts ended, from the history: the class is that of the newest attempt
-- that had ended uncertain by then.
CREATE TABLE tallies (
  kind   TEXT NOT NULL,
  class  TEXT NOT NULL,
  landed INTEGER NOT NULL DEFAULT 0,
  missed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, class)
) STRICT, WITHOUT ROWID;
INSERT INTO tallies (kind, class, landed, missed)
SELECT o.kind,
       CASE e.from_state WHEN 'pending' THEN 'deadline' ELSE
         coalesce((SELECT a.error_class FROM attempts a
                    WHERE a.operation_id = e.operation_id AND a.outcome = 'uncertain' AND a.ended_at <= e.at ORDER BY a.n DESC LIMIT 1), '') END,
       sum(e.to_state = 'committed'), sum(e.to_state = 'failed')
  FROM events e JOIN operations o ON o.id = e.operation_id
 WHERE e.to_state IN ('committed', 'failed')
   AND (e.from_state = 'uncertain' AND e.verb NOT IN ('confirm', 'deny', 'abandon') AND NOT (e.verb = 'set' AND e.machine = 0)
     OR e.from_state = 'pending' AND e.verb = 'late')
 GROUP BY 1, 2;
