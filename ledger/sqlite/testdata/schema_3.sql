-- The ledger of indoubt, as a SQLite database.
--
-- This schema is a public contract: a pipeline in any language may write it
-- with plain SQL, so the rules that must never be broken live in the database:
-- here, and as triggers in guards.sql. They stop mistakes, not somebody who may
-- change the schema.
--
-- A writer needs two autocommit statements (PRAGMA synchronous = FULL):
--
--   INSERT INTO operations (id, kind, key, input, deadline_at, source, actor)
--   VALUES (…);                                       -- before anything is sent
--
--   UPDATE operations
--      SET state = 'committed',                       -- or 'failed', 'uncertain'
--          receipt = …, result = …,
--          change_id = …, actor = …, reason = …
--    WHERE id = … AND live_attempt = id || '.1';      -- after the answer; a later
--                                                     -- attempt is not this one's
--
-- The database does the rest: attempt, event, version, list and counts. A
-- writer that says nothing more leaves the operation pending, and every reader
-- takes it for in doubt when deadline_at has passed.
--
-- Conventions: times are INTEGER UTC Unix milliseconds and 0 means "none";
-- 253402300799999 means "never"; text that is not known is ''; JSON is TEXT and
-- NULL where there is none; flags are 0 or 1.

-- meta: what the ledger knows of itself. id, created_at, and its home (host,
-- device, inode, boot), by which a copy is told from the original.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- operations: one row for each intended effect on an outside system.
CREATE TABLE operations (
  seq          INTEGER PRIMARY KEY,                    -- order of arrival; leave it out
  -- Who it is. None of this changes after the INSERT.
  id           TEXT NOT NULL UNIQUE,                   -- a UUIDv7; any text that is unique will do
  kind         TEXT NOT NULL,                          -- stripe.charge; policies are keyed by it
  scope        TEXT NOT NULL DEFAULT '',               -- partitions keys; usually ''
  key          TEXT NOT NULL,                          -- idempotency key, the same on every attempt
  token        TEXT NOT NULL DEFAULT '',               -- correlation token carried inside the write
  fingerprint  TEXT NOT NULL DEFAULT '',               -- SHA-256 (hex) of the canonical JSON input
  input        TEXT,                                   -- JSON: what was asked for
  redacted     INTEGER NOT NULL DEFAULT 0,             -- 1: parts of the input are digests
  command      TEXT,                                   -- JSON {argv, dir, expand}: what `indoubt run` ran
  source       TEXT NOT NULL DEFAULT '',               -- pipeline or agent that wants it
  source_run   TEXT NOT NULL DEFAULT '',
  source_host  TEXT NOT NULL DEFAULT '',
  source_pid   INTEGER NOT NULL DEFAULT 0,
  session      TEXT NOT NULL DEFAULT '',
  created_at   INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
  -- What it is called. '' until a policy names it.
  title        TEXT NOT NULL DEFAULT '',
  target       TEXT NOT NULL DEFAULT '',               -- the thing acted on
  -- Where it stands.
  state        TEXT NOT NULL DEFAULT 'pending',
  version      INTEGER NOT NULL DEFAULT 1,             -- moves with state, attempt, verdict and decision
  error_class  TEXT NOT NULL DEFAULT '',               -- timeout, reset, eof, 5xx, …
  verdict      TEXT NOT NULL DEFAULT '',               -- newest conclusive verdict of a reconcile read
  effects      INTEGER NOT NULL DEFAULT 0,             -- distinct effects known
  receipt      TEXT NOT NULL DEFAULT '',               -- the first receipt
  receipts     TEXT NOT NULL DEFAULT '[]',             -- JSON array, in order of discovery
  result       TEXT,                                   -- JSON: the answer, for callers that ask again
  effect_word  TEXT NOT NULL DEFAULT '',               -- created, updated, deleted, noop as the downstream said it
  conflict     TEXT NOT NULL DEFAULT '',               -- a flag until a person acknowledges it
  conflict_note TEXT NOT NULL DEFAULT '',
  acked_receipts TEXT NOT NULL DEFAULT '[]',           -- JSON array: what acknowledgements have covered
  token_sent   INTEGER NOT NULL DEFAULT 0,             -- the token was inside at least one transmission
  doubted      INTEGER NOT NULL DEFAULT 0,             -- was ever in doubt
  hands_off    INTEGER NOT NULL DEFAULT 0,             -- only a person settles it
  by_answer    INTEGER NOT NULL DEFAULT 0,             -- committed by its own answer
  live_attempt TEXT NOT NULL DEFAULT '',               -- id of the attempt in flight
  attempt_count INTEGER NOT NULL DEFAULT 0,
  parked_until INTEGER NOT NULL DEFAULT 0,
  recheck_at   INTEGER NOT NULL DEFAULT 0,             -- one more read of a settled operation is due then
  ttl_ms       INTEGER NOT NULL DEFAULT 0,             -- how long a finished operation keeps its key; 0: for ever
  key_live     INTEGER NOT NULL DEFAULT 1,             -- holds its key; 1 becomes 0 once, when finished
  updated_at   INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
  started_at   INTEGER NOT NULL DEFAULT 0,             -- first attempt's start
  deadline_at  INTEGER NOT NULL,                       -- live attempt's deadline; 0 when none is in flight
  ended_at     INTEGER NOT NULL DEFAULT 0,             -- latest end of any attempt
  doubted_at   INTEGER NOT NULL DEFAULT 0,
  settled_at   INTEGER NOT NULL DEFAULT 0,
  -- The newest change. Every UPDATE of change_id appends an event made from
  -- these columns. actor and reason go with every change of state. The others
  -- are believed when change_of equals change_id, so that what an earlier writer
  -- left in them is never taken for this one's.
  change_id    TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
  actor        TEXT NOT NULL,                          -- who, as a label
  reason       TEXT NOT NULL DEFAULT '',               -- why
  change_of    TEXT NOT NULL DEFAULT '',
  change_verb  TEXT NOT NULL DEFAULT '',               -- begin, settle, confirm, …
  os_user      TEXT NOT NULL DEFAULT '',
  host         TEXT NOT NULL DEFAULT '',
  machine      INTEGER NOT NULL DEFAULT 1,             -- 1: a program, 0: a person
  terminal     INTEGER NOT NULL DEFAULT 0,             -- 1: a person at a terminal
  change_detail TEXT,                                  -- JSON; {"proof":"never_sent"|"refused"} makes a failure proven

  -- Derived: nothing about it can change by itself any more, so it is only in this table.
  resolved     INTEGER GENERATED ALWAYS AS (
    conflict = '' AND (state IN ('committed', 'abandoned') OR state = 'failed' AND doubted = 0)
  ) VIRTUAL,
  -- What its caller still waits for.
  undelivered  INTEGER NOT NULL DEFAULT 0              -- 1: nobody has given it a final answer
    CONSTRAINT undelivered_is_0_or_1 CHECK (undelivered IN (0, 1)),
  awaits       TEXT NOT NULL DEFAULT '',               -- where the rest of an answer is asked for; '' unless in flight
  -- Derived: it belongs in open_operations, whether or not a grant puts it there.
  is_open      INTEGER GENERATED ALWAYS AS (
    state = 'uncertain' OR state = 'failed' AND doubted = 1
    OR conflict <> '' OR recheck_at <> 0 OR parked_until <> 0
  ) VIRTUAL,

  CONSTRAINT id_is_text        CHECK (length(id) BETWEEN 1 AND 200),
  CONSTRAINT kind_is_named     CHECK (length(kind) BETWEEN 1 AND 200),
  CONSTRAINT key_is_given      CHECK (length(key) BETWEEN 1 AND 2000),
  CONSTRAINT actor_is_named    CHECK (length(actor) > 0),
  CONSTRAINT state_is_known    CHECK (state IN ('pending', 'committed', 'failed', 'uncertain', 'abandoned')),
  CONSTRAINT verdict_is_known  CHECK (verdict IN ('', 'landed', 'absent', 'duplicated', 'mismatch')),
  CONSTRAINT conflict_is_known CHECK (conflict IN ('', 'duplicate', 'contradiction', 'mismatch', 'possible_duplicate')),
  CONSTRAINT version_counts    CHECK (version >= 1),
  CONSTRAINT effects_count     CHECK (effects >= 0),
  CONSTRAINT input_is_json     CHECK (input IS NULL OR json_valid(input)),
  CONSTRAINT command_is_json   CHECK (command IS NULL OR json_valid(command)),
  CONSTRAINT receipts_is_json  CHECK (json_valid(receipts) AND json_type(receipts) = 'array'),
  CONSTRAINT acked_is_json     CHECK (json_valid(acked_receipts) AND json_type(acked_receipts) = 'array'),
  CONSTRAINT result_is_json    CHECK (result IS NULL OR json_valid(result)),
  CONSTRAINT detail_is_json    CHECK (change_detail IS NULL OR json_valid(change_detail)),
  CONSTRAINT flags_are_0_or_1  CHECK (redacted IN (0, 1) AND token_sent IN (0, 1) AND doubted IN (0, 1) AND hands_off IN (0, 1)
                                 AND by_answer IN (0, 1) AND key_live IN (0, 1) AND machine IN (0, 1) AND terminal IN (0, 1)),
  -- Seconds, microseconds and nanoseconds all fall outside these.
  CONSTRAINT created_at_is_in_milliseconds  CHECK (created_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT updated_at_is_in_milliseconds  CHECK (updated_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT deadline_at_is_in_milliseconds CHECK (deadline_at = 0 OR deadline_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT times_are_in_milliseconds CHECK (
        (started_at = 0   OR started_at   BETWEEN 946684800000 AND 4102444800000)
    AND (ended_at = 0     OR ended_at     BETWEEN 946684800000 AND 4102444800000)
    AND (doubted_at = 0   OR doubted_at   BETWEEN 946684800000 AND 4102444800000)
    AND (settled_at = 0   OR settled_at   BETWEEN 946684800000 AND 4102444800000)
    AND (parked_until = 0 OR parked_until BETWEEN 946684800000 AND 253402300799999)
    AND (recheck_at = 0   OR recheck_at   BETWEEN 946684800000 AND 253402300799999)),
  CONSTRAINT pending_has_a_deadline CHECK (state <> 'pending' OR deadline_at >= created_at),
  CONSTRAINT deadline_is_within_a_year CHECK (deadline_at <= updated_at + 31622400000)
) STRICT;

-- One live key for each (scope, kind, key).
CREATE UNIQUE INDEX operations_by_key ON operations (scope, kind, key) WHERE key_live = 1;
-- Twins: the same input. Overtaken: a newer one on the same target.
CREATE INDEX operations_by_fingerprint ON operations (fingerprint) WHERE fingerprint <> '';
CREATE INDEX operations_by_target ON operations (target, created_at) WHERE target <> '';
-- The settled list, newest change first.
CREATE INDEX operations_resolved ON operations (updated_at) WHERE resolved = 1;
-- What is in flight: by its deadline, and all that the census asks of it.
CREATE INDEX operations_pending ON operations (deadline_at, kind, attempt_count, started_at) WHERE state = 'pending';
-- Candidates for a positive control.
CREATE INDEX operations_by_answer ON operations (kind, settled_at)
  WHERE state = 'committed' AND by_answer = 1 AND token_sent = 1;
-- Who waits for this.
CREATE INDEX operations_by_awaits ON operations (scope, awaits) WHERE awaits <> '';

-- attempts: one row for each transmission of an operation.
CREATE TABLE attempts (
  operation_id TEXT NOT NULL REFERENCES operations (id),
  n            INTEGER NOT NULL,                       -- 1 for the first
  id           TEXT NOT NULL UNIQUE,
  basis        TEXT NOT NULL DEFAULT '',               -- why it was allowed; '' for the first
  grant_id     TEXT NOT NULL DEFAULT '',               -- the grant it consumed
  sender       TEXT NOT NULL DEFAULT 'pipeline',
  key_works    INTEGER NOT NULL DEFAULT 0,             -- the downstream treats a repeat under this key as the same wish
  token_sent   INTEGER NOT NULL DEFAULT 0,
  actor        TEXT NOT NULL DEFAULT '',
  host         TEXT NOT NULL DEFAULT '',
  pid          INTEGER NOT NULL DEFAULT 0,
  started_at   INTEGER NOT NULL,
  deadline_at  INTEGER NOT NULL,
  -- How it ended. Written once.
  ended_at     INTEGER NOT NULL DEFAULT 0,
  outcome      TEXT NOT NULL DEFAULT '',               -- '' while in flight
  proof        TEXT NOT NULL DEFAULT '',               -- why it is known to have had no effect
  error_class  TEXT NOT NULL DEFAULT '',
  error        TEXT NOT NULL DEFAULT '',
  status       INTEGER NOT NULL DEFAULT 0,             -- HTTP status or exit code; -1 when there was none
  receipt      TEXT NOT NULL DEFAULT '',
  result       TEXT,
  effect_word  TEXT NOT NULL DEFAULT '',
  already      INTEGER NOT NULL DEFAULT 0,             -- the answer said that an earlier attempt's effect is there
  -- The one answer that may come after it had ended uncertain.
  late_outcome TEXT NOT NULL DEFAULT '',
  late_at      INTEGER NOT NULL DEFAULT 0,
  late_receipt TEXT NOT NULL DEFAULT '',

  PRIMARY KEY (operation_id, n),
  CONSTRAINT outcome_is_known      CHECK (outcome IN ('', 'committed', 'failed', 'uncertain')),
  CONSTRAINT late_outcome_is_known CHECK (late_outcome IN ('', 'committed', 'failed')),
  CONSTRAINT proof_is_known        CHECK (proof IN ('', 'never_sent', 'refused', 'absent')),
  CONSTRAINT basis_is_known        CHECK (basis IN ('', 'absent', 'key_safe', 'risk_accepted')),
  CONSTRAINT attempt_result_is_json CHECK (result IS NULL OR json_valid(result)),
  CONSTRAINT attempt_flags_are_0_or_1 CHECK (key_works IN (0, 1) AND token_sent IN (0, 1) AND already IN (0, 1)),
  CONSTRAINT attempt_times_are_in_milliseconds CHECK (
        started_at BETWEEN 946684800000 AND 4102444800000
    AND deadline_at BETWEEN 946684800000 AND 4102444800000
    AND (ended_at = 0 OR ended_at BETWEEN 946684800000 AND 4102444800000)
    AND (late_at = 0 OR late_at BETWEEN 946684800000 AND 4102444800000)),
  CONSTRAINT attempt_deadline_is_after_its_start CHECK (deadline_at >= started_at),
  CONSTRAINT attempt_ends_with_an_outcome CHECK ((outcome = '') = (ended_at = 0))
) STRICT, WITHOUT ROWID;

-- When something last came into doubt.
CREATE INDEX attempts_uncertain ON attempts (ended_at) WHERE outcome = 'uncertain';

-- reads: reconcile reads and positive controls, with what they showed.
CREATE TABLE reads (
  id           TEXT PRIMARY KEY,
  operation_id TEXT NOT NULL REFERENCES operations (id),
  control      INTEGER NOT NULL DEFAULT 0,             -- 1: a positive control
  began_at     INTEGER NOT NULL,
  ended_at     INTEGER NOT NULL,
  verdict      TEXT NOT NULL,
  reason       TEXT NOT NULL DEFAULT '',
  found        INTEGER NOT NULL DEFAULT 0,
  receipts     TEXT NOT NULL DEFAULT '[]',
  evidence     TEXT,                                   -- JSON, redacted and bounded
  proof_at     INTEGER NOT NULL DEFAULT 0,             -- when absence becomes provable
  digest       TEXT NOT NULL DEFAULT '',               -- policy in force
  actor        TEXT NOT NULL DEFAULT '',

  CONSTRAINT read_verdict_is_known CHECK (verdict IN ('', 'landed', 'absent', 'duplicated', 'mismatch', 'inconclusive')),
  CONSTRAINT read_receipts_is_json CHECK (json_valid(receipts) AND json_type(receipts) = 'array'),
  CONSTRAINT evidence_is_json      CHECK (evidence IS NULL OR json_valid(evidence))
) STRICT;

CREATE INDEX reads_by_operation ON reads (operation_id, began_at);

-- controls: when a positive control of a kind, under a policy, last found what
-- it looked for.
CREATE TABLE controls (
  kind    TEXT NOT NULL,
  digest  TEXT NOT NULL,
  held_at INTEGER NOT NULL,
  read_id TEXT NOT NULL,
  PRIMARY KEY (kind, digest)
) STRICT, WITHOUT ROWID;

-- grants: one-shot permissions for one more attempt. Final once consumed or void.
CREATE TABLE grants (
  id           TEXT PRIMARY KEY,
  operation_id TEXT NOT NULL REFERENCES operations (id),
  version      INTEGER NOT NULL,                       -- of the operation it is bound to
  basis        TEXT NOT NULL,
  sender       TEXT NOT NULL DEFAULT '',
  key_works    INTEGER NOT NULL DEFAULT 0,
  actor        TEXT NOT NULL,
  reason       TEXT NOT NULL DEFAULT '',
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  consumed_at  INTEGER NOT NULL DEFAULT 0,
  attempt_id   TEXT NOT NULL DEFAULT '',               -- who consumed it
  voided_at    INTEGER NOT NULL DEFAULT 0,
  void_reason  TEXT NOT NULL DEFAULT '',

  CONSTRAINT grant_basis_is_known CHECK (basis IN ('absent', 'key_safe', 'risk_accepted')),
  CONSTRAINT grant_is_consumed_or_void CHECK (consumed_at = 0 OR voided_at = 0),
  CONSTRAINT grant_is_consumed_by_an_attempt CHECK ((consumed_at = 0) = (attempt_id = '')),
  CONSTRAINT grant_times_are_in_milliseconds CHECK (
        created_at BETWEEN 946684800000 AND 4102444800000
    AND expires_at BETWEEN 946684800000 AND 253402300799999)
) STRICT;

CREATE INDEX grants_by_operation ON grants (operation_id, created_at);

-- decisions: runs of a deciding command or a bulk action, recorded before their
-- first change, so that one that was cut off can be carried on.
CREATE TABLE decisions (
  id              TEXT PRIMARY KEY,
  idempotency_key TEXT NOT NULL DEFAULT '',
  digest          TEXT NOT NULL DEFAULT '',            -- of verb and arguments
  verb            TEXT NOT NULL,
  actor           TEXT NOT NULL,
  os_user         TEXT NOT NULL DEFAULT '',
  host            TEXT NOT NULL DEFAULT '',
  machine         INTEGER NOT NULL DEFAULT 0,
  terminal        INTEGER NOT NULL DEFAULT 0,
  operations      TEXT NOT NULL DEFAULT '[]',          -- JSON array of ID@VERSION
  done            INTEGER NOT NULL DEFAULT 0,
  result          TEXT,
  created_at      INTEGER NOT NULL,
  finished_at     INTEGER NOT NULL DEFAULT 0,

  CONSTRAINT decision_operations_is_json CHECK (json_valid(operations) AND json_type(operations) = 'array'),
  CONSTRAINT decision_result_is_json     CHECK (result IS NULL OR json_valid(result))
) STRICT;

CREATE UNIQUE INDEX decisions_by_key ON decisions (idempotency_key) WHERE idempotency_key <> '';

-- events: the history, and the feed that every console follows. seq only grows,
-- because nothing is ever deleted.
-- Events of an operation are appended by the database when change_id changes; an
-- event that moves nothing (a note, an adoption) may be inserted directly.
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,                   -- the change id
  operation_id TEXT NOT NULL DEFAULT '',               -- '' for holds and the ledger itself
  at           INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
  verb         TEXT NOT NULL,
  actor        TEXT NOT NULL,
  os_user      TEXT NOT NULL DEFAULT '',
  host         TEXT NOT NULL DEFAULT '',
  machine      INTEGER NOT NULL DEFAULT 0,
  terminal     INTEGER NOT NULL DEFAULT 0,
  reason       TEXT NOT NULL DEFAULT '',
  from_state   TEXT NOT NULL DEFAULT '',
  to_state     TEXT NOT NULL DEFAULT '',
  version      INTEGER NOT NULL DEFAULT 0,
  detail       TEXT,
  conflict     TEXT NOT NULL DEFAULT ''                -- the flag that this change raised
) STRICT;

CREATE INDEX events_by_operation ON events (operation_id, seq) WHERE operation_id <> '';

-- leases: who reconciles an operation now. generation fences and only grows; a
-- lease that was given back keeps its row with holder ''.
CREATE TABLE leases (
  operation_id TEXT PRIMARY KEY REFERENCES operations (id),
  holder       TEXT NOT NULL,
  generation   INTEGER NOT NULL,
  digest       TEXT NOT NULL DEFAULT '',               -- policy in force at the holder
  expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- engines: who works on this ledger now, and under which policy. Leave it.
CREATE TABLE engines (
  holder TEXT PRIMARY KEY,                             -- as on its leases
  digest TEXT NOT NULL,                                -- policy in force there; '': none
  since  INTEGER NOT NULL,
  until  INTEGER NOT NULL                              -- after this it is taken for gone
) STRICT, WITHOUT ROWID;

-- paces: from when a downstream with a rate may be asked next, by whichever engine
-- of this ledger. Leave it.
CREATE TABLE paces (
  downstream TEXT PRIMARY KEY,                         -- as policies name it
  next_at    INTEGER NOT NULL                          -- in microseconds: a rate may be above 1000/s
) STRICT, WITHOUT ROWID;

-- holds: what stops every automatic send, grant and bulk run. scope is all,
-- kind:NAME or downstream:NAME; until 0 means until released.
CREATE TABLE holds (
  id              INTEGER PRIMARY KEY,
  scope           TEXT NOT NULL,
  kinds           TEXT NOT NULL DEFAULT '[]',          -- JSON: the kinds of a downstream
  actor           TEXT NOT NULL,
  os_user         TEXT NOT NULL DEFAULT '',
  host            TEXT NOT NULL DEFAULT '',
  machine         INTEGER NOT NULL DEFAULT 0,
  terminal        INTEGER NOT NULL DEFAULT 0,
  reason          TEXT NOT NULL,
  created_at      INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
  until           INTEGER NOT NULL DEFAULT 0,
  change_id       TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
  released_at     INTEGER NOT NULL DEFAULT 0,          -- lifted, or replaced by a newer one

  CONSTRAINT hold_scope_is_known CHECK (scope = 'all' OR scope GLOB 'kind:?*' OR scope GLOB 'downstream:?*'),
  CONSTRAINT hold_says_who_and_why CHECK (length(actor) > 0 AND length(trim(reason)) > 0),
  CONSTRAINT hold_kinds_is_json CHECK (json_valid(kinds) AND json_type(kinds) = 'array')
) STRICT;

CREATE UNIQUE INDEX holds_in_force ON holds (scope) WHERE released_at = 0;

-- open_operations: the narrow list of everything that may still need somebody.
-- Derived from operations and grants by triggers in the same transaction; the
-- columns after grant_until are a cache of what a policy says. What is in flight
-- for the first time joins it only when a policy has priced it, so that writes
-- which are answered at once cost it nothing. Read it, never write it.
CREATE TABLE open_operations (
  seq             INTEGER PRIMARY KEY,                 -- of the operation
  class           TEXT NOT NULL GENERATED ALWAYS AS (CASE
    WHEN parked_until <> 0 OR grant_until <> 0     THEN 'moving'
    WHEN conflict <> ''                            THEN 'conflict'
    WHEN state = 'pending'                         THEN 'pending'
    WHEN state = 'uncertain' AND hands_off = 1     THEN 'decide'
    WHEN state = 'uncertain' AND ripe = 1          THEN 'ripe'
    WHEN state = 'uncertain'                       THEN 'reading'
    WHEN state = 'failed' AND doubted = 1          THEN 'not_landed'
    ELSE 'resolved' END) STORED,
  -- What a search for a word looks at.
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
  granted_at      INTEGER NOT NULL,                    -- the grant that waits for its pipeline
  grant_until     INTEGER NOT NULL,
  -- What a policy says (a cache; digest '' when it is out of date).
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
  odds            REAL NOT NULL DEFAULT 0,             -- chance that it landed
  rank            REAL NOT NULL DEFAULT 0,             -- what is lost if nobody acts
  decide_at       INTEGER NOT NULL DEFAULT 0,          -- from when it needs a person
  read_at         INTEGER NOT NULL DEFAULT 0,          -- when the next read is due
  reads           INTEGER NOT NULL DEFAULT 0,
  ripe            INTEGER NOT NULL DEFAULT 1,          -- decide_at had passed when somebody last looked
  -- Order by loss, ascending: conflicts (calm 0) first, then the dearest.
  calm            INTEGER GENERATED ALWAYS AS (conflict = '') VIRTUAL,
  loss_order      REAL GENERATED ALWAYS AS (-rank) VIRTUAL,
  -- The clock that moves rows of the classes ripe and reading between lists
  -- without a write; a reader compares it.
  clock_at        INTEGER GENERATED ALWAYS AS (CASE WHEN state = 'uncertain' THEN decide_at ELSE 0 END) VIRTUAL
) STRICT;

CREATE INDEX open_by_loss   ON open_operations (class, calm, loss_order, created_at);
CREATE INDEX open_by_change ON open_operations (class, updated_at);
CREATE INDEX open_by_age    ON open_operations (class);
CREATE INDEX open_by_clock  ON open_operations (class, clock_at);
CREATE INDEX open_by_read   ON open_operations (read_at)          WHERE state = 'uncertain' OR recheck_at <> 0;
CREATE INDEX open_by_digest ON open_operations (digest);
CREATE INDEX open_by_doubt  ON open_operations (kind, doubted_at) WHERE state = 'uncertain';

-- counts: how many open operations are in each class (those in flight apart),
-- with what they cost. Read it, never write it.
CREATE TABLE counts (
  what    TEXT PRIMARY KEY,                            -- class.NAME
  n       INTEGER NOT NULL DEFAULT 0,
  pending INTEGER NOT NULL DEFAULT 0,                  -- of them in flight
  loss    REAL NOT NULL DEFAULT 0,                     -- sum of rank where a miss has an amount
  words   INTEGER NOT NULL DEFAULT 0,                  -- where a miss has a word
  twice   INTEGER NOT NULL DEFAULT 0                   -- known to be duplicates
) STRICT, WITHOUT ROWID;

INSERT INTO counts (what) VALUES
  ('class.moving'), ('class.conflict'), ('class.decide'), ('class.ripe'), ('class.reading'),
  ('class.not_landed'), ('class.resolved');

-- census: how many operations of each kind are in each state. Read it, never
-- write it.
CREATE TABLE census (
  kind      TEXT PRIMARY KEY,
  pending   INTEGER NOT NULL DEFAULT 0,
  committed INTEGER NOT NULL DEFAULT 0,
  failed    INTEGER NOT NULL DEFAULT 0,
  uncertain INTEGER NOT NULL DEFAULT 0,
  abandoned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- tallies: how the doubts of each kind and error class ended, where evidence
-- ended them and not a person. Read it, never write it.
CREATE TABLE tallies (
  kind   TEXT NOT NULL,
  class  TEXT NOT NULL,                                -- error class of the doubt
  landed INTEGER NOT NULL DEFAULT 0,
  missed INTEGER NOT NULL DEFAULT 0,                   -- known not to have landed
  PRIMARY KEY (kind, class)
) STRICT, WITHOUT ROWID;
-- The guards of the ledger: what its tables refuse, and what the database writes
-- by itself when one of them changes. They hold no data, so a ledger of an older
-- schema gets these, whole, when it is migrated.

-- The list's columns as operations and grants give them.
CREATE VIEW open_source AS
SELECT o.seq, o.id, o.kind, o.key, o.token, o.fingerprint, o.title, o.target, o.source, o.source_run, o.source_host, o.source_pid,
       o.state, o.version, o.error_class, o.verdict, o.conflict, o.doubted, o.hands_off, o.receipt, o.actor,
       o.attempt_count AS attempts, o.created_at, o.updated_at, o.deadline_at, o.doubted_at, o.parked_until, o.recheck_at,
       coalesce((SELECT g.created_at FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0
                  ORDER BY g.created_at DESC LIMIT 1), 0) AS granted_at,
       coalesce((SELECT g.expires_at FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0
                  ORDER BY g.created_at DESC LIMIT 1), 0) AS grant_until,
       o.recheck_at AS read_at
  FROM operations o;

-- ── What operations refuse ───────────────────────────────────────────────────

CREATE TRIGGER operations_guard_insert BEFORE INSERT ON operations
BEGIN
  SELECT RAISE(ABORT, 'this operation is recorded already: operations are never replaced')
   WHERE EXISTS (SELECT 1 FROM operations WHERE id = NEW.id)
      OR NEW.seq > 0 AND EXISTS (SELECT 1 FROM operations WHERE seq = NEW.seq);
  SELECT RAISE(ABORT, 'this key is in use by another operation of this kind and scope: look at what became of that one before you send')
   WHERE NEW.key_live = 1
     AND EXISTS (SELECT 1 FROM operations WHERE scope = NEW.scope AND kind = NEW.kind AND key = NEW.key AND key_live = 1);
  SELECT RAISE(ABORT, 'an operation begins as pending: record it before you send, and its outcome with an UPDATE')
   WHERE NEW.state <> 'pending' OR NEW.key_live <> 1 OR NEW.conflict <> '' OR NEW.parked_until <> 0 OR NEW.recheck_at <> 0;
  SELECT RAISE(ABORT, 'deadline_at must come after created_at, in milliseconds, and within a year')
   WHERE NEW.deadline_at <= NEW.created_at OR NEW.deadline_at > NEW.created_at + 31622400000;
END;

-- Guards that speak of columns which most updates leave alone fire only where
-- those are set. seq has other names (rowid), so its guard fires always.
CREATE TRIGGER operations_guard_identity
BEFORE UPDATE OF id, kind, scope, key, token, fingerprint, input, command, redacted, created_at, source, source_run, source_host, source_pid, session
ON operations
BEGIN
  SELECT RAISE(ABORT, 'id, kind, scope, key, token, fingerprint, input, source and created_at of an operation never change')
   WHERE NEW.id <> OLD.id OR NEW.kind <> OLD.kind OR NEW.scope <> OLD.scope OR NEW.key <> OLD.key
      OR NEW.token <> OLD.token OR NEW.fingerprint <> OLD.fingerprint OR NEW.input IS NOT OLD.input
      OR NEW.command IS NOT OLD.command OR NEW.redacted <> OLD.redacted OR NEW.created_at <> OLD.created_at
      OR NEW.source <> OLD.source OR NEW.source_run <> OLD.source_run OR NEW.source_host <> OLD.source_host
      OR NEW.source_pid <> OLD.source_pid OR NEW.session <> OLD.session;
END;

CREATE TRIGGER operations_guard_key BEFORE UPDATE OF key_live ON operations
BEGIN
  SELECT RAISE(ABORT, 'a key is given up once, and only by an operation that is committed, failed or abandoned')
   WHERE NEW.key_live <> OLD.key_live AND (OLD.key_live = 0 OR OLD.state IN ('pending', 'uncertain'));
END;

CREATE TRIGGER operations_guard_update BEFORE UPDATE ON operations
BEGIN
  SELECT RAISE(ABORT, 'seq of an operation never changes')
   WHERE NEW.seq <> OLD.seq;
  SELECT RAISE(ABORT, 'the state cannot change like this: pending leads to committed, failed or uncertain; uncertain to committed, failed, pending or abandoned; failed to pending, abandoned or uncertain; committed and abandoned only to uncertain')
   WHERE NEW.state <> OLD.state
     AND OLD.state || ' ' || NEW.state NOT IN (
       'pending committed', 'pending failed', 'pending uncertain',
       'uncertain committed', 'uncertain failed', 'uncertain pending', 'uncertain abandoned',
       'failed pending', 'failed abandoned', 'failed uncertain',
       'committed uncertain', 'abandoned uncertain');
  SELECT RAISE(ABORT, 'a change of state needs a new change_id, an actor and a reason that is not empty')
   WHERE NEW.state <> OLD.state AND (NEW.change_id = OLD.change_id OR NEW.actor = '' OR trim(NEW.reason) = '');
  SELECT RAISE(ABORT, 'the version of an operation never goes back')
   WHERE NEW.version < OLD.version;
  SELECT RAISE(ABORT, 'version must grow with every change of attempt, verdict, effects, conflict or hands_off')
   WHERE NEW.version = OLD.version AND NEW.state = OLD.state AND OLD.attempt_count > 0
     AND (NEW.live_attempt <> OLD.live_attempt OR NEW.attempt_count <> OLD.attempt_count OR NEW.verdict <> OLD.verdict
       OR NEW.effects <> OLD.effects OR NEW.conflict <> OLD.conflict OR NEW.hands_off <> OLD.hands_off);
  SELECT RAISE(ABORT, 'another attempt needs its own id in live_attempt and one more in attempt_count: use indoubt retry, or begin with the same key')
   WHERE NEW.state = 'pending' AND OLD.state <> 'pending'
     AND (NEW.live_attempt = '' OR NEW.attempt_count <> OLD.attempt_count + 1);
  SELECT RAISE(ABORT, 'another attempt needs a grant, or proof that every earlier attempt had no effect')
   WHERE NEW.state = 'pending' AND OLD.state <> 'pending'
     AND NOT EXISTS (SELECT 1 FROM grants WHERE operation_id = NEW.id AND attempt_id = NEW.live_attempt)
     AND (OLD.hands_off = 1 OR EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.id
                                         AND (proof = '' OR proof <> 'absent' AND outcome <> 'failed' AND late_outcome <> 'failed')));
  SELECT RAISE(ABORT, 'only an operation in flight waits for the rest of its answer, and says so with a new change_id, an actor and a reason')
   WHERE NEW.awaits <> OLD.awaits AND NEW.awaits <> ''
     AND (NEW.state <> 'pending' OR NEW.change_id = OLD.change_id OR NEW.actor = '' OR trim(NEW.reason) = '');
  SELECT RAISE(ABORT, 'an answer that was delivered stays delivered until another attempt begins')
   WHERE NEW.undelivered > OLD.undelivered AND (NEW.state <> 'pending' OR OLD.state = 'pending');
  SELECT RAISE(ABORT, 'an earlier attempt of this operation is still unknown, so it cannot have failed as a whole: settle it as uncertain')
   WHERE OLD.state = 'pending' AND NEW.state = 'failed' AND NEW.live_attempt <> '' AND OLD.attempt_count > 1
     AND EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.id AND id <> OLD.live_attempt
                    AND outcome = 'uncertain' AND late_outcome <> 'failed' AND proof = '');
END;

CREATE TRIGGER operations_guard_delete BEFORE DELETE ON operations
BEGIN
  SELECT RAISE(ABORT, 'operations are never deleted');
END;

-- ── What follows from a change of operations ─────────────────────────────────

CREATE TRIGGER operations_after_insert AFTER INSERT ON operations
BEGIN
  INSERT INTO events (id, operation_id, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail)
  VALUES (NEW.change_id, NEW.id, NEW.created_at, CASE NEW.change_verb WHEN '' THEN 'begin' ELSE NEW.change_verb END, NEW.actor,
          NEW.os_user, NEW.host, NEW.machine, NEW.terminal, CASE NEW.reason WHEN '' THEN 'attempt 1' ELSE NEW.reason END,
          '', 'pending', NEW.version, NEW.change_detail);
  INSERT INTO census (kind, pending) VALUES (NEW.kind, 1) ON CONFLICT (kind) DO UPDATE SET pending = pending + 1;
END;

-- Plain SQL names no attempt: the database makes the first one.
CREATE TRIGGER operations_complete_insert AFTER INSERT ON operations WHEN NEW.live_attempt = ''
BEGIN
  UPDATE operations SET live_attempt = NEW.id || '.1', attempt_count = 1, started_at = NEW.created_at WHERE id = NEW.id;
  INSERT INTO attempts (id, operation_id, n, actor, host, pid, token_sent, started_at, deadline_at)
  VALUES (NEW.id || '.1', NEW.id, 1, NEW.actor, NEW.source_host, NEW.source_pid, NEW.token_sent, NEW.created_at, NEW.deadline_at);
END;

CREATE TRIGGER operations_tell AFTER UPDATE OF change_id ON operations WHEN NEW.change_id <> OLD.change_id
BEGIN
  INSERT INTO events (id, operation_id, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail, conflict)
  VALUES (NEW.change_id, NEW.id,
         CASE WHEN NEW.change_of = NEW.change_id THEN NEW.updated_at
              ELSE CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) END,
         CASE WHEN NEW.change_of = NEW.change_id AND NEW.change_verb <> '' THEN NEW.change_verb
              WHEN OLD.state = 'pending' AND NEW.state <> 'pending' THEN 'settle'
              WHEN NEW.state = 'pending' AND OLD.state <> 'pending' THEN 'begin'
              WHEN NEW.state <> OLD.state THEN 'set'
              ELSE 'note' END,
         NEW.actor,
         CASE WHEN NEW.change_of = NEW.change_id THEN NEW.os_user ELSE '' END,
         CASE WHEN NEW.change_of = NEW.change_id THEN NEW.host ELSE '' END,
         CASE WHEN NEW.change_of = NEW.change_id THEN NEW.machine ELSE 1 END,
         CASE WHEN NEW.change_of = NEW.change_id THEN NEW.terminal ELSE 0 END,
         NEW.reason, OLD.state, NEW.state,
         CASE WHEN NEW.state <> OLD.state THEN max(NEW.version, OLD.version + 1) ELSE NEW.version END,
         CASE WHEN NEW.change_of = NEW.change_id OR NEW.change_detail IS NOT OLD.change_detail THEN NEW.change_detail END,
         CASE WHEN NEW.conflict <> OLD.conflict OR NEW.conflict_note <> OLD.conflict_note THEN NEW.conflict ELSE '' END);
  UPDATE census
     SET pending = pending - (OLD.state = 'pending') + (NEW.state = 'pending'),
         committed = committed - (OLD.state = 'committed') + (NEW.state = 'committed'),
         failed = failed - (OLD.state = 'failed') + (NEW.state = 'failed'),
         uncertain = uncertain - (OLD.state = 'uncertain') + (NEW.state = 'uncertain'),
         abandoned = abandoned - (OLD.state = 'abandoned') + (NEW.state = 'abandoned')
   WHERE kind = NEW.kind AND NEW.state <> OLD.state;
END;

-- How a doubt ended, where evidence ended it: a read, or an answer however late.
-- What is pending past its deadline is a doubt that nobody wrote down.
CREATE TRIGGER operations_tally AFTER UPDATE OF state ON operations
WHEN NEW.state IN ('committed', 'failed')
 AND (OLD.state = 'uncertain'
   OR OLD.state = 'pending' AND OLD.deadline_at < CASE WHEN NEW.change_of = NEW.change_id THEN NEW.updated_at
                                                       ELSE CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) END)
 AND NOT (NEW.change_of = NEW.change_id
      AND (NEW.change_verb IN ('confirm', 'deny', 'abandon') OR NEW.change_verb = '' AND NEW.machine = 0))
BEGIN
  INSERT INTO tallies (kind, class, landed, missed)
  VALUES (NEW.kind, CASE OLD.state WHEN 'pending' THEN 'deadline' ELSE OLD.error_class END, NEW.state = 'committed', NEW.state = 'failed')
      ON CONFLICT (kind, class) DO UPDATE SET landed = landed + excluded.landed, missed = missed + excluded.missed;
END;

-- No attempt outlives the flight it was made for.
CREATE TRIGGER operations_end_attempt AFTER UPDATE OF state ON operations
WHEN OLD.state = 'pending' AND NEW.state <> 'pending'
 AND EXISTS (SELECT 1 FROM attempts WHERE operation_id = OLD.id AND n = OLD.attempt_count AND outcome = '')
BEGIN
  UPDATE attempts
     SET outcome = CASE WHEN NEW.live_attempt <> '' THEN NEW.state ELSE 'uncertain' END,
         ended_at = max(NEW.updated_at, started_at,
                        CASE WHEN NEW.live_attempt <> '' THEN CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ELSE 0 END),
         proof = CASE WHEN NEW.live_attempt <> '' AND NEW.state = 'failed' AND NEW.change_detail IS NOT OLD.change_detail
                       AND json_extract(NEW.change_detail, '$.proof') IN ('never_sent', 'refused')
                      THEN json_extract(NEW.change_detail, '$.proof') ELSE '' END,
         error_class = CASE WHEN NEW.live_attempt = '' THEN 'deadline' WHEN NEW.state = 'uncertain' THEN NEW.error_class ELSE '' END,
         error = CASE WHEN NEW.live_attempt <> '' AND NEW.state <> 'committed' THEN NEW.reason ELSE '' END,
         status = -1,
         receipt = CASE WHEN NEW.live_attempt = '' OR NEW.state <> 'committed' THEN ''
                        WHEN NEW.receipt <> '' THEN NEW.receipt
                        ELSE coalesce(json_extract(NEW.receipts, '$[0]'), '') END,
         result = CASE WHEN NEW.live_attempt <> '' AND NEW.state = 'committed' THEN NEW.result END,
         token_sent = max(token_sent, NEW.token_sent)
   WHERE operation_id = OLD.id AND n = OLD.attempt_count AND outcome = '';
END;

-- A change of state that leaves version or live_attempt as they were comes from
-- plain SQL; the database completes it.
CREATE TRIGGER operations_complete_update AFTER UPDATE OF state ON operations
WHEN NEW.state <> OLD.state AND (NEW.version = OLD.version OR NEW.state <> 'pending' AND NEW.live_attempt <> '')
BEGIN
  UPDATE operations
     SET version = max(NEW.version, OLD.version + 1),
         live_attempt = CASE WHEN NEW.state = 'pending' THEN NEW.live_attempt ELSE '' END,
         deadline_at = CASE WHEN NEW.state = 'pending' THEN NEW.deadline_at ELSE 0 END,
         awaits = CASE WHEN NEW.state = 'pending' THEN NEW.awaits ELSE '' END,
         receipts = CASE WHEN NEW.receipts = '[]' AND NEW.receipt <> '' THEN json_array(NEW.receipt) ELSE NEW.receipts END,
         receipt = CASE WHEN NEW.receipt = '' THEN coalesce(json_extract(NEW.receipts, '$[0]'), '') ELSE NEW.receipt END,
         effects = CASE WHEN NEW.state = 'committed' THEN max(NEW.effects, json_array_length(NEW.receipts), 1) ELSE NEW.effects END,
         by_answer = CASE WHEN OLD.state = 'pending' AND NEW.state = 'committed' THEN 1 WHEN NEW.state = 'uncertain' THEN 0 ELSE NEW.by_answer END,
         hands_off = CASE WHEN NEW.state = 'committed' OR NEW.state = 'uncertain' AND OLD.state <> 'pending' THEN 1 ELSE NEW.hands_off END,
         doubted = CASE WHEN NEW.state = 'uncertain' OR OLD.state = 'pending' AND OLD.deadline_at < CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)
                        THEN 1 ELSE NEW.doubted END,
         error_class = CASE WHEN NEW.state = 'uncertain' THEN NEW.error_class ELSE '' END,
         updated_at = max(NEW.updated_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
         ended_at = CASE WHEN OLD.state = 'pending' THEN max(NEW.ended_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)) ELSE NEW.ended_at END,
         doubted_at = CASE WHEN NEW.state = 'uncertain' THEN CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ELSE NEW.doubted_at END,
         settled_at = CASE WHEN NEW.state IN ('committed', 'failed', 'abandoned') THEN CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ELSE 0 END
   WHERE id = NEW.id;
  -- A grant was given for a situation that is gone.
  UPDATE grants SET voided_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER), void_reason = 'the state changed'
   WHERE operation_id = NEW.id AND consumed_at = 0 AND voided_at = 0;
END;

-- The list follows. These read the row as it stands, so it does not matter in
-- which order the triggers of one change run. What is in flight stays in the list
-- if it is there.
CREATE TRIGGER operations_leave_list AFTER UPDATE ON operations
WHEN NEW.is_open = 0 AND NEW.state <> 'pending' AND EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
BEGIN
  DELETE FROM open_operations
   WHERE seq = NEW.seq
     AND EXISTS (SELECT 1 FROM operations WHERE seq = NEW.seq AND is_open = 0)
     AND NOT EXISTS (SELECT 1 FROM grants WHERE operation_id = NEW.id AND consumed_at = 0 AND voided_at = 0);
END;

CREATE TRIGGER operations_stay_in_list AFTER UPDATE ON operations
WHEN EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
 AND (NEW.is_open = 1 OR NEW.state = 'pending'
   OR EXISTS (SELECT 1 FROM grants WHERE operation_id = NEW.id AND consumed_at = 0 AND voided_at = 0))
BEGIN
  UPDATE open_operations
     SET title = o.title, target = o.target, state = o.state, version = o.version, error_class = o.error_class, verdict = o.verdict,
         conflict = o.conflict, doubted = o.doubted, hands_off = o.hands_off, receipt = o.receipt, actor = o.actor,
         attempts = o.attempt_count, updated_at = o.updated_at, deadline_at = o.deadline_at, doubted_at = o.doubted_at,
         parked_until = o.parked_until, recheck_at = o.recheck_at,
         digest = CASE WHEN o.version = open_operations.version THEN digest ELSE '' END,
         read_at = CASE WHEN o.state = 'uncertain' AND open_operations.state <> 'uncertain' THEN 0
                        WHEN o.recheck_at <> open_operations.recheck_at AND o.recheck_at <> 0 THEN o.recheck_at
                        ELSE read_at END,
         reads = CASE WHEN o.state = 'uncertain' AND open_operations.state <> 'uncertain' THEN 0 ELSE reads END
    FROM operations o
   WHERE o.seq = NEW.seq AND open_operations.seq = NEW.seq;
END;

CREATE TRIGGER operations_join_list AFTER UPDATE ON operations
WHEN NEW.is_open = 1 AND NOT EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
BEGIN
  INSERT INTO open_operations (seq, id, kind, key, token, fingerprint, title, target, source, source_run, source_host, source_pid,
          state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts,
          created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until, read_at)
  SELECT * FROM open_source WHERE seq = NEW.seq AND NOT EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq);
END;

-- ── Attempts ─────────────────────────────────────────────────────────────────

CREATE TRIGGER attempts_guard_insert BEFORE INSERT ON attempts
BEGIN
  SELECT RAISE(ABORT, 'this attempt is recorded already: attempts are never replaced')
   WHERE EXISTS (SELECT 1 FROM attempts WHERE id = NEW.id)
      OR EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.operation_id AND n = NEW.n);
  SELECT RAISE(ABORT, 'an attempt of this operation is in flight: there is never more than one')
   WHERE EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.operation_id AND outcome = '');
  SELECT RAISE(ABORT, 'an attempt is recorded as the live_attempt of a pending operation, before it is sent')
   WHERE NEW.outcome <> ''
      OR NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND state = 'pending'
                        AND live_attempt = NEW.id AND attempt_count = NEW.n);
  SELECT RAISE(ABORT, 'another attempt needs a grant, or proof that every earlier attempt had no effect')
   WHERE NEW.n > 1 AND NEW.grant_id = ''
     AND (EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.operation_id
                     AND (proof = '' OR proof <> 'absent' AND outcome <> 'failed' AND late_outcome <> 'failed'))
          -- or the proof was contradicted
          OR EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND hands_off = 1));
  SELECT RAISE(ABORT, 'the grant of this attempt does not exist, or another attempt has consumed it')
   WHERE NEW.grant_id <> ''
     AND NOT EXISTS (SELECT 1 FROM grants WHERE id = NEW.grant_id AND operation_id = NEW.operation_id AND attempt_id = NEW.id);
END;

CREATE TRIGGER attempts_guard_update BEFORE UPDATE ON attempts
BEGIN
  SELECT RAISE(ABORT, 'id, operation, number, basis, grant and start of an attempt never change')
   WHERE NEW.id <> OLD.id OR NEW.operation_id <> OLD.operation_id OR NEW.n <> OLD.n OR NEW.basis <> OLD.basis
      OR NEW.grant_id <> OLD.grant_id OR NEW.started_at <> OLD.started_at;
  SELECT RAISE(ABORT, 'an attempt that has ended does not change, but for one late answer if it ended uncertain')
   WHERE OLD.outcome <> ''
     AND (NEW.outcome <> OLD.outcome OR NEW.ended_at <> OLD.ended_at OR NEW.deadline_at <> OLD.deadline_at
       OR NEW.receipt <> OLD.receipt OR NEW.status <> OLD.status OR NEW.already <> OLD.already
       OR NEW.error_class <> OLD.error_class OR NEW.effect_word <> OLD.effect_word
       OR NEW.sender <> OLD.sender OR NEW.key_works <> OLD.key_works OR NEW.token_sent < OLD.token_sent
       OR NEW.error <> OLD.error AND OLD.error <> ''
       -- what a late answer brings, comes with it and once
       OR (NEW.late_outcome <> OLD.late_outcome OR NEW.late_at <> OLD.late_at OR NEW.late_receipt <> OLD.late_receipt
           OR NEW.result IS NOT OLD.result OR NEW.error <> OLD.error)
          AND (OLD.outcome <> 'uncertain' OR OLD.late_outcome <> '' OR NEW.late_outcome = '')
       -- proof may be found later, once, or come with the late answer
       OR NEW.proof <> OLD.proof
          AND NOT (OLD.outcome = 'uncertain'
                   AND (OLD.proof = '' AND NEW.proof = 'absent' OR OLD.late_outcome = '' AND NEW.late_outcome = 'failed')));
END;

CREATE TRIGGER attempts_guard_delete BEFORE DELETE ON attempts
BEGIN
  SELECT RAISE(ABORT, 'attempts are never deleted');
END;

-- ── Reads, grants, decisions, events, leases, holds ──────────────────────────

CREATE TRIGGER reads_guard_insert BEFORE INSERT ON reads
BEGIN
  SELECT RAISE(ABORT, 'this read is recorded already: reads are never replaced')
   WHERE EXISTS (SELECT 1 FROM reads WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM reads WHERE rowid = NEW.rowid);
END;

CREATE TRIGGER reads_guard_update BEFORE UPDATE ON reads
BEGIN
  SELECT RAISE(ABORT, 'a read is evidence and never changes');
END;

CREATE TRIGGER reads_guard_delete BEFORE DELETE ON reads
BEGIN
  SELECT RAISE(ABORT, 'reads are never deleted');
END;

CREATE TRIGGER grants_guard_insert BEFORE INSERT ON grants
BEGIN
  SELECT RAISE(ABORT, 'this grant is recorded already: grants are never replaced')
   WHERE EXISTS (SELECT 1 FROM grants WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM grants WHERE rowid = NEW.rowid);
  SELECT RAISE(ABORT, 'a grant belongs to an operation that is uncertain or failed')
   WHERE NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND state IN ('uncertain', 'failed'));
END;

CREATE TRIGGER grants_guard_update BEFORE UPDATE ON grants
BEGIN
  SELECT RAISE(ABORT, 'a grant never changes, but for being consumed or voided')
   WHERE NEW.id <> OLD.id OR NEW.operation_id <> OLD.operation_id OR NEW.version <> OLD.version OR NEW.basis <> OLD.basis
      OR NEW.sender <> OLD.sender OR NEW.key_works <> OLD.key_works OR NEW.actor <> OLD.actor OR NEW.reason <> OLD.reason
      OR NEW.created_at <> OLD.created_at OR NEW.expires_at <> OLD.expires_at;
  SELECT RAISE(ABORT, 'this grant is used up or void')
   WHERE (OLD.consumed_at <> 0 OR OLD.voided_at <> 0)
     AND (NEW.consumed_at <> OLD.consumed_at OR NEW.attempt_id <> OLD.attempt_id
       OR NEW.voided_at <> OLD.voided_at OR NEW.void_reason <> OLD.void_reason);
  SELECT RAISE(ABORT, 'this grant has expired')
   WHERE OLD.consumed_at = 0 AND NEW.consumed_at <> 0 AND NEW.consumed_at >= OLD.expires_at;
END;

CREATE TRIGGER grants_guard_delete BEFORE DELETE ON grants
BEGIN
  SELECT RAISE(ABORT, 'grants are never deleted');
END;

CREATE TRIGGER grants_after_insert AFTER INSERT ON grants WHEN NEW.consumed_at = 0 AND NEW.voided_at = 0
BEGIN
  UPDATE open_operations SET granted_at = NEW.created_at, grant_until = NEW.expires_at
   WHERE seq = (SELECT seq FROM operations WHERE id = NEW.operation_id);
  INSERT INTO open_operations (seq, id, kind, key, token, fingerprint, title, target, source, source_run, source_host, source_pid,
          state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts,
          created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until, read_at)
  SELECT * FROM open_source s
   WHERE s.id = NEW.operation_id AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = s.seq);
END;

CREATE TRIGGER grants_after_update AFTER UPDATE OF consumed_at, voided_at ON grants
WHEN OLD.consumed_at = 0 AND OLD.voided_at = 0 AND (NEW.consumed_at <> 0 OR NEW.voided_at <> 0)
BEGIN
  DELETE FROM open_operations
   WHERE seq = (SELECT o.seq FROM operations o JOIN open_source s ON s.seq = o.seq
                 WHERE o.id = NEW.operation_id AND o.is_open = 0 AND o.state <> 'pending' AND s.granted_at = 0);
  UPDATE open_operations SET granted_at = s.granted_at, grant_until = s.grant_until
    FROM open_source s WHERE s.id = NEW.operation_id AND open_operations.seq = s.seq;
END;

CREATE TRIGGER decisions_guard_insert BEFORE INSERT ON decisions
BEGIN
  SELECT RAISE(ABORT, 'this decision is recorded already: decisions are never replaced')
   WHERE EXISTS (SELECT 1 FROM decisions WHERE id = NEW.id)
      OR EXISTS (SELECT 1 FROM decisions WHERE rowid = NEW.rowid)
      OR NEW.idempotency_key <> '' AND EXISTS (SELECT 1 FROM decisions WHERE idempotency_key = NEW.idempotency_key AND idempotency_key <> '');
END;

CREATE TRIGGER decisions_guard_update BEFORE UPDATE ON decisions
BEGIN
  SELECT RAISE(ABORT, 'what was decided never changes, only how far it has come')
   WHERE NEW.id <> OLD.id OR NEW.idempotency_key <> OLD.idempotency_key OR NEW.digest <> OLD.digest OR NEW.verb <> OLD.verb
      OR NEW.actor <> OLD.actor OR NEW.operations <> OLD.operations OR NEW.created_at <> OLD.created_at OR NEW.done < OLD.done;
END;

CREATE TRIGGER decisions_guard_delete BEFORE DELETE ON decisions
BEGIN
  SELECT RAISE(ABORT, 'decisions are never deleted');
END;

CREATE TRIGGER events_guard_insert BEFORE INSERT ON events
BEGIN
  SELECT RAISE(ABORT, 'this change id is in the history already: the change was made before')
   WHERE EXISTS (SELECT 1 FROM events WHERE id = NEW.id) OR NEW.seq > 0 AND EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq);
END;

CREATE TRIGGER events_guard_update BEFORE UPDATE ON events
BEGIN
  SELECT RAISE(ABORT, 'the history never changes');
END;

CREATE TRIGGER events_guard_delete BEFORE DELETE ON events
BEGIN
  SELECT RAISE(ABORT, 'the history is never deleted');
END;

CREATE TRIGGER leases_guard_insert BEFORE INSERT ON leases
BEGIN
  SELECT RAISE(ABORT, 'this operation has a lease row already: take it over with an UPDATE and a higher generation')
   WHERE EXISTS (SELECT 1 FROM leases WHERE operation_id = NEW.operation_id);
END;

CREATE TRIGGER leases_guard_update BEFORE UPDATE ON leases
BEGIN
  SELECT RAISE(ABORT, 'the generation of a lease only grows, and grows with every new holder')
   WHERE NEW.operation_id <> OLD.operation_id OR NEW.generation < OLD.generation
      OR NEW.generation = OLD.generation AND NEW.holder NOT IN (OLD.holder, '');
END;

CREATE TRIGGER leases_guard_delete BEFORE DELETE ON leases
BEGIN
  SELECT RAISE(ABORT, 'leases are never deleted: the generation must be remembered');
END;

CREATE TRIGGER holds_guard_insert BEFORE INSERT ON holds
BEGIN
  SELECT RAISE(ABORT, 'there is a hold on this scope: release it first')
   WHERE EXISTS (SELECT 1 FROM holds WHERE scope = NEW.scope AND released_at = 0) OR EXISTS (SELECT 1 FROM holds WHERE id = NEW.id);
END;

CREATE TRIGGER holds_guard_update BEFORE UPDATE ON holds
BEGIN
  SELECT RAISE(ABORT, 'a hold is released once and never changes otherwise')
   WHERE NEW.id <> OLD.id OR NEW.scope <> OLD.scope OR NEW.kinds <> OLD.kinds OR NEW.actor <> OLD.actor OR NEW.reason <> OLD.reason
      OR NEW.until <> OLD.until OR NEW.created_at <> OLD.created_at OR NEW.change_id <> OLD.change_id
      OR OLD.released_at <> 0 AND NEW.released_at <> OLD.released_at;
END;

CREATE TRIGGER holds_guard_delete BEFORE DELETE ON holds
BEGIN
  SELECT RAISE(ABORT, 'holds are never deleted');
END;

CREATE TRIGGER holds_after_insert AFTER INSERT ON holds
BEGIN
  INSERT INTO events (id, at, verb, actor, os_user, host, machine, terminal, reason, detail)
  VALUES (NEW.change_id, NEW.created_at, 'hold', NEW.actor, NEW.os_user, NEW.host, NEW.machine, NEW.terminal, NEW.reason,
          json_object('scope', NEW.scope, 'kinds', json(NEW.kinds), 'until', NEW.until));
END;

-- ── Counts of the open list ──────────────────────────────────────────────────

CREATE TRIGGER open_guard_insert BEFORE INSERT ON open_operations
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq);
END;

CREATE TRIGGER open_after_insert AFTER INSERT ON open_operations WHEN NEW.class <> 'pending'
BEGIN
  UPDATE counts
     SET n = n + 1, pending = pending + (NEW.state = 'pending'),
         loss = loss + CASE NEW.miss_word WHEN '' THEN NEW.rank ELSE 0 END,
         words = words + (NEW.miss_word <> ''), twice = twice + (NEW.conflict = 'duplicate')
   WHERE what = 'class.' || NEW.class;
END;

CREATE TRIGGER open_after_delete AFTER DELETE ON open_operations WHEN OLD.class <> 'pending'
BEGIN
  UPDATE counts
     SET n = n - 1, pending = pending - (OLD.state = 'pending'),
         loss = loss - CASE OLD.miss_word WHEN '' THEN OLD.rank ELSE 0 END,
         words = words - (OLD.miss_word <> ''), twice = twice - (OLD.conflict = 'duplicate')
   WHERE what = 'class.' || OLD.class;
END;

CREATE TRIGGER open_after_update AFTER UPDATE ON open_operations
WHEN OLD.class <> NEW.class
  OR NEW.class <> 'pending' AND (OLD.rank <> NEW.rank OR OLD.miss_word <> NEW.miss_word
                              OR OLD.conflict <> NEW.conflict OR OLD.state <> NEW.state)
BEGIN
  UPDATE counts
     SET n = n - 1, pending = pending - (OLD.state = 'pending'),
         loss = loss - CASE OLD.miss_word WHEN '' THEN OLD.rank ELSE 0 END,
         words = words - (OLD.miss_word <> ''), twice = twice - (OLD.conflict = 'duplicate')
   WHERE what = 'class.' || OLD.class;
  UPDATE counts
     SET n = n + 1, pending = pending + (NEW.state = 'pending'),
         loss = loss + CASE NEW.miss_word WHEN '' THEN NEW.rank ELSE 0 END,
         words = words + (NEW.miss_word <> ''), twice = twice + (NEW.conflict = 'duplicate')
   WHERE what = 'class.' || NEW.class;
END;
