-- The ledger of indoubt, as a SQLite database.
--
-- This schema is a public contract: a pipeline in any language may write it
-- with plain SQL, so the rules that must never be broken live in the database:
-- here, and as triggers in guards.sql. They stop mistakes, not a person who may
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
-- The database does the rest: attempt, event, version and list. A
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
  key          TEXT NOT NULL,                          -- names it: the caller's idempotency key, or a made one
  sent_key     TEXT NOT NULL DEFAULT '',               -- the idempotency key that goes out, where another name was made
  gate         TEXT NOT NULL DEFAULT '',               -- digest of what is asked, and where; '' where identical requests are normal
  token        TEXT NOT NULL DEFAULT '',               -- correlation token carried inside the write
  fingerprint  TEXT NOT NULL DEFAULT '',               -- SHA-256 (hex) of the canonical JSON input
  input        TEXT,                                   -- JSON: what was asked for
  redacted     INTEGER NOT NULL DEFAULT 0,             -- 1: parts of the input are digests
  command      TEXT,                                   -- JSON {argv, dir, expand}: what `indoubt run` ran
  source       TEXT NOT NULL DEFAULT '',               -- pipeline or agent that wants it
  source_run   TEXT NOT NULL DEFAULT '',
  source_host  TEXT NOT NULL DEFAULT '',
  source_pid   INTEGER NOT NULL DEFAULT 0,
  trace        TEXT NOT NULL DEFAULT '',               -- W3C traceparent of its caller
  session      TEXT NOT NULL DEFAULT '',
  request      TEXT,                                   -- JSON {method, origin, target, header, …}: what an HTTP recorder sent
  created_at   INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
  -- What it is called. '' until a policy names it.
  title        TEXT NOT NULL DEFAULT '',
  target       TEXT NOT NULL DEFAULT '',               -- the thing acted on, or the request itself
  mark_rules   TEXT NOT NULL DEFAULT '',               -- the policy's rules that made its marks; an engine fills them in
  -- Where it stands.
  state        TEXT NOT NULL DEFAULT 'pending',
  fact         TEXT NOT NULL DEFAULT '',               -- what is known of an abandoned one: failed, uncertain; '' where its effect was taken back
  version      INTEGER NOT NULL DEFAULT 1,             -- moves with state, attempt, verdict and decision
  error_class  TEXT NOT NULL DEFAULT '',               -- of the newest answer that did not come: timeout, reset, …
  verdict      TEXT NOT NULL DEFAULT '',               -- newest conclusive verdict of a reconcile read
  effects      INTEGER NOT NULL DEFAULT 0,             -- distinct effects known
  receipt      TEXT NOT NULL DEFAULT '',               -- the first receipt
  receipts     TEXT NOT NULL DEFAULT '[]',             -- JSON array, in order of discovery
  result       TEXT,                                   -- JSON: the answer, for callers that ask again
  effect_word  TEXT NOT NULL DEFAULT '',               -- created, updated, deleted, noop as the downstream said it
  conflict     TEXT NOT NULL DEFAULT '',               -- a flag until a person acknowledges it
  conflict_note TEXT NOT NULL DEFAULT '',
  acked_receipts TEXT NOT NULL DEFAULT '[]',           -- JSON array: what acknowledgements have covered
  hands        TEXT NOT NULL DEFAULT '',               -- people who ever acted on it, one a line
  claimed_receipts TEXT NOT NULL DEFAULT '[]',         -- JSON array: named by a person, and shown by no answer and no check
  token_sent   INTEGER NOT NULL DEFAULT 0,             -- the token was inside at least one transmission
  doubted      INTEGER NOT NULL DEFAULT 0,             -- was ever in doubt
  hands_off    INTEGER NOT NULL DEFAULT 0,             -- only a person settles it
  by_answer    INTEGER NOT NULL DEFAULT 0,             -- committed by its own answer
  live_attempt TEXT NOT NULL DEFAULT '',               -- id of the attempt in flight
  attempt_count INTEGER NOT NULL DEFAULT 0,
  parked_until INTEGER NOT NULL DEFAULT 0,
  awaits       TEXT NOT NULL DEFAULT '',               -- where the rest of an answer is asked for; '' unless in flight
  undelivered  INTEGER NOT NULL DEFAULT 0,             -- 1: its caller was not given a final answer
  recheck_at   INTEGER NOT NULL DEFAULT 0,             -- one more read of a settled operation is due then
  ttl_ms       INTEGER NOT NULL DEFAULT 0,             -- how long a finished operation keeps its key; 0: for ever
  key_live     INTEGER NOT NULL DEFAULT 1,             -- holds its key; 1 becomes 0 once, when finished
  updated_at   INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
  started_at   INTEGER NOT NULL DEFAULT 0,             -- first attempt's start
  deadline_at  INTEGER NOT NULL,                       -- live attempt's deadline; 0 when none is in flight
  ended_at     INTEGER NOT NULL DEFAULT 0,             -- latest end of any attempt
  doubted_at   INTEGER NOT NULL DEFAULT 0,
  settled_at   INTEGER NOT NULL DEFAULT 0,
  redacted_at  INTEGER NOT NULL DEFAULT 0,             -- a person had its text taken out; nothing else sets it
  redacted_by  TEXT NOT NULL DEFAULT '',
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
  -- Derived: it belongs in open_operations, whether or not a grant puts it there.
  is_open      INTEGER GENERATED ALWAYS AS (
    state = 'uncertain' OR state = 'failed' AND doubted = 1
    OR conflict <> '' OR recheck_at <> 0 OR parked_until <> 0
  ) VIRTUAL,

  CONSTRAINT seq_counts_from_1 CHECK (seq > 0),
  CONSTRAINT id_is_text        CHECK (length(id) BETWEEN 1 AND 200),
  CONSTRAINT kind_is_named     CHECK (length(kind) BETWEEN 1 AND 200),
  CONSTRAINT key_is_given      CHECK (length(key) BETWEEN 1 AND 2000 AND trim(key, ' ' || char(9, 10, 11, 12, 13)) <> ''),
  CONSTRAINT actor_is_named    CHECK (length(actor) > 0),
  -- OR and not IN: for IN with more than two values SQLite makes a table each time.
  CONSTRAINT state_is_known    CHECK (state = 'pending' OR state = 'committed' OR state = 'failed' OR state = 'uncertain' OR state = 'abandoned'),
  CONSTRAINT fact_is_known     CHECK (fact = '' OR fact = 'failed' OR fact = 'uncertain'),
  CONSTRAINT verdict_is_known  CHECK (verdict = '' OR verdict = 'landed' OR verdict = 'not_there' OR verdict = 'twice' OR verdict = 'different'),
  CONSTRAINT conflict_is_known CHECK (conflict = '' OR conflict = 'duplicate' OR conflict = 'contradiction' OR conflict = 'different'
                                   OR conflict = 'possible_duplicate'),
  CONSTRAINT version_counts    CHECK (version >= 1),
  CONSTRAINT effects_count     CHECK (effects >= 0),
  CONSTRAINT input_is_json     CHECK (input IS NULL OR json_valid(input)),
  CONSTRAINT command_is_json   CHECK (command IS NULL OR json_valid(command)),
  CONSTRAINT request_is_json   CHECK (request IS NULL OR json_valid(request)),
  CONSTRAINT receipts_is_json  CHECK (receipts = '[]' OR json_valid(receipts) AND json_type(receipts) = 'array'),
  CONSTRAINT acked_is_json     CHECK (acked_receipts = '[]' OR json_valid(acked_receipts) AND json_type(acked_receipts) = 'array'),
  CONSTRAINT claimed_is_json   CHECK (claimed_receipts = '[]' OR json_valid(claimed_receipts) AND json_type(claimed_receipts) = 'array'),
  CONSTRAINT result_is_json    CHECK (result IS NULL OR json_valid(result)),
  CONSTRAINT detail_is_json    CHECK (change_detail IS NULL OR json_valid(change_detail)),
  CONSTRAINT flags_are_0_or_1  CHECK (redacted IN (0, 1) AND token_sent IN (0, 1) AND doubted IN (0, 1) AND hands_off IN (0, 1)
                                 AND by_answer IN (0, 1) AND undelivered IN (0, 1) AND key_live IN (0, 1) AND machine IN (0, 1) AND terminal IN (0, 1)),
  -- Seconds, microseconds and nanoseconds all fall outside these.
  CONSTRAINT created_at_is_in_milliseconds  CHECK (created_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT updated_at_is_in_milliseconds  CHECK (updated_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT deadline_at_is_in_milliseconds CHECK (deadline_at = 0 OR deadline_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT times_are_in_milliseconds CHECK (
        (started_at = 0   OR started_at   BETWEEN 946684800000 AND 4102444800000)
    AND (ended_at = 0     OR ended_at     BETWEEN 946684800000 AND 4102444800000)
    AND (doubted_at = 0   OR doubted_at   BETWEEN 946684800000 AND 4102444800000)
    AND (redacted_at = 0  OR redacted_at  BETWEEN 946684800000 AND 4102444800000)
    AND (settled_at = 0   OR settled_at   BETWEEN 946684800000 AND 4102444800000)
    AND (parked_until = 0 OR parked_until BETWEEN 946684800000 AND 253402300799999)
    AND (recheck_at = 0   OR recheck_at   BETWEEN 946684800000 AND 253402300799999)),
  -- Of a later attempt it may be before: the clock may have been set back since.
  CONSTRAINT pending_has_a_deadline CHECK (state <> 'pending' OR deadline_at > 0 AND (attempt_count > 1 OR deadline_at >= created_at)),
  CONSTRAINT deadline_is_within_a_year CHECK (deadline_at <= updated_at + 31622400000)
) STRICT;

-- One live key for each (scope, kind, key). The key comes first: it is also looked
-- for under other kinds, and in other scopes.
CREATE UNIQUE INDEX operations_by_key ON operations (key, scope, kind) WHERE key_live = 1;
-- One is open under each gate, over all processes and hosts.
CREATE UNIQUE INDEX operations_by_gate ON operations (gate) WHERE gate <> '' AND state IN ('pending', 'uncertain');
-- What a person looks for: a key that was given up, a token, a receipt.
CREATE INDEX operations_by_former_key ON operations (key) WHERE key_live = 0;
CREATE INDEX operations_by_sent_key ON operations (sent_key) WHERE sent_key <> '';
CREATE INDEX operations_by_token ON operations (token) WHERE token <> '';
CREATE INDEX operations_by_receipt ON operations (receipt) WHERE receipt <> '';
-- Whose marks are to be made anew, because the policy's rules changed or the writer
-- made none. The condition holds for every row: it keeps this index out of plans
-- that ask for a kind and something rarer.
CREATE INDEX operations_by_mark_rules ON operations (kind, mark_rules) WHERE mark_rules >= '';
-- Others on the same target; the one that was first sent later has overtaken this one.
CREATE INDEX operations_by_target ON operations (target, started_at) WHERE target <> '';
-- The settled list, newest change first.
CREATE INDEX operations_resolved ON operations (updated_at) WHERE resolved = 1;
-- What is in flight: by its deadline, and all that is counted of it.
CREATE INDEX operations_pending ON operations (deadline_at, kind, attempt_count, started_at) WHERE state = 'pending';
-- What landed by its own answer: what a check of its kind is known to be able to find.
CREATE INDEX operations_by_answer ON operations (kind, settled_at)
  WHERE state = 'committed' AND by_answer = 1 AND token_sent = 1;
-- Who waits for this.
CREATE INDEX operations_by_awaits ON operations (scope, awaits) WHERE awaits <> '';

-- marks: the names under which an operation's effect may show. Who else may have
-- made an effect that is recognised by a name is found here.
CREATE TABLE marks (
  value        TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  PRIMARY KEY (value, operation_id)
) STRICT, WITHOUT ROWID;

-- attempts: one row for each transmission of an operation.
CREATE TABLE attempts (
  operation_id TEXT NOT NULL REFERENCES operations (id),
  n            INTEGER NOT NULL,                       -- 1 for the first
  id           TEXT NOT NULL UNIQUE,
  basis        TEXT NOT NULL DEFAULT '',               -- why it was allowed; '' for the first
  grant_id     TEXT NOT NULL DEFAULT '',               -- the grant it consumed
  sender       TEXT NOT NULL DEFAULT 'pipeline',
  key_works    INTEGER NOT NULL DEFAULT 0,             -- the downstream treats a repeat under this key as the same request
  token_sent   INTEGER NOT NULL DEFAULT 0,
  policy       INTEGER NOT NULL DEFAULT 0,             -- number of the policy in force that it was begun under; 0: none was named
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
  -- Where its processes run, and whether one of them may still write.
  boot_id      TEXT NOT NULL DEFAULT '',               -- of the running kernel; '' where unknown
  pid_ns       TEXT NOT NULL DEFAULT '',               -- the process namespace that pid belongs to; '' where unknown
  uid          INTEGER NOT NULL DEFAULT 0,             -- account whose processes they are; 0 where only root can tell
  tree         TEXT NOT NULL DEFAULT '',               -- '' no command, 'open' not seen gone, 'empty' seen gone
  tree_at      INTEGER NOT NULL DEFAULT 0,             -- when they were seen to be gone

  PRIMARY KEY (operation_id, n),
  CONSTRAINT outcome_is_known      CHECK (outcome = '' OR outcome = 'committed' OR outcome = 'failed' OR outcome = 'uncertain'),
  CONSTRAINT late_outcome_is_known CHECK (late_outcome = '' OR late_outcome = 'committed' OR late_outcome = 'failed'),
  CONSTRAINT proof_is_known        CHECK (proof = '' OR proof = 'never_sent' OR proof = 'refused' OR proof = 'not_there'),
  CONSTRAINT basis_is_known        CHECK (basis = '' OR basis = 'proof' OR basis = 'key_safe' OR basis = 'not_seen' OR basis = 'risk_accepted'),
  CONSTRAINT attempt_result_is_json CHECK (result IS NULL OR json_valid(result)),
  CONSTRAINT attempt_flags_are_0_or_1 CHECK (key_works IN (0, 1) AND token_sent IN (0, 1) AND already IN (0, 1)),
  CONSTRAINT attempt_times_are_in_milliseconds CHECK (
        started_at BETWEEN 946684800000 AND 4102444800000
    AND deadline_at BETWEEN 946684800000 AND 4102444800000
    AND (ended_at = 0 OR ended_at BETWEEN 946684800000 AND 4102444800000)
    AND (late_at = 0 OR late_at BETWEEN 946684800000 AND 4102444800000)),
  CONSTRAINT attempt_deadline_is_after_its_start CHECK (deadline_at >= started_at),
  CONSTRAINT tree_is_known CHECK (tree = '' OR tree = 'open' OR tree = 'empty'),
  CONSTRAINT tree_is_seen_empty_at_a_time CHECK (tree_at = 0 AND tree <> 'empty' OR tree = 'empty' AND tree_at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT attempt_ends_with_an_outcome CHECK ((outcome = '') = (ended_at = 0))
) STRICT, WITHOUT ROWID;

-- What counts in the outage of its time. What was imported ended at no time that is known.
CREATE INDEX attempts_lost ON attempts (ended_at) WHERE outcome IN ('uncertain', 'failed') AND sender <> 'import';

-- reads: reconcile reads, with what they showed.
CREATE TABLE reads (
  id           TEXT PRIMARY KEY,
  operation_id TEXT NOT NULL REFERENCES operations (id),
  began_at     INTEGER NOT NULL,
  ended_at     INTEGER NOT NULL,
  verdict      TEXT NOT NULL,
  cause        TEXT NOT NULL DEFAULT '',               -- why it cannot tell, for programs
  reason       TEXT NOT NULL DEFAULT '',
  found        INTEGER NOT NULL DEFAULT 0,
  receipts     TEXT NOT NULL DEFAULT '[]',
  evidence     TEXT,                                   -- JSON, redacted and bounded
  proof_at     INTEGER NOT NULL DEFAULT 0,             -- when absence becomes provable
  digest       TEXT NOT NULL DEFAULT '',               -- policy in force
  actor        TEXT NOT NULL DEFAULT '',
  -- When it was written down by the clock that nobody sets: milliseconds since a boot, sleep
  -- included (CLOCK_BOOTTIME); and how many attempts were over then, from the first. What must
  -- have passed since the end of one must have passed since its first check of that boot too.
  seen_boot    TEXT NOT NULL DEFAULT '',
  seen_steady  INTEGER NOT NULL DEFAULT 0,
  seen_over    INTEGER NOT NULL DEFAULT 0,

  CONSTRAINT read_is_numbered_from_1 CHECK (rowid > 0),
  CONSTRAINT read_verdict_is_known CHECK (verdict IN ('', 'landed', 'twice', 'different', 'not_there', 'not_seen', 'cannot_tell')),
  CONSTRAINT read_receipts_is_json CHECK (json_valid(receipts) AND json_type(receipts) = 'array'),
  CONSTRAINT evidence_is_json      CHECK (evidence IS NULL OR json_valid(evidence)),
  CONSTRAINT read_times_are_in_milliseconds CHECK (
        began_at BETWEEN 946684800000 AND 4102444800000 AND ended_at BETWEEN 946684800000 AND 4102444800000
    AND (proof_at = 0 OR proof_at BETWEEN 946684800000 AND 253402300799999)),
  CONSTRAINT read_ends_after_it_began CHECK (ended_at >= began_at)
) STRICT;

CREATE INDEX reads_by_operation ON reads (operation_id, began_at);


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
  related      TEXT NOT NULL DEFAULT '[]',             -- JSON array: for a risk, later ones on its target that had landed or may have
  consumed_at  INTEGER NOT NULL DEFAULT 0,
  attempt_id   TEXT NOT NULL DEFAULT '',               -- who consumed it
  voided_at    INTEGER NOT NULL DEFAULT 0,
  void_reason  TEXT NOT NULL DEFAULT '',

  CONSTRAINT key_works_is_0_or_1 CHECK (key_works IN (0, 1)),
  CONSTRAINT grant_is_numbered_from_1 CHECK (rowid > 0),
  CONSTRAINT grant_related_is_json CHECK (json_valid(related) AND json_type(related) = 'array'),
  CONSTRAINT grant_basis_is_known CHECK (basis IN ('proof', 'key_safe', 'not_seen', 'risk_accepted')),
  CONSTRAINT grant_is_consumed_or_void CHECK (consumed_at = 0 OR voided_at = 0),
  CONSTRAINT grant_is_consumed_by_an_attempt CHECK ((consumed_at = 0) = (attempt_id = '')),
  CONSTRAINT grant_times_are_in_milliseconds CHECK (
        created_at BETWEEN 946684800000 AND 4102444800000
    AND expires_at BETWEEN 946684800000 AND 253402300799999
    AND (consumed_at = 0 OR consumed_at BETWEEN 946684800000 AND 4102444800000)
    AND (voided_at = 0 OR voided_at BETWEEN 946684800000 AND 4102444800000))
) STRICT;

CREATE INDEX grants_by_operation ON grants (operation_id, created_at);

-- events: the history, and the feed that every console follows. seq only grows.
-- Events of an operation are appended by the database when change_id changes; an
-- event that moves nothing (a note, an adoption) may be inserted directly.
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,                   -- the change id
  operation_id TEXT NOT NULL DEFAULT '',               -- '' for holds and the ledger itself
  outage     TEXT NOT NULL DEFAULT '',               -- that it is about
  run          TEXT NOT NULL DEFAULT '',               -- that it is about: the id of the event with which that began
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
  conflict     TEXT NOT NULL DEFAULT '',               -- the flag that this change raised
  doubt        TEXT,                                   -- error class of the doubt that evidence ended; NULL: none was

  CONSTRAINT event_is_numbered_from_1 CHECK (seq > 0),
  CONSTRAINT event_is_in_milliseconds CHECK (at BETWEEN 946684800000 AND 4102444800000),
  CONSTRAINT event_names_who_did_what CHECK (length(verb) > 0 AND length(actor) > 0),
  CONSTRAINT event_flags_are_0_or_1   CHECK (machine IN (0, 1) AND terminal IN (0, 1)),
  CONSTRAINT event_detail_is_json     CHECK (detail IS NULL OR json_valid(detail))
) STRICT;

CREATE INDEX events_by_outage ON events (outage, seq) WHERE outage <> '';
-- Runs, and where each stands. Who decides about several operations leaves one event with the
-- set and all that was decided, and the id that the change of each of them will have.
CREATE INDEX events_of_runs ON events (seq) WHERE run = id AND verb IN ('run', 'run_over');
CREATE INDEX events_by_run ON events (run, seq) WHERE verb IN ('run', 'run_over');
CREATE INDEX events_of_policies ON events (seq) WHERE verb = 'policy';
CREATE INDEX events_by_operation ON events (operation_id, seq) WHERE operation_id <> '';

-- lead: which process checks and settles what, or drives a run: one for each scope. Leave it.
CREATE TABLE lead (
  scope  TEXT PRIMARY KEY,                             -- downstream:NAME, kind:PATTERN, ledger, run:ID
  holder TEXT NOT NULL,
  rank   INTEGER NOT NULL,                             -- 1 a console, 2 an engine, which takes it from that
  since  INTEGER NOT NULL,
  until  INTEGER NOT NULL,                             -- after this it is free

  CONSTRAINT lead_times_are_in_milliseconds CHECK (since BETWEEN 946684800000 AND 4102444800000 AND until BETWEEN 946684800000 AND 4102444800000)
) STRICT, WITHOUT ROWID;

-- holds: what stops every repeat, grant and bulk run. scope is all,
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
  CONSTRAINT hold_kinds_is_json CHECK (json_valid(kinds) AND json_type(kinds) = 'array'),
  CONSTRAINT hold_flags_are_0_or_1 CHECK (machine IN (0, 1) AND terminal IN (0, 1)),
  CONSTRAINT hold_is_numbered_from_1 CHECK (id > 0),
  CONSTRAINT hold_times_are_in_milliseconds CHECK (
        created_at BETWEEN 946684800000 AND 4102444800000
    AND (until = 0 OR until BETWEEN 946684800000 AND 253402300799999)
    AND (released_at = 0 OR released_at BETWEEN 946684800000 AND 4102444800000))
) STRICT;

CREATE UNIQUE INDEX holds_in_force ON holds (scope) WHERE released_at = 0;

-- open_operations: the narrow list of everything that may still need a person. It
-- copies what lists are sorted, counted and filtered by, from operations and grants,
-- by triggers in the same transaction; the columns after grant_until are a cache of
-- what a policy says. What is in flight
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
  -- What a search for a word looks at, in lower case.
  search          TEXT NOT NULL,
  kind            TEXT NOT NULL,
  state           TEXT NOT NULL,
  error_class     TEXT NOT NULL,
  actor           TEXT NOT NULL,
  conflict        TEXT NOT NULL,
  doubted         INTEGER NOT NULL,
  hands_off       INTEGER NOT NULL,
  hands           TEXT NOT NULL,
  parked_until    INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  deadline_at     INTEGER NOT NULL,
  doubted_at      INTEGER NOT NULL,
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
  rank            REAL NOT NULL DEFAULT 0,             -- what is lost if no one acts
  decide_at       INTEGER NOT NULL DEFAULT 0,          -- from when it needs a person
  read_at         INTEGER NOT NULL DEFAULT 0,          -- when the next read is due
  reads           INTEGER NOT NULL DEFAULT 0,
  ripe            INTEGER NOT NULL DEFAULT 1,          -- decide_at had passed when an engine last looked
  -- Order by loss, ascending: conflicts (calm 0) first, then the dearest.
  calm            INTEGER GENERATED ALWAYS AS (conflict = '') VIRTUAL,
  loss_order      REAL GENERATED ALWAYS AS (-rank) VIRTUAL,
  -- The clock that moves rows of the classes ripe and reading between lists
  -- without a write; a reader compares it.
  clock_at        INTEGER GENERATED ALWAYS AS (CASE WHEN state = 'uncertain' THEN decide_at ELSE 0 END) VIRTUAL,

  CONSTRAINT list_flags_are_0_or_1 CHECK (duplicate_guess IN (0, 1) AND miss_guess IN (0, 1) AND ripe IN (0, 1)),
  CONSTRAINT amounts_can_be_summed CHECK (rank BETWEEN -1e15 AND 1e15 AND odds BETWEEN -1e15 AND 1e15
                                      AND duplicate_value BETWEEN -1e15 AND 1e15 AND miss_value BETWEEN -1e15 AND 1e15),
  CONSTRAINT list_times_are_in_milliseconds CHECK (
        (decide_at = 0 OR decide_at BETWEEN 946684800000 AND 253402300799999)
    AND (read_at = 0 OR read_at BETWEEN 946684800000 AND 253402300799999)),
  CONSTRAINT reads_count CHECK (reads BETWEEN 0 AND 1000000000)
) STRICT;

CREATE INDEX open_by_loss   ON open_operations (class, calm, loss_order, created_at);
CREATE INDEX open_by_class  ON open_operations (class, state, conflict, miss_word, rank);
CREATE INDEX open_by_change ON open_operations (class, updated_at);
CREATE INDEX open_by_age    ON open_operations (class, seq, search); -- also read whole for a word
CREATE INDEX open_by_clock  ON open_operations (class, clock_at);
CREATE INDEX open_by_read   ON open_operations (downstream, read_at) WHERE state = 'uncertain' OR recheck_at <> 0;
CREATE INDEX open_by_digest ON open_operations (digest);
CREATE INDEX open_by_doubt  ON open_operations (kind, doubted_at) WHERE state = 'uncertain';

-- total: sums of the history up to a place: how many operations of each kind are in each
-- state, and how the doubts of each kind and error class ended, where evidence ended them
-- and not a person. Who leads the ledger adds what came after it; totals in derived.sql has
-- the sums of now. Read that, and write neither.
CREATE TABLE total (
  kind  TEXT NOT NULL,                                 -- '' of the place
  what  TEXT NOT NULL,                                 -- a state; landed, missed (known not to have landed); place
  class TEXT NOT NULL,                                 -- error class of the doubt; of the place, the number of its event
  n     INTEGER NOT NULL,
  PRIMARY KEY (kind, what, class)
) STRICT, WITHOUT ROWID;

-- outages: bursts of errors on one downstream, or of one kind where no policy
-- names a downstream. Who leads the ledger opens them. What is in one is asked of the
-- attempts that ended in it.
CREATE TABLE outages (
  id          TEXT PRIMARY KEY,
  scope       TEXT NOT NULL,                           -- downstream:NAME or kind:NAME
  kinds       TEXT NOT NULL DEFAULT '[]',              -- JSON: of its errors
  pipelines   TEXT NOT NULL DEFAULT '[]',              -- the first 20
  classes     TEXT NOT NULL DEFAULT '[]',              -- error classes
  gap_ms      INTEGER NOT NULL,                        -- so long without a new error ends its growth
  opened_at   INTEGER NOT NULL,                        -- when it was known to be one
  first_at    INTEGER NOT NULL,                        -- first error
  last_at     INTEGER NOT NULL,                        -- newest error
  answered_at INTEGER NOT NULL DEFAULT 0,              -- newest answer or valid read that was noted
  over_at     INTEGER NOT NULL DEFAULT 0,              -- when it was seen to be over
  taken_by    TEXT NOT NULL DEFAULT '',                -- who is on it; never a lock
  taken_until INTEGER NOT NULL DEFAULT 0,

  CONSTRAINT outage_scope_is_known CHECK (scope GLOB 'kind:?*' OR scope GLOB 'downstream:?*'),
  CONSTRAINT outage_names_are_json CHECK (json_valid(kinds) AND json_type(kinds) = 'array' AND json_valid(pipelines)
    AND json_type(pipelines) = 'array' AND json_valid(classes) AND json_type(classes) = 'array'),
  CONSTRAINT outage_has_a_gap CHECK (gap_ms BETWEEN 1 AND 31622400000),
  CONSTRAINT outage_times_are_in_milliseconds CHECK (
        opened_at BETWEEN 946684800000 AND 4102444800000
    AND first_at BETWEEN 946684800000 AND 4102444800000 AND last_at BETWEEN first_at AND 4102444800000
    AND (answered_at = 0 OR answered_at BETWEEN 946684800000 AND 4102444800000)
    AND (over_at = 0 OR over_at BETWEEN 946684800000 AND 4102444800000)
    AND (taken_until = 0 OR taken_until BETWEEN 946684800000 AND 4102444800000))
) STRICT, WITHOUT ROWID;

CREATE INDEX outages_by_scope ON outages (scope, last_at);
CREATE INDEX outages_by_last ON outages (last_at DESC, id);
CREATE INDEX outages_growing ON outages (last_at) WHERE over_at = 0;
