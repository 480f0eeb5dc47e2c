-- The ledger of indoubt, in PostgreSQL.
--
-- This schema is a public contract: a pipeline in any language may write it
-- with plain SQL, so the rules that must never be broken live in the database:
-- here, and as triggers in guards.sql. They stop mistakes, not a person who may
-- change the schema. Tables, columns and rules are those of the ledger in a file
-- (../sqlite/schema.sql); the types are PostgreSQL's own.
--
-- A writer needs two autocommit statements:
--
--   INSERT INTO indoubt.operations (id, kind, key, input, deadline_at, source, actor)
--   VALUES (…);                                       -- before anything is sent
--
--   UPDATE indoubt.operations
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
-- Conventions: a time is a timestamptz in milliseconds, NULL means "none" and
-- 'infinity' means "never"; text that is not known is ''; recorded JSON is text,
-- which keeps what was sent as it was, and NULL where there is none. What only
-- indoubt reads has times as Unix milliseconds, with 0 for "none" and
-- 253402300799999 for "never", and flags as 0 or 1.
--
-- Triggers, and not foreign keys, hold that what belongs to an operation belongs to
-- one that is recorded: nothing is ever deleted, and a key that many writers meet at
-- would be locked by each of them.

CREATE SCHEMA indoubt;

-- ms is a time as indoubt reads it: Unix milliseconds, 0 for none. Indexes are made
-- over it, so it is one expression that the planner can look into.
CREATE FUNCTION indoubt.ms(t timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN t IS NULL THEN 0 WHEN t = 'infinity' THEN 253402300799999
            ELSE (date_part('epoch', t - '1970-01-01Z'::timestamptz) * 1000)::bigint END;

-- json_kind is what a JSON text is: object, array, string, … A text that is no JSON is an
-- error that says where it is not.
CREATE FUNCTION indoubt.json_kind(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_typeof(t::json);

-- is_json is true, also of NULL, or that error.
CREATE FUNCTION indoubt.is_json(t text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN t IS NULL OR json_typeof(t::json) IS NOT NULL;

-- json_each gives the members of a JSON array of texts.
CREATE FUNCTION indoubt.json_each(list text, OUT key bigint, OUT value text) RETURNS SETOF record LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
  SELECT n - 1, v FROM json_array_elements_text(list::json) WITH ORDINALITY AS e (v, n);
END;

-- meta: what the ledger knows of itself. id, created_at, and its home (host,
-- device, inode, boot), by which a copy is told from the original.
CREATE TABLE indoubt.meta (
  name            text COLLATE "C" PRIMARY KEY,
  value           text COLLATE "C" NOT NULL
);

-- operations: one row for each intended effect on an outside system. What its columns
-- may have, and those of attempts and events, is said in guards.sql.
CREATE TABLE indoubt.operations (
  seq             bigint PRIMARY KEY,                          -- order of arrival; leave it out
  -- Who it is. None of this changes after the INSERT.
  id              text COLLATE "C" NOT NULL UNIQUE,            -- a UUIDv7; any text that is unique will do
  kind            text COLLATE "C" NOT NULL,                   -- stripe.charge; policies are keyed by it
  scope           text COLLATE "C" NOT NULL DEFAULT '',        -- partitions keys; usually ''
  key             text COLLATE "C" NOT NULL,                   -- names it: the caller's idempotency key, or a made one
  sent_key        text COLLATE "C" NOT NULL DEFAULT '',        -- the idempotency key that goes out, where another name was made
  gate            text COLLATE "C" NOT NULL DEFAULT '',        -- digest of what is asked, and where; '' where identical requests are normal
  token           text COLLATE "C" NOT NULL DEFAULT '',        -- correlation token carried inside the write
  fingerprint     text COLLATE "C" NOT NULL DEFAULT '',        -- SHA-256 (hex) of the canonical JSON input
  input           text COLLATE "C",                            -- JSON: what was asked for
  redacted        boolean NOT NULL DEFAULT false,              -- parts of the input are digests
  command         text COLLATE "C",                            -- JSON {argv, dir, expand}: what `indoubt run` ran
  source          text COLLATE "C" NOT NULL DEFAULT '',        -- pipeline or agent that wants it
  source_run      text COLLATE "C" NOT NULL DEFAULT '',
  source_host     text COLLATE "C" NOT NULL DEFAULT '',
  source_pid      bigint NOT NULL DEFAULT 0,
  trace           text COLLATE "C" NOT NULL DEFAULT '',        -- W3C traceparent of its caller
  session         text COLLATE "C" NOT NULL DEFAULT '',
  request         text COLLATE "C",                            -- JSON {method, origin, target, header, …}: what an HTTP recorder sent
  created_at      timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  -- What it is called. '' until a policy names it.
  title           text COLLATE "C" NOT NULL DEFAULT '',
  target          text COLLATE "C" NOT NULL DEFAULT '',        -- the thing acted on, or the request itself
  mark_rules      text COLLATE "C" NOT NULL DEFAULT '',        -- the policy's rules that made its marks; an engine fills them in
  -- Where it stands.
  state           text COLLATE "C" NOT NULL DEFAULT 'pending',
  fact            text COLLATE "C" NOT NULL DEFAULT '',        -- what is known of an abandoned one: failed, uncertain; '' where its effect was taken back
  version         bigint NOT NULL DEFAULT 1,                   -- moves with state, attempt, verdict and decision
  error_class     text COLLATE "C" NOT NULL DEFAULT '',        -- of the newest answer that did not come: timeout, reset, …
  verdict         text COLLATE "C" NOT NULL DEFAULT '',        -- newest conclusive verdict of a reconcile read
  effects         bigint NOT NULL DEFAULT 0,                   -- distinct effects known
  receipt         text COLLATE "C" NOT NULL DEFAULT '',        -- the first receipt
  receipts        text COLLATE "C" NOT NULL DEFAULT '[]',      -- JSON array, in order of discovery
  result          text COLLATE "C",                            -- JSON: the answer, for callers that ask again
  effect_word     text COLLATE "C" NOT NULL DEFAULT '',        -- created, updated, deleted, noop as the downstream said it
  conflict        text COLLATE "C" NOT NULL DEFAULT '',        -- a flag until a person acknowledges it
  conflict_note   text COLLATE "C" NOT NULL DEFAULT '',
  acked_receipts  text COLLATE "C" NOT NULL DEFAULT '[]',      -- JSON array: what acknowledgements have covered
  hands           text COLLATE "C" NOT NULL DEFAULT '',        -- people who ever acted on it, one a line
  claimed_receipts text COLLATE "C" NOT NULL DEFAULT '[]',     -- JSON array: named by a person, and shown by no answer and no check
  token_sent      boolean NOT NULL DEFAULT false,              -- the token was inside at least one transmission
  doubted         boolean NOT NULL DEFAULT false,              -- was ever in doubt
  hands_off       boolean NOT NULL DEFAULT false,              -- only a person settles it
  by_answer       boolean NOT NULL DEFAULT false,              -- committed by its own answer
  live_attempt    text COLLATE "C" NOT NULL DEFAULT '',        -- id of the attempt in flight
  attempt_count   bigint NOT NULL DEFAULT 0,
  parked_until    timestamptz(3),
  awaits          text COLLATE "C" NOT NULL DEFAULT '',        -- where the rest of an answer is asked for; '' unless in flight
  undelivered     boolean NOT NULL DEFAULT false,              -- its caller was not given a final answer
  recheck_at      timestamptz(3),                              -- one more read of a settled operation is due then
  ttl_ms          bigint NOT NULL DEFAULT 0,                   -- how long a finished operation keeps its key; 0: for ever
  key_live        boolean NOT NULL DEFAULT true,               -- holds its key; becomes false once, when finished
  updated_at      timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  started_at      timestamptz(3),                              -- first attempt's start
  deadline_at     timestamptz(3),                              -- live attempt's deadline; NULL when none is in flight
  ended_at        timestamptz(3),                              -- latest end of any attempt
  doubted_at      timestamptz(3),
  settled_at      timestamptz(3),
  redacted_at     timestamptz(3),                              -- a person had its text taken out; nothing else sets it
  redacted_by     text COLLATE "C" NOT NULL DEFAULT '',
  -- The newest change. Every UPDATE of change_id appends an event made from
  -- these columns. actor and reason go with every change of state. The others
  -- are believed when change_of equals change_id, so that what an earlier writer
  -- left in them is never taken for this one's.
  change_id       text COLLATE "C" NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
  actor           text COLLATE "C" NOT NULL,                   -- who, as a label
  reason          text COLLATE "C" NOT NULL DEFAULT '',        -- why
  change_of       text COLLATE "C" NOT NULL DEFAULT '',
  change_verb     text COLLATE "C" NOT NULL DEFAULT '',        -- begin, settle, confirm, …
  os_user         text COLLATE "C" NOT NULL DEFAULT '',
  host            text COLLATE "C" NOT NULL DEFAULT '',
  machine         boolean NOT NULL DEFAULT true,               -- a program, and not a person
  terminal        boolean NOT NULL DEFAULT false,              -- a person at a terminal
  change_detail   text COLLATE "C",                            -- JSON; {"proof":"never_sent"|"refused"} makes a failure proven

  -- Derived, by the database: nothing about it can change by itself any more, so it is
  -- only in this table.
  resolved        boolean NOT NULL DEFAULT false,
  -- Derived: it belongs in open_operations, whether or not a grant puts it there.
  is_open         boolean NOT NULL DEFAULT false
);

-- One live key for each (scope, kind, key). The key comes first: it is also looked
-- for under other kinds, and in other scopes.
CREATE UNIQUE INDEX operations_by_key ON indoubt.operations (key, scope, kind) WHERE key_live::int = 1;
-- One is open under each gate, over all processes and hosts.
CREATE UNIQUE INDEX operations_by_gate ON indoubt.operations (gate) WHERE gate <> '' AND state IN ('pending', 'uncertain');
-- What a person looks for: a key that was given up, a token, a receipt.
CREATE INDEX operations_by_former_key ON indoubt.operations (key) WHERE key_live::int = 0;
CREATE INDEX operations_by_sent_key ON indoubt.operations (sent_key) WHERE sent_key <> '';
CREATE INDEX operations_by_token ON indoubt.operations (token) WHERE token <> '';
CREATE INDEX operations_by_receipt ON indoubt.operations (receipt) WHERE receipt <> '';
-- Whose marks are to be made anew, because the policy's rules changed or the writer
-- made none. The condition holds for every row: it keeps this index out of plans
-- that ask for a kind and something rarer.
CREATE INDEX operations_by_mark_rules ON indoubt.operations (kind, mark_rules) WHERE mark_rules >= '';
-- Others on the same target; the one that was first sent later has overtaken this one.
CREATE INDEX operations_by_target ON indoubt.operations (target, indoubt.ms(started_at)) WHERE target <> '';
-- The settled list, newest change first.
CREATE INDEX operations_resolved ON indoubt.operations (indoubt.ms(updated_at)) WHERE resolved::int = 1;
-- What is in flight: by its deadline, and all that is counted of it.
CREATE INDEX operations_pending ON indoubt.operations (indoubt.ms(deadline_at), kind, attempt_count, indoubt.ms(started_at)) WHERE state = 'pending';
-- What landed by its own answer: what a check of its kind is known to be able to find.
CREATE INDEX operations_by_answer ON indoubt.operations (kind, indoubt.ms(settled_at)) WHERE state = 'committed' AND by_answer::int = 1 AND token_sent::int = 1;
-- Who waits for this.
CREATE INDEX operations_by_awaits ON indoubt.operations (scope, awaits) WHERE awaits <> '';

-- marks: the names under which an operation's effect may show. Who else may have
-- made an effect that is recognised by a name is found here.
CREATE TABLE indoubt.marks (
  value           text COLLATE "C" NOT NULL,
  operation_id    text COLLATE "C" NOT NULL,
  PRIMARY KEY (value, operation_id)
);

-- attempts: one row for each transmission of an operation.
CREATE TABLE indoubt.attempts (
  operation_id    text COLLATE "C" NOT NULL,
  n               bigint NOT NULL,                             -- 1 for the first
  id              text COLLATE "C" NOT NULL UNIQUE,
  basis           text COLLATE "C" NOT NULL DEFAULT '',        -- why it was allowed; '' for the first
  grant_id        text COLLATE "C" NOT NULL DEFAULT '',        -- the grant it consumed
  sender          text COLLATE "C" NOT NULL DEFAULT 'pipeline',
  key_works       boolean NOT NULL DEFAULT false,              -- the downstream treats a repeat under this key as the same request
  token_sent      boolean NOT NULL DEFAULT false,
  policy          bigint NOT NULL DEFAULT 0,                   -- number of the policy in force that it was begun under; 0: none was named
  actor           text COLLATE "C" NOT NULL DEFAULT '',
  host            text COLLATE "C" NOT NULL DEFAULT '',
  pid             bigint NOT NULL DEFAULT 0,
  started_at      timestamptz(3) NOT NULL,
  deadline_at     timestamptz(3) NOT NULL,
  -- How it ended. Written once.
  ended_at        timestamptz(3),
  outcome         text COLLATE "C" NOT NULL DEFAULT '',        -- '' while in flight
  proof           text COLLATE "C" NOT NULL DEFAULT '',        -- why it is known to have had no effect
  error_class     text COLLATE "C" NOT NULL DEFAULT '',
  error           text COLLATE "C" NOT NULL DEFAULT '',
  status          bigint NOT NULL DEFAULT 0,                   -- HTTP status or exit code; -1 when there was none
  receipt         text COLLATE "C" NOT NULL DEFAULT '',
  result          text COLLATE "C",
  effect_word     text COLLATE "C" NOT NULL DEFAULT '',
  already         boolean NOT NULL DEFAULT false,              -- the answer said that an earlier attempt's effect is there
  -- The one answer that may come after it had ended uncertain.
  late_outcome    text COLLATE "C" NOT NULL DEFAULT '',
  late_at         timestamptz(3),
  late_receipt    text COLLATE "C" NOT NULL DEFAULT '',
  -- Where its processes run, and whether one of them may still write.
  boot_id         text COLLATE "C" NOT NULL DEFAULT '',        -- of the running kernel; '' where unknown
  pid_ns          text COLLATE "C" NOT NULL DEFAULT '',        -- the process namespace that pid belongs to; '' where unknown
  uid             bigint NOT NULL DEFAULT 0,                   -- account whose processes they are; 0 where only root can tell
  tree            text COLLATE "C" NOT NULL DEFAULT '',        -- '' no command, 'open' not seen gone, 'empty' seen gone
  tree_at         timestamptz(3),                              -- when they were seen to be gone
  db_user         text COLLATE "C" NOT NULL DEFAULT session_user, -- who, as the database knows; leave it out

  PRIMARY KEY (operation_id, n)
) WITH (fillfactor = 80); -- no index has what its end changes, so it may stay in its place

-- reads: reconcile reads, with what they showed.
CREATE TABLE indoubt.reads (
  rowid           bigint NOT NULL,                             -- order of arrival; leave it out
  id              text COLLATE "C" PRIMARY KEY,
  operation_id    text COLLATE "C" NOT NULL,
  began_at        timestamptz(3) NOT NULL,
  ended_at        timestamptz(3) NOT NULL,
  verdict         text COLLATE "C" NOT NULL,
  cause           text COLLATE "C" NOT NULL DEFAULT '',        -- why it cannot tell, for programs
  reason          text COLLATE "C" NOT NULL DEFAULT '',
  found           bigint NOT NULL DEFAULT 0,
  receipts        text COLLATE "C" NOT NULL DEFAULT '[]',
  evidence        text COLLATE "C",                            -- JSON, redacted and bounded
  proof_at        timestamptz(3),                              -- when absence becomes provable
  digest          text COLLATE "C" NOT NULL DEFAULT '',        -- policy in force
  actor           text COLLATE "C" NOT NULL DEFAULT '',
  -- When it was written down by the clock that nobody sets: milliseconds since a boot, sleep
  -- included (CLOCK_BOOTTIME); and how many attempts were over then, from the first. What must
  -- have passed since the end of one must have passed since its first check of that boot too.
  seen_boot       text COLLATE "C" NOT NULL DEFAULT '',
  seen_steady     bigint NOT NULL DEFAULT 0,
  seen_over       bigint NOT NULL DEFAULT 0,

  CONSTRAINT read_is_numbered_from_1 CHECK (rowid > 0),
  CONSTRAINT read_verdict_is_known CHECK (verdict IN ('', 'landed', 'twice', 'different', 'not_there', 'not_seen', 'cannot_tell')),
  CONSTRAINT read_receipts_is_json CHECK (indoubt.json_kind(receipts) = 'array'),
  CONSTRAINT evidence_is_json      CHECK (indoubt.is_json(evidence)),
  CONSTRAINT read_times_are_in_range CHECK (least(began_at, ended_at) >= '2000-01-01Z' AND greatest(began_at, ended_at) <= '2100-01-01Z' AND proof_at >= '2000-01-01Z'),
  CONSTRAINT read_ends_after_it_began CHECK (ended_at >= began_at)
);

-- What counts in the outage of its time. What was imported ended at no time that is known.
CREATE INDEX attempts_lost ON indoubt.attempts (indoubt.ms(ended_at)) WHERE outcome IN ('uncertain', 'failed') AND sender <> 'import';

CREATE INDEX reads_by_operation ON indoubt.reads (operation_id, indoubt.ms(began_at));

-- grants: one-shot permissions for one more attempt. Final once consumed or void.
CREATE TABLE indoubt.grants (
  rowid           bigint NOT NULL,                             -- order of arrival; leave it out
  id              text COLLATE "C" PRIMARY KEY,
  operation_id    text COLLATE "C" NOT NULL,
  version         bigint NOT NULL,                             -- of the operation it is bound to
  basis           text COLLATE "C" NOT NULL,
  sender          text COLLATE "C" NOT NULL DEFAULT '',
  key_works       boolean NOT NULL DEFAULT false,
  actor           text COLLATE "C" NOT NULL,
  reason          text COLLATE "C" NOT NULL DEFAULT '',
  created_at      timestamptz(3) NOT NULL,
  expires_at      timestamptz(3) NOT NULL,
  related         text COLLATE "C" NOT NULL DEFAULT '[]',      -- JSON array: for a risk, later ones on its target that had landed or may have
  consumed_at     timestamptz(3),
  attempt_id      text COLLATE "C" NOT NULL DEFAULT '',        -- who consumed it
  voided_at       timestamptz(3),
  void_reason     text COLLATE "C" NOT NULL DEFAULT '',
  db_user         text COLLATE "C" NOT NULL DEFAULT session_user, -- who, as the database knows; leave it out

  CONSTRAINT grant_is_numbered_from_1 CHECK (rowid > 0),
  CONSTRAINT grant_related_is_json CHECK (indoubt.json_kind(related) = 'array'),
  CONSTRAINT grant_basis_is_known CHECK (basis IN ('proof', 'key_safe', 'not_seen', 'risk_accepted')),
  CONSTRAINT grant_is_consumed_or_void CHECK (consumed_at IS NULL OR voided_at IS NULL),
  CONSTRAINT grant_is_consumed_by_an_attempt CHECK ((consumed_at IS NULL) = (attempt_id = '')),
  CONSTRAINT grant_times_are_in_range CHECK (least(created_at, consumed_at, voided_at) >= '2000-01-01Z' AND greatest(created_at, consumed_at, voided_at) <= '2100-01-01Z' AND expires_at >= '2000-01-01Z')
);

CREATE INDEX grants_by_operation ON indoubt.grants (operation_id, indoubt.ms(created_at));

-- events: the history, and the feed that every console follows. seq only grows.
-- Events of an operation are appended by the database when change_id changes; an
-- event that moves nothing (a note, an adoption) may be inserted directly.
CREATE TABLE indoubt.events (
  seq             bigint PRIMARY KEY,                          -- leave it out
  id              text COLLATE "C" NOT NULL UNIQUE,            -- the change id
  operation_id    text COLLATE "C" NOT NULL DEFAULT '',        -- '' for holds and the ledger itself
  outage        text COLLATE "C" NOT NULL DEFAULT '',        -- that it is about
  run             text COLLATE "C" NOT NULL DEFAULT '',        -- that it is about: the id of the event with which that began
  at              timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  verb            text COLLATE "C" NOT NULL,
  actor           text COLLATE "C" NOT NULL,
  os_user         text COLLATE "C" NOT NULL DEFAULT '',
  host            text COLLATE "C" NOT NULL DEFAULT '',
  machine         boolean NOT NULL DEFAULT false,
  terminal        boolean NOT NULL DEFAULT false,
  reason          text COLLATE "C" NOT NULL DEFAULT '',
  from_state      text COLLATE "C" NOT NULL DEFAULT '',
  to_state        text COLLATE "C" NOT NULL DEFAULT '',
  version         bigint NOT NULL DEFAULT 0,
  detail          text COLLATE "C",
  conflict        text COLLATE "C" NOT NULL DEFAULT '',        -- the flag that this change raised
  doubt           text COLLATE "C",                            -- error class of the doubt that evidence ended; NULL: none was
  db_user         text COLLATE "C" NOT NULL DEFAULT session_user, -- who, as the database knows; leave it out
  xid             xid8 NOT NULL DEFAULT pg_current_xact_id() -- the transaction that told it; leave it out
);

CREATE INDEX events_by_outage ON indoubt.events (outage, seq) WHERE outage <> '';
-- When something last came into doubt.
CREATE INDEX events_doubts ON indoubt.events (seq) WHERE from_state = 'pending' AND to_state = 'uncertain';
-- What came into view since a snapshot.
CREATE INDEX events_by_xid ON indoubt.events (xid, seq);
-- Runs, and where each stands. Who decides about several operations leaves one event with the
-- set and all that was decided, and the id that the change of each of them will have.
CREATE INDEX events_of_runs ON indoubt.events (seq) WHERE run = id AND verb IN ('run', 'run_over');
CREATE INDEX events_by_run ON indoubt.events (run, seq) WHERE verb IN ('run', 'run_over');
CREATE INDEX events_of_policies ON indoubt.events (seq) WHERE verb = 'policy';
CREATE INDEX events_by_operation ON indoubt.events (operation_id, seq) WHERE operation_id <> '';

-- lead: which process checks and settles what, or drives a run: one for each scope. Leave it.
CREATE TABLE indoubt.lead (
  scope           text COLLATE "C" PRIMARY KEY,                -- downstream:NAME, kind:PATTERN, ledger, run:ID
  holder          text COLLATE "C" NOT NULL,
  rank            bigint NOT NULL,                             -- 1 a console, 2 an engine, which takes it from that
  since           timestamptz(3) NOT NULL,
  until           timestamptz(3) NOT NULL,                     -- after this it is free

  CONSTRAINT lead_times_are_in_range CHECK (least(since, until) >= '2000-01-01Z' AND greatest(since, until) <= '2100-01-01Z')
);

-- holds: what stops every repeat, grant and bulk run. scope is all,
-- kind:NAME or downstream:NAME; without until it lasts until released.
CREATE TABLE indoubt.holds (
  id              bigint PRIMARY KEY,                          -- leave it out
  scope           text COLLATE "C" NOT NULL,
  kinds           text COLLATE "C" NOT NULL DEFAULT '[]',      -- JSON: the kinds of a downstream
  actor           text COLLATE "C" NOT NULL,
  os_user         text COLLATE "C" NOT NULL DEFAULT '',
  host            text COLLATE "C" NOT NULL DEFAULT '',
  machine         boolean NOT NULL DEFAULT false,
  terminal        boolean NOT NULL DEFAULT false,
  reason          text COLLATE "C" NOT NULL,
  created_at      timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  until           timestamptz(3),
  change_id       text COLLATE "C" NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
  released_at     timestamptz(3),                              -- lifted, or replaced by a newer one
  db_user         text COLLATE "C" NOT NULL DEFAULT session_user, -- who, as the database knows; leave it out

  CONSTRAINT hold_scope_is_known CHECK (scope = 'all' OR scope LIKE 'kind:_%' OR scope LIKE 'downstream:_%'),
  CONSTRAINT hold_says_who_and_why CHECK (length(actor) > 0 AND length(btrim(reason)) > 0),
  CONSTRAINT hold_kinds_is_json CHECK (indoubt.json_kind(kinds) = 'array'),
  CONSTRAINT hold_is_numbered_from_1 CHECK (id > 0),
  CONSTRAINT hold_times_are_in_range CHECK (least(created_at, released_at) >= '2000-01-01Z' AND greatest(created_at, released_at) <= '2100-01-01Z' AND until >= '2000-01-01Z')
);

CREATE UNIQUE INDEX holds_in_force ON indoubt.holds (scope) WHERE indoubt.ms(released_at) = 0;

-- open_operations: the narrow list of everything that may still need a person. It
-- copies what lists are sorted, counted and filtered by, from operations and grants,
-- by triggers in the same transaction; the columns after grant_until are a cache of
-- what a policy says. What is in flight
-- for the first time joins it only when a policy has priced it, so that writes
-- which are answered at once cost it nothing. Read it, never write it.
CREATE TABLE indoubt.open_operations (
  seq             bigint PRIMARY KEY,                          -- of the operation
  class           text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE
    WHEN parked_until <> 0 OR grant_until <> 0     THEN 'moving'
    WHEN conflict <> ''                            THEN 'conflict'
    WHEN state = 'pending'                         THEN 'pending'
    WHEN state = 'uncertain' AND hands_off = 1     THEN 'decide'
    WHEN state = 'uncertain' AND ripe = 1          THEN 'ripe'
    WHEN state = 'uncertain'                       THEN 'reading'
    WHEN state = 'failed' AND doubted = 1          THEN 'not_landed'
    ELSE 'resolved' END) STORED,
  -- What a search for a word looks at, in lower case.
  search          text COLLATE "C" NOT NULL,
  kind            text COLLATE "C" NOT NULL,
  state           text COLLATE "C" NOT NULL,
  error_class     text COLLATE "C" NOT NULL,
  actor           text COLLATE "C" NOT NULL,
  conflict        text COLLATE "C" NOT NULL,
  doubted         bigint NOT NULL,
  hands_off       bigint NOT NULL,
  hands           text COLLATE "C" NOT NULL,
  parked_until    bigint NOT NULL,
  created_at      bigint NOT NULL,
  updated_at      bigint NOT NULL,
  deadline_at     bigint NOT NULL,
  doubted_at      bigint NOT NULL,
  recheck_at      bigint NOT NULL,
  granted_at      bigint NOT NULL,                             -- the grant that waits for its pipeline
  grant_until     bigint NOT NULL,
  -- What a policy says (a cache; digest '' when it is out of date).
  digest          text COLLATE "C" NOT NULL DEFAULT '',
  downstream      text COLLATE "C" NOT NULL DEFAULT '',
  priced_title    text COLLATE "C" NOT NULL DEFAULT '',
  priced_target   text COLLATE "C" NOT NULL DEFAULT '',
  duplicate_value double precision NOT NULL DEFAULT 0,
  duplicate_word  text COLLATE "C" NOT NULL DEFAULT '',
  duplicate_guess bigint NOT NULL DEFAULT 0,
  miss_value      double precision NOT NULL DEFAULT 0,
  miss_word       text COLLATE "C" NOT NULL DEFAULT '',
  miss_guess      bigint NOT NULL DEFAULT 0,
  odds            double precision NOT NULL DEFAULT 0,         -- chance that it landed
  rank            double precision NOT NULL DEFAULT 0,         -- what is lost if no one acts
  decide_at       bigint NOT NULL DEFAULT 0,                   -- from when it needs a person
  read_at         bigint NOT NULL DEFAULT 0,                   -- when the next read is due
  reads           bigint NOT NULL DEFAULT 0,
  ripe            bigint NOT NULL DEFAULT 1,                   -- decide_at had passed when an engine last looked
  -- Order by loss, ascending: conflicts (calm 0) first, then the dearest.
  calm            bigint GENERATED ALWAYS AS ((conflict = '')::int) STORED,
  loss_order      double precision GENERATED ALWAYS AS (-rank) STORED,
  -- The clock that moves rows of the classes ripe and reading between lists
  -- without a write; a reader compares it.
  clock_at        bigint GENERATED ALWAYS AS (CASE WHEN state = 'uncertain' THEN decide_at ELSE 0 END) STORED,

  CONSTRAINT list_flags_are_0_or_1 CHECK (duplicate_guess IN (0, 1) AND miss_guess IN (0, 1) AND ripe IN (0, 1)),
  CONSTRAINT amounts_can_be_summed CHECK (rank BETWEEN -1e15 AND 1e15 AND odds BETWEEN -1e15 AND 1e15
                                      AND duplicate_value BETWEEN -1e15 AND 1e15 AND miss_value BETWEEN -1e15 AND 1e15),
  CONSTRAINT list_times_are_in_milliseconds CHECK (
        (decide_at = 0 OR decide_at BETWEEN 946684800000 AND 253402300799999)
    AND (read_at = 0 OR read_at BETWEEN 946684800000 AND 253402300799999)),
  CONSTRAINT reads_count CHECK (reads BETWEEN 0 AND 1000000000)
);

CREATE INDEX open_by_loss   ON indoubt.open_operations (class, calm, loss_order, created_at);
CREATE INDEX open_by_class  ON indoubt.open_operations (class, state, conflict, miss_word, rank);
CREATE INDEX open_by_change ON indoubt.open_operations (class, updated_at);
CREATE INDEX open_by_age    ON indoubt.open_operations (class, seq);
CREATE INDEX open_by_clock  ON indoubt.open_operations (class, clock_at);
CREATE INDEX open_by_read   ON indoubt.open_operations (downstream, read_at) WHERE state = 'uncertain' OR recheck_at <> 0;
CREATE INDEX open_by_digest ON indoubt.open_operations (digest);
CREATE INDEX open_by_doubt  ON indoubt.open_operations (kind, doubted_at) WHERE state = 'uncertain';

-- total: sums of the history up to a place: how many operations of each kind are in each
-- state, and how the doubts of each kind and error class ended, where evidence ended them
-- and not a person. Who leads the ledger adds what came after it; totals in derived.sql has
-- the sums of now. Read that, and write neither.
CREATE TABLE indoubt.total (
  kind            text COLLATE "C" NOT NULL,                   -- '' of the place
  what            text COLLATE "C" NOT NULL,                   -- a state; landed, missed (known not to have landed); place
  class           text COLLATE "C" NOT NULL,                   -- error class of the doubt; of the place, the snapshot that shows its events
  n               bigint NOT NULL,
  PRIMARY KEY (kind, what, class)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- outages: bursts of errors on one downstream, or of one kind where no policy
-- names a downstream. Who leads the ledger opens them. What is in one is asked of the
-- attempts that ended in it.
CREATE TABLE indoubt.outages (
  id              text COLLATE "C" PRIMARY KEY,
  scope           text COLLATE "C" NOT NULL,                   -- downstream:NAME or kind:NAME
  kinds           text COLLATE "C" NOT NULL DEFAULT '[]',      -- JSON: of its errors
  pipelines       text COLLATE "C" NOT NULL DEFAULT '[]',      -- the first 20
  classes         text COLLATE "C" NOT NULL DEFAULT '[]',      -- error classes
  gap_ms          bigint NOT NULL,                             -- so long without a new error ends its growth
  opened_at       timestamptz(3) NOT NULL,                     -- when it was known to be one
  first_at        timestamptz(3) NOT NULL,                     -- first error
  last_at         timestamptz(3) NOT NULL,                     -- newest error
  answered_at     timestamptz(3),                              -- newest answer or valid read that was noted
  over_at         timestamptz(3),                              -- when it was seen to be over
  taken_by        text COLLATE "C" NOT NULL DEFAULT '',        -- who is on it; never a lock
  taken_until     timestamptz(3),

  CONSTRAINT outage_scope_is_known CHECK (scope LIKE 'kind:_%' OR scope LIKE 'downstream:_%'),
  CONSTRAINT outage_names_are_json CHECK (indoubt.json_kind(kinds) = 'array' AND indoubt.json_kind(pipelines) = 'array'
    AND indoubt.json_kind(classes) = 'array'),
  CONSTRAINT outage_has_a_gap CHECK (gap_ms BETWEEN 1 AND 31622400000),
  CONSTRAINT outage_times_are_in_range CHECK (least(opened_at, first_at, answered_at, over_at, taken_until, last_at) >= '2000-01-01Z' AND greatest(opened_at, first_at, answered_at, over_at, taken_until, last_at) <= '2100-01-01Z' AND last_at >= first_at)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX outages_by_scope ON indoubt.outages (scope, indoubt.ms(last_at));
CREATE INDEX outages_by_last ON indoubt.outages (indoubt.ms(last_at) DESC, id);
CREATE INDEX outages_growing ON indoubt.outages (indoubt.ms(last_at)) WHERE indoubt.ms(over_at) = 0;

-- The numbers of rows. Triggers give them out.
CREATE SEQUENCE indoubt.operations_seq OWNED BY indoubt.operations.seq;
CREATE SEQUENCE indoubt.reads_seq OWNED BY indoubt.reads.rowid;
CREATE SEQUENCE indoubt.grants_seq OWNED BY indoubt.grants.rowid;
CREATE SEQUENCE indoubt.events_seq OWNED BY indoubt.events.seq;
CREATE SEQUENCE indoubt.holds_seq OWNED BY indoubt.holds.id;

-- No statistics are kept of what people say and only people read: samples of it would stay in
-- pg_stats after it is redacted. What is compared has them; a redaction has them made anew.
ALTER TABLE indoubt.operations ALTER input SET STATISTICS 0, ALTER command SET STATISTICS 0, ALTER request SET STATISTICS 0,
  ALTER title SET STATISTICS 0, ALTER session SET STATISTICS 0, ALTER receipts SET STATISTICS 0,
  ALTER acked_receipts SET STATISTICS 0, ALTER claimed_receipts SET STATISTICS 0, ALTER result SET STATISTICS 0,
  ALTER conflict_note SET STATISTICS 0, ALTER reason SET STATISTICS 0, ALTER change_detail SET STATISTICS 0;
ALTER TABLE indoubt.attempts ALTER error SET STATISTICS 0, ALTER receipt SET STATISTICS 0, ALTER late_receipt SET STATISTICS 0,
  ALTER result SET STATISTICS 0;
ALTER TABLE indoubt.reads ALTER reason SET STATISTICS 0, ALTER receipts SET STATISTICS 0, ALTER evidence SET STATISTICS 0;
ALTER TABLE indoubt.grants ALTER reason SET STATISTICS 0, ALTER void_reason SET STATISTICS 0;
ALTER TABLE indoubt.events ALTER reason SET STATISTICS 0, ALTER detail SET STATISTICS 0;
ALTER TABLE indoubt.open_operations ALTER search SET STATISTICS 0, ALTER priced_title SET STATISTICS 0,
  ALTER priced_target SET STATISTICS 0;
