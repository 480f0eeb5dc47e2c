-- The ledger. Words in braces differ between the two databases; schema.go fills them in.
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL  -- id, created, moved_to (copied: begins are refused)
) {strict};

CREATE TABLE op (   -- where an operation stands. The columns from change_id on are its newest change, as it was written.
  seq          {number} PRIMARY KEY CHECK (seq > 0),
  id           TEXT NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 200),
  kind         TEXT NOT NULL CHECK (length(kind) BETWEEN 1 AND 200),
  scope        TEXT NOT NULL DEFAULT '',                  -- partitions names: a server, a credential's digest
  name         TEXT NOT NULL CHECK (length(trim(name)) > 0),   -- what names it: the caller's key, 'fields-…' or 'input-…'
  n            {int} NOT NULL DEFAULT 0,                   -- how many had this name before
  live         {int} NOT NULL DEFAULT 1 CHECK (live IN (0, 1)),   -- 0: it has given its name up, or was recorded beside one that has it
  key          TEXT NOT NULL DEFAULT '',                  -- what goes out as idempotency key, where that is not the name
  input        TEXT NOT NULL DEFAULT '',                  -- digest of what is asked for
  gate         TEXT NOT NULL DEFAULT '',                  -- keyed digest of where it goes, who counts and what: identical requests hold each other
  token        TEXT NOT NULL DEFAULT '',
  token_sent   {int} NOT NULL DEFAULT 0 CHECK (token_sent IN (0, 1)),
  mark         TEXT NOT NULL DEFAULT '',                  -- names under which its effect shows, each between line ends
  target       TEXT NOT NULL DEFAULT '',                  -- the thing acted on; where the kind names none, the request itself
  title        TEXT NOT NULL DEFAULT '',
  source       TEXT NOT NULL DEFAULT '',                  -- the pipeline
  created_at   {int} NOT NULL DEFAULT {now} CHECK (created_at BETWEEN 946684800000 AND 4102444800000),
  ttl_ms       {int} NOT NULL DEFAULT 0,
  state        TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'committed', 'failed', 'uncertain')),
  abandoned    {int} NOT NULL DEFAULT 0 CHECK (abandoned IN (0, 1)),   -- no one will send it any more; with committed: its effect was taken back
  version      {int} NOT NULL DEFAULT 1,
  attempt      {int} NOT NULL DEFAULT 1,                  -- how many there were; the newest is in flight while it is pending
  unproven     {int} NOT NULL DEFAULT 0 CHECK (unproven BETWEEN 0 AND attempt),  -- attempts that ended and may have acted
  allow_until  {int} NOT NULL DEFAULT 0,                  -- one more send is permitted until then,
  allowed_at   {int} NOT NULL DEFAULT 0,                  -- since then
  started_at   {int} NOT NULL DEFAULT {now},              -- of the first attempt
  begun_at     {int} NOT NULL DEFAULT {now},              -- of the newest attempt
  deadline_at  {int} NOT NULL,                            -- of the attempt in flight, else 0
  ended_at     {int} NOT NULL DEFAULT 0,                  -- the latest end of any attempt
  doubted      {int} NOT NULL DEFAULT 0 CHECK (doubted IN (0, 1)),
  doubted_at   {int} NOT NULL DEFAULT 0,
  settled_at   {int} NOT NULL DEFAULT 0,
  parked_until {int} NOT NULL DEFAULT 0,
  undelivered  {int} NOT NULL DEFAULT 0 CHECK (undelivered IN (0, 1)),
  awaits       TEXT NOT NULL DEFAULT '',                  -- where the rest of the answer is to be asked for
  class        TEXT NOT NULL DEFAULT '',                  -- of the newest answer that did not come
  verdict      TEXT NOT NULL DEFAULT '' CHECK (verdict IN ('', 'landed', 'twice', 'different', 'not_there')),
  conflict     TEXT NOT NULL DEFAULT '' CHECK (conflict IN ('', 'maybe_twice', 'different', 'disputed', 'twice')),
  person_only  {int} NOT NULL DEFAULT 0 CHECK (person_only IN (0, 1)),
  by_answer    {int} NOT NULL DEFAULT 0 CHECK (by_answer IN (0, 1)),   -- committed by its own answer
  effects      {int} NOT NULL DEFAULT 0,
  moved        {int} NOT NULL DEFAULT 0,                  -- ev.seq of the prune that names the file: events before it may be gone
  receipts     {json} NOT NULL DEFAULT '[]' {is json receipts},
  policy       TEXT NOT NULL DEFAULT '',                  -- from here on who leads writes: by which its price is,
  rank         {real} NOT NULL DEFAULT 0,                 -- what is lost if no one acts,
  by_word      {int} NOT NULL DEFAULT 0 CHECK (by_word IN (0, 1)),   -- or that a word says how much that is,
  person_at    {int} NOT NULL DEFAULT 0,                  -- and from when on it is left to a person
  change_id    TEXT NOT NULL DEFAULT {random},            -- '' once its event may be gone
  changed_at   {int} NOT NULL DEFAULT {now} CHECK (changed_at BETWEEN 946684800000 AND 4102444800000),
  actor        TEXT NOT NULL CHECK (actor <> ''),
  machine      {int} NOT NULL DEFAULT 1 CHECK (machine IN (0, 1)),
  verb         TEXT NOT NULL DEFAULT '',
  reason       TEXT NOT NULL DEFAULT '',
  about        TEXT NOT NULL DEFAULT '',                  -- run:ID where a bulk run made the change
  facts        {json} {is json facts},                    -- what changed, as rules read it; see ev
  payload      {json} {is json payload}
) {strict};
CREATE UNIQUE INDEX op_by_name ON op (name, scope, kind, (CASE live WHEN 1 THEN -1 ELSE n END));   -- one has a name
CREATE UNIQUE INDEX op_by_gate ON op (gate) WHERE gate <> '' AND state IN ('pending', 'uncertain') AND abandoned = 0;
CREATE INDEX op_pending ON op (deadline_at) WHERE state = 'pending';
-- What is open, in the order of its loss; with all that lists and counts ask, for the rows lie far apart.
CREATE INDEX op_open ON op ((CASE conflict WHEN '' THEN 1 ELSE 0 END), (-rank), seq, rank, by_word, person_at, state, abandoned, doubted, doubted_at, deadline_at, parked_until,
    allow_until, allowed_at, conflict, person_only, kind, created_at, changed_at{covers policy, class, source, id, name, title, target, receipts})
  WHERE abandoned = 0 AND (state = 'uncertain' OR state = 'failed' AND doubted = 1) OR conflict <> '' OR allow_until <> 0 OR parked_until <> 0;
CREATE INDEX op_changed ON op (changed_at, seq, state, abandoned, doubted, deadline_at, parked_until, allow_until, allowed_at, conflict, person_only, person_at)
  WHERE abandoned = 0 AND (state = 'uncertain' OR state = 'failed' AND doubted = 1) OR conflict <> '' OR allow_until <> 0 OR parked_until <> 0;
CREATE INDEX op_by_key ON op (key) WHERE key <> '';
CREATE INDEX op_by_token ON op (token) WHERE token <> '';
CREATE INDEX op_by_target ON op (target, started_at, seq) WHERE target <> '';
CREATE INDEX op_by_mark ON op (seq{covers mark}) WHERE mark <> '';
CREATE INDEX op_by_answer ON op (kind, settled_at) WHERE state = 'committed' AND abandoned = 0 AND by_answer = 1 AND token_sent = 1;
CREATE INDEX op_by_receipt ON op ((receipts ->> 0)) WHERE {text receipts} <> '[]';

CREATE TABLE ev (   -- what happened. facts are what rules read: what the event changed of attempt n, and under op, attempts, allowed and
  -- read what it changed of these; they stay. payload is what people read, with the same members; it and reason can be emptied.
  seq      {number} PRIMARY KEY CHECK (seq > 0),
  op       {int} NOT NULL DEFAULT 0,                      -- op.seq; 0: the ledger itself
  n        {int} NOT NULL DEFAULT 0,                      -- of the attempt it is about
  id       TEXT NOT NULL CHECK (id <> ''),
  at       {int} NOT NULL DEFAULT {now},
  verb     TEXT NOT NULL CHECK (verb <> ''),              -- look: a check that told nothing new, and no line of the history
  actor    TEXT NOT NULL CHECK (actor <> ''),
  machine  {int} NOT NULL DEFAULT 1 CHECK (machine IN (0, 1)),
  reason   TEXT NOT NULL DEFAULT '',
  before   TEXT NOT NULL DEFAULT '',                      -- the states; abandoned where that is set
  state    TEXT NOT NULL DEFAULT '',
  version  {int} NOT NULL DEFAULT 0,
  conflict TEXT NOT NULL DEFAULT '',                      -- raised by this change
  outcome  TEXT NOT NULL DEFAULT '',                      -- of attempt n, where the event ends it
  lost_at  {int} NOT NULL DEFAULT 0,                      -- when attempt n ended, where that counts in an outage
  about    TEXT NOT NULL DEFAULT '',                      -- outage:ID, run:ID, hold:SCOPE, file:NAME, policy, clock
  facts    {json} {is json facts},
  payload  {json} {is json payload}{place}
) {strict};
{by place}
CREATE UNIQUE INDEX ev_by_op ON ev (op, id);
CREATE INDEX ev_by_about ON ev (about, seq) WHERE about <> '';
CREATE INDEX ev_lost ON ev (lost_at, op) WHERE lost_at <> 0;
CREATE INDEX ev_by_attempt ON ev ((facts ->> 'id')) WHERE verb IN ('begin', 'retry');

-- price, outage and total are folded from the history, by whoever leads, and can be made again.
CREATE TABLE price (   -- what is open, ever was in doubt or is to be looked at again: what it costs, and when it is looked at
  op {int} PRIMARY KEY, downstream TEXT NOT NULL DEFAULT '', title TEXT NOT NULL DEFAULT '', target TEXT NOT NULL DEFAULT '',
  duplicate {real} NOT NULL DEFAULT 0, duplicate_word TEXT NOT NULL DEFAULT '', duplicate_guess {int} NOT NULL DEFAULT 0,
  miss {real} NOT NULL DEFAULT 0, miss_word TEXT NOT NULL DEFAULT '', miss_guess {int} NOT NULL DEFAULT 0,
  odds {real} NOT NULL DEFAULT 0,
  look_at {int} NOT NULL DEFAULT 0, looks {int} NOT NULL DEFAULT 0   -- a settled one is looked for then, too; 0: at once
) {strict};
CREATE INDEX price_by_look ON price (downstream, look_at, op);
CREATE TABLE outage (   -- a burst of lost answers on a downstream, or of a kind
  id TEXT PRIMARY KEY, scope TEXT NOT NULL, kinds {json} NOT NULL, pipelines {json} NOT NULL, classes {json} NOT NULL, gap_ms {int} NOT NULL,
  opened_at {int} NOT NULL, first_at {int} NOT NULL, last_at {int} NOT NULL, answered_at {int} NOT NULL DEFAULT 0, over_at {int} NOT NULL DEFAULT 0,
  taken_by TEXT NOT NULL DEFAULT '', taken_until {int} NOT NULL DEFAULT 0) {strict};
CREATE INDEX outage_by_last ON outage (last_at);
CREATE TABLE total (what TEXT PRIMARY KEY, n {int} NOT NULL  -- what: state or end of a doubt, kind, class; 'seq' is the event it has come to
) {strict};
CREATE TABLE hold (   -- what a person stopped: sends of a scope, and with begins first sends, too
  scope TEXT PRIMARY KEY, kinds {json} NOT NULL DEFAULT '[]', actor TEXT NOT NULL, reason TEXT NOT NULL CHECK (trim(reason) <> ''),
  begins {int} NOT NULL DEFAULT 0 CHECK (begins IN (0, 1)), created_at {int} NOT NULL, until {int} NOT NULL DEFAULT 0, change_id TEXT NOT NULL) {strict};
CREATE TABLE lead (   -- who checks a downstream, or drives a run, until when
  name TEXT PRIMARY KEY, holder TEXT NOT NULL, rank {int} NOT NULL, since {int} NOT NULL, until {int} NOT NULL) {strict};

-- The two views of a foreign writer.
CREATE VIEW intent (   -- INSERT before sending; key is op.name
  id, kind, key, input, target, title, token, source, actor, deadline_at) AS SELECT id, kind, key, payload, target, title, token, source, actor, deadline_at FROM op WHERE 1 = 0;
CREATE VIEW settle (   -- INSERT after the answer; attempt is the operation's id followed by .1
  attempt, outcome, proof, receipt, class, reason, actor, result) AS SELECT id, state, reason, reason, class, reason, actor, payload FROM op WHERE 1 = 0;

-- The guards. A rule refuses where its condition holds or is NULL; those below 'where' need not be asked where that is false. 'refuse' comes before the change, 'tell' after it, 'instead' makes it.
@refuse op INSERT
- the database numbers its rows: leave the number out
  {numbered NEW.seq}
- this ledger was moved: indoubt doctor says where
  EXISTS (SELECT 1 FROM {schema}meta WHERE name = 'moved_to')
- begins are held here: indoubt list says why
  EXISTS (SELECT 1 FROM {schema}hold h WHERE h.begins = 1 AND (h.scope IN ('all', 'kind:' || NEW.kind) OR replace({text h.kinds}, '"' || NEW.kind || '"', '') <> {text h.kinds}) AND (h.until = 0 OR h.until > {now})) AND NEW.machine = 1 AND NEW.started_at >= NEW.changed_at
- this operation is recorded already: operations are never replaced
  EXISTS (SELECT 1 FROM {schema}op o WHERE o.id = NEW.id)
- this key is in use by another operation of this kind and scope: look at what became of that one before you send
  EXISTS (SELECT 1 FROM {schema}op o WHERE o.name = NEW.name AND o.scope = NEW.scope AND o.kind = NEW.kind AND (o.n >= NEW.n OR o.live = 1 AND NEW.live = 1))
- the same request is in flight or in doubt under another key: look at what became of that one before you send
  EXISTS (SELECT 1 FROM {schema}op o WHERE o.gate = NEW.gate AND o.gate <> '' AND o.state IN ('pending', 'uncertain') AND o.abandoned = 0)
- an operation begins as pending: record it before you send, and settle it after
  (NEW.state, NEW.version, NEW.attempt, NEW.unproven, NEW.abandoned, NEW.conflict, NEW.verdict, NEW.effects, NEW.allow_until, NEW.moved, NEW.ended_at, NEW.doubted, NEW.settled_at, NEW.awaits, NEW.person_only, {text NEW.receipts}) IS DISTINCT FROM ('pending', 1, 1, 0, 0, '', '', 0, 0, 0, 0, 0, 0, '', 0, '[]') OR NEW.scope IS NULL OR NEW.n IS NULL OR NEW.live IS NULL OR NEW.change_id = '' OR coalesce(NEW.facts ->> 'outcome', NEW.facts ->> 'proof') IS NOT NULL
- deadline_at must come after created_at, in milliseconds, and within a year
  NEW.deadline_at <= NEW.created_at OR NEW.deadline_at > NEW.created_at + 31622400000
- this was begun under an older policy than the one in force: read that one, and ask again
  coalesce({int of NEW.facts ->> 'policy'}, 0) > 0 AND coalesce({int of NEW.facts ->> 'policy'}, 0) < coalesce((SELECT p.version FROM {schema}ev p WHERE p.about = 'policy' AND p.about <> '' ORDER BY p.seq DESC LIMIT 1), 0)
@refuse op UPDATE
- what an operation is never changes: id, kind, scope, name, key, n, input, token, source, created_at, ttl_ms
  (NEW.seq, NEW.id, NEW.kind, NEW.scope, NEW.n, NEW.input, NEW.token, NEW.source, NEW.created_at, NEW.ttl_ms) IS DISTINCT FROM (OLD.seq, OLD.id, OLD.kind, OLD.scope, OLD.n, OLD.input, OLD.token, OLD.source, OLD.created_at, OLD.ttl_ms) OR (NEW.name, NEW.key) IS DISTINCT FROM (OLD.name, OLD.key) AND NOT (NEW.verb = 'redact' AND NEW.change_id NOT IN (OLD.change_id, ''))
- gate, target and title are filled in once, or emptied; marks are added
  NEW.gate NOT IN (OLD.gate, '') OR (NEW.title <> OLD.title AND OLD.title <> '' OR NEW.target <> OLD.target AND OLD.target <> '' AND substr(OLD.target, 1, 8) <> 'request-' OR substr(NEW.mark, 1, length(OLD.mark)) <> OLD.mark) AND NOT (NEW.verb = 'redact' AND NEW.change_id NOT IN (OLD.change_id, ''))
- a change needs a new change_id, an actor and a reason, and version + 1
  (NEW.change_id IN (OLD.change_id, '') OR NEW.version <> OLD.version + 1 OR trim(NEW.reason) = '') AND (NEW.state, NEW.attempt, NEW.verdict, NEW.effects, NEW.conflict, NEW.person_only, NEW.unproven, NEW.allow_until, NEW.abandoned, NEW.gate, NEW.token_sent, {text NEW.receipts}) IS DISTINCT FROM (OLD.state, OLD.attempt, OLD.verdict, OLD.effects, OLD.conflict, OLD.person_only, OLD.unproven, OLD.allow_until, OLD.abandoned, OLD.gate, OLD.token_sent, {text OLD.receipts})
- without a new change_id nothing changes but a deadline, a delivery, what is filled in, a name that is given up, and the payload of what is moved
  NEW.change_id IN (OLD.change_id, '') AND ((NEW.version, NEW.allowed_at, NEW.started_at, NEW.begun_at, NEW.ended_at, NEW.doubted, NEW.doubted_at, NEW.settled_at, NEW.parked_until, NEW.awaits, NEW.class, NEW.by_answer, NEW.changed_at, NEW.actor, NEW.machine, NEW.verb, NEW.reason, NEW.about, {text NEW.facts}) IS DISTINCT FROM (OLD.version, OLD.allowed_at, OLD.started_at, OLD.begun_at, OLD.ended_at, OLD.doubted, OLD.doubted_at, OLD.settled_at, OLD.parked_until, OLD.awaits, OLD.class, OLD.by_answer, OLD.changed_at, OLD.actor, OLD.machine, OLD.verb, OLD.reason, OLD.about, {text OLD.facts}) OR NEW.moved = OLD.moved AND (NEW.change_id <> OLD.change_id OR {text NEW.payload} IS DISTINCT FROM {text OLD.payload}))
- what has ended stays so, what was in doubt was, and the deadline of an attempt in flight becomes no earlier, unless it waits for something else, and is within a year
  NEW.ended_at < OLD.ended_at OR NEW.doubted < OLD.doubted OR NEW.state = 'pending' AND OLD.state = 'pending' AND NEW.deadline_at < OLD.deadline_at AND NEW.awaits = OLD.awaits OR NEW.state = 'pending' AND NEW.deadline_at NOT BETWEEN 1 AND NEW.changed_at + 31622400000
- only what is settled and delivered is moved, once, to the file that a prune of this ledger names
  NEW.moved <> OLD.moved AND NOT (OLD.moved = 0 AND NEW.payload IS NULL AND NEW.change_id = '' AND (OLD.conflict, OLD.allow_until, OLD.undelivered) = ('', 0, 0) AND OLD.state IN ('committed', 'failed') AND EXISTS (SELECT 1 FROM {schema}ev p WHERE p.seq = NEW.moved AND p.op = 0 AND p.verb = 'prune' AND p.about LIKE 'file:_%'))
- a name is given up once, and only by an operation that is committed, failed or abandoned, or whose input alone named it
  NEW.live <> OLD.live AND (OLD.live = 0 OR NEW.state = 'pending' OR NEW.state = 'uncertain' AND NEW.abandoned = 0 AND NOT (OLD.state = 'pending' AND OLD.name LIKE 'input-%') OR NEW.conflict NOT IN ('', 'maybe_twice') AND NEW.verb <> 'settle')
where NEW.change_id NOT IN (OLD.change_id, '')
- a person redacts what is settled, for a reason, and leaves digests or nothing
  NEW.verb = 'redact' AND NEW.change_id NOT IN (OLD.change_id, '') AND (NEW.machine <> 0 OR trim(NEW.reason) = '' OR NEW.state <> OLD.state OR OLD.conflict <> '' OR OLD.state NOT IN ('committed', 'failed') AND OLD.abandoned = 0 OR NEW.name <> OLD.name AND (NEW.name NOT LIKE '[redacted hmac:%]' OR EXISTS (SELECT 1 FROM {schema}op o WHERE o.name = NEW.name AND o.scope = NEW.scope AND o.kind = NEW.kind AND o.n = NEW.n AND o.seq <> NEW.seq)) OR NEW.title NOT IN (OLD.title, '', '[redacted]'))
- an outcome, a proof and a basis are said by the change itself, of an attempt there is, a proof when it has ended: those of an earlier change count no more
  coalesce({int of NEW.facts ->> 'n'}, NEW.attempt) NOT BETWEEN CASE WHEN NEW.attempt > OLD.attempt THEN NEW.attempt ELSE 1 END AND NEW.attempt OR NEW.change_id NOT IN (OLD.change_id, '') AND {text NEW.facts} IS NOT DISTINCT FROM {text OLD.facts} AND coalesce(NEW.facts ->> 'outcome', NEW.facts ->> 'proof', NEW.facts ->> 'basis', '') <> '' OR NEW.change_id NOT IN (OLD.change_id, '') AND NEW.state = 'pending' AND coalesce({int of NEW.facts ->> 'n'}, NEW.attempt) = NEW.attempt AND coalesce(NEW.facts ->> 'proof', '') <> ''
- the version of an operation never goes back, and grows by one
  NEW.version IS NULL OR NEW.version NOT IN (OLD.version, OLD.version + 1)
- the state cannot change like this
  NEW.state <> OLD.state AND NOT (CASE OLD.state WHEN 'pending' THEN 1 = 1 WHEN 'uncertain' THEN 1 = 1 ELSE NEW.state = 'uncertain' AND NEW.machine = 0 AND NEW.verb = 'undo' AND NEW.person_only = 1 OR NEW.state = 'pending' AND OLD.state = 'failed' END) AND NOT (NEW.verb = 'ack' AND NEW.machine = 0 AND OLD.conflict <> '' AND NEW.conflict = '' AND NEW.state IN ('committed', 'failed') AND OLD.state <> 'pending')
- a person alone says that it did not land, without a proof, or after something said that it did
  OLD.state = 'uncertain' AND NEW.state = 'failed' AND NEW.machine <> 0 AND (OLD.person_only = 1 OR NEW.unproven > 0)
- the same request is in flight or in doubt under another key
  NEW.gate <> '' AND NEW.state IN ('pending', 'uncertain') AND NEW.abandoned = 0 AND (OLD.state NOT IN ('pending', 'uncertain') OR OLD.abandoned = 1) AND EXISTS (SELECT 1 FROM {schema}op o WHERE o.gate = NEW.gate AND o.gate <> '' AND o.state IN ('pending', 'uncertain') AND o.abandoned = 0 AND o.seq <> NEW.seq)
- only a person abandons, and takes that back, while nothing is in flight
  NEW.abandoned <> OLD.abandoned AND (NEW.machine <> 0 OR OLD.state NOT IN ('uncertain', 'failed') AND NEW.abandoned = 1 AND NOT (NEW.verb = 'ack' AND OLD.conflict <> '' AND OLD.state <> 'pending'))
- another attempt needs permission, or proof that every earlier attempt had no effect, or a kind that is safe to repeat
  NEW.attempt <> OLD.attempt AND NOT (NEW.attempt = OLD.attempt + 1 AND NEW.state = 'pending' AND OLD.state IN ('uncertain', 'failed') AND OLD.abandoned = 0 AND NEW.allow_until = 0 AND (OLD.allow_until > NEW.changed_at OR NEW.verb = 'retry' AND NEW.machine = 0 OR OLD.unproven = 0 AND OLD.person_only = 0 AND OLD.state = 'failed' OR coalesce(NEW.facts ->> 'basis', '') = 'key_safe' AND OLD.person_only = 0))
- this was begun under an older policy than the one in force: read that one, and ask again
  NEW.attempt <> OLD.attempt AND coalesce({int of NEW.facts ->> 'policy'}, 0) > 0 AND coalesce({int of NEW.facts ->> 'policy'}, 0) < coalesce((SELECT p.version FROM {schema}ev p WHERE p.about = 'policy' AND p.about <> '' ORDER BY p.seq DESC LIMIT 1), 0)
- an attempt is in flight only while the operation is pending, and that is not abandoned
  NEW.state = 'pending' AND (OLD.state <> 'pending' AND NEW.attempt = OLD.attempt OR NEW.abandoned = 1 OR NEW.unproven >= NEW.attempt)
- a permission is a person's, and for the version that was seen: any other change takes it back
  NEW.allow_until <> 0 AND NEW.version <> OLD.version AND (NEW.verb <> 'allow' OR NEW.machine <> 0)
- an earlier attempt of this operation is still unknown, so it cannot have failed as a whole: settle it as uncertain
  OLD.state = 'pending' AND NEW.state = 'failed' AND OLD.unproven > 0
- what ends the attempt in flight says its outcome, in facts, and nothing else does
  OLD.state = 'pending' AND NEW.state <> 'pending' AND (coalesce(NEW.facts ->> 'outcome', '') NOT IN ('committed', 'failed', 'uncertain') OR NEW.state = 'failed' AND NEW.facts ->> 'outcome' <> 'failed' OR NEW.state = 'uncertain' AND NEW.facts ->> 'outcome' = 'committed' OR coalesce({int of NEW.facts ->> 'n'}, OLD.attempt) <> OLD.attempt) OR (OLD.state <> 'pending' OR NEW.state = 'pending') AND NEW.change_id NOT IN (OLD.change_id, '') AND NEW.facts ->> 'outcome' IS NOT NULL
- an outcome that is not proven counts: unproven grows by one
  OLD.state = 'pending' AND NEW.state <> 'pending' AND (coalesce(NEW.facts ->> 'proof', '') NOT IN ('', 'never_sent', 'refused') OR NEW.facts ->> 'outcome' IS DISTINCT FROM 'committed' AND NEW.unproven <> OLD.unproven + CASE WHEN NEW.facts ->> 'outcome' = 'failed' AND coalesce(NEW.facts ->> 'proof', '') <> '' THEN 0 ELSE 1 END)
- unproven grows where an attempt ends, is answered late, or a person takes something back
  NEW.unproven > OLD.unproven AND NEW.machine <> 0 AND NOT (OLD.state = 'pending' AND NEW.state <> 'pending') AND coalesce(NEW.facts ->> 'late_outcome', '') <> 'committed'
- unproven shrinks only by a check, a person, or the proof of one attempt
  NEW.unproven < OLD.unproven AND NEW.machine <> 0 AND NEW.state <> 'committed' AND NOT (coalesce(NEW.facts ->> 'proof', '') = 'not_there' OR coalesce(NEW.facts ->> 'proof', '') IN ('never_sent', 'refused') AND NEW.unproven = OLD.unproven - 1)
- a proof that is said later counts: unproven shrinks by it, or is 0
  NEW.change_id NOT IN (OLD.change_id, '') AND coalesce(NEW.facts ->> 'proof', '') <> '' AND NOT (OLD.state = 'pending' AND NEW.state <> 'pending') AND NEW.unproven >= OLD.unproven AND NEW.unproven > 0
- what only a person settles stays that: person_only is never taken back
  NEW.person_only < OLD.person_only OR NEW.state = 'committed' AND OLD.state <> 'committed' AND NEW.person_only = 0
@refuse op DELETE
- operations are never deleted: indoubt prune moves what is settled to files
  1 = 1
@refuse ev INSERT
- the database numbers its rows: leave the number out
  {numbered NEW.seq}
- this change id is in the history already: the change was made before
  EXISTS (SELECT 1 FROM {schema}ev e WHERE e.op = NEW.op AND e.id = NEW.id)
- an event is of an operation that is here, or of the ledger (0); a change of state comes into the history because the operation changes: change that
  NOT EXISTS (SELECT 1 FROM {schema}op o WHERE o.seq = NEW.op AND (o.change_id = NEW.id OR NEW.before = NEW.state AND NEW.outcome = '' AND NEW.conflict = '' AND NEW.lost_at = 0 AND NEW.n BETWEEN 0 AND o.attempt AND coalesce(NEW.facts ->> 'gone', '["uid"]') = '["uid"]' AND NOT EXISTS (SELECT 1 FROM json_each(NEW.facts) f WHERE f.key NOT IN ('detail', 'gone', 'op', 'read', 'tree', 'tree_at', 'who')) AND NOT EXISTS (SELECT 1 FROM json_each(NEW.facts -> 'op') f WHERE f.key NOT IN ('hands', 'mark_rules')))) AND (NEW.op <> 0 OR NEW.before <> NEW.state OR NEW.outcome <> '' OR NEW.conflict <> '' OR NEW.lost_at <> 0)
- what is asked for is said when an operation begins: input, command and request never change
  NEW.op <> 0 AND NOT (NEW.before = '' AND NEW.state = 'pending') AND (coalesce(NEW.payload -> 'op' ->> 'input', '[redacted]') <> '[redacted]' OR coalesce(NEW.payload -> 'op' ->> 'command', NEW.payload -> 'op' ->> 'request') IS NOT NULL)
- a policy is put in force by a person, with its digest and files, under the next number
  (NEW.verb = 'policy' OR NEW.about = 'policy') AND NOT (NEW.op = 0 AND NEW.verb = 'policy' AND NEW.about = 'policy' AND NEW.machine = 0 AND NEW.facts -> 'detail' ->> 'digest' IS NOT NULL AND NEW.facts -> 'detail' ->> 'text' IS NOT NULL AND NEW.version = 1 + coalesce((SELECT p.version FROM {schema}ev p WHERE p.about = 'policy' AND p.about <> '' ORDER BY p.seq DESC LIMIT 1), 0))
- what this policy says proves nothing: another one is in force
  coalesce(NEW.facts -> 'read' ->> 'verdict', '') = 'not_there' AND coalesce(NEW.facts -> 'read' ->> 'digest', '') <> coalesce((SELECT p.facts -> 'detail' ->> 'digest' FROM {schema}ev p WHERE p.about = 'policy' AND p.about <> '' ORDER BY p.seq DESC LIMIT 1), NEW.facts -> 'read' ->> 'digest', '')
@refuse ev UPDATE
- the history never changes, but for text that a person takes out: of an operation that is redacted, of its runs and outages
  (NEW.seq, NEW.op, NEW.n, NEW.id, NEW.at, NEW.verb, NEW.actor, NEW.machine, NEW.before, NEW.state, NEW.version, NEW.conflict, NEW.outcome, NEW.lost_at, NEW.about, {text NEW.facts}) IS DISTINCT FROM (OLD.seq, OLD.op, OLD.n, OLD.id, OLD.at, OLD.verb, OLD.actor, OLD.machine, OLD.before, OLD.state, OLD.version, OLD.conflict, OLD.outcome, OLD.lost_at, OLD.about, {text OLD.facts}) OR NEW.payload IS NOT NULL OR NEW.reason NOT IN (OLD.reason, '[redacted]') OR NOT EXISTS (SELECT 1 FROM {schema}op o WHERE o.seq = OLD.op AND o.verb = 'redact' AND o.machine = 0 AND o.change_id <> OLD.id) AND NOT (OLD.op = 0 AND EXISTS (SELECT 1 FROM {schema}ev r JOIN {schema}op o ON o.seq = r.op AND o.change_id = r.id WHERE r.seq = (SELECT n.seq FROM {schema}ev n WHERE n.seq > OLD.seq AND n.op <> 0 AND n.verb = 'redact' AND n.machine = 0 ORDER BY n.seq DESC LIMIT 1) AND (EXISTS (SELECT 1 FROM {schema}ev b WHERE b.about = OLD.about AND b.about LIKE 'run:_%' AND b.op = 0 AND b.verb = 'run' AND {text b.facts} LIKE '%"' || o.id || '"%') OR EXISTS (SELECT 1 FROM {schema}outage g WHERE 'outage:' || g.id = OLD.about AND o.ended_at >= g.first_at AND o.created_at <= g.last_at + g.gap_ms))))
@refuse ev DELETE
- the history is never deleted, but for what was moved to a file
  NOT EXISTS (SELECT 1 FROM {schema}op o WHERE o.seq = OLD.op AND o.moved > OLD.seq)
@tell op INSERT
  INSERT INTO {schema}ev (op, n, id, at, verb, actor, machine, reason, state, version, about, facts, payload)
  VALUES (NEW.seq, 1, NEW.change_id, NEW.changed_at, 'begin', NEW.actor, NEW.machine, NEW.reason, 'pending', 1, NEW.about, NEW.facts, NEW.payload)
@tell op UPDATE NEW.change_id NOT IN (OLD.change_id, '')
  INSERT INTO {schema}ev (op, n, id, at, verb, actor, machine, reason, before, state, version, conflict, outcome, lost_at, about, facts, payload)
  VALUES (NEW.seq, coalesce({int of NEW.facts ->> 'n'}, NEW.attempt), NEW.change_id, NEW.changed_at,
          CASE WHEN NEW.verb <> '' THEN NEW.verb WHEN OLD.state = 'pending' THEN 'settle' ELSE 'set' END,
          NEW.actor, NEW.machine, NEW.reason, CASE OLD.abandoned WHEN 1 THEN 'abandoned' ELSE OLD.state END, CASE NEW.abandoned WHEN 1 THEN 'abandoned' ELSE NEW.state END,
          NEW.version, CASE WHEN NEW.conflict <> OLD.conflict OR NEW.facts ->> 'raised' IS NOT NULL THEN NEW.conflict ELSE '' END,
          coalesce(NEW.facts ->> 'outcome', ''), coalesce({int of NEW.facts ->> 'lost_at'}, 0), NEW.about, NEW.facts, NEW.payload)
@instead intent
- checks and clock are names of indoubt itself: sign with another one
  lower(trim(coalesce(NEW.actor, ''))) IN ('checks', 'clock')
- this ledger was adopted, and may have lost that this was sent: look at the other side, then release KIND --look-first 0
  EXISTS (SELECT 1 FROM {schema}hold h WHERE h.scope = 'look' AND (h.until = 0 OR h.until > {now}) AND replace({text h.kinds}, '"' || NEW.kind || '"', '') = {text h.kinds})
! INSERT INTO {schema}op (id, kind, name, n, payload, target, title, token, token_sent, source, actor, deadline_at, reason, facts)
  VALUES (NEW.id, NEW.kind, NEW.key, (SELECT coalesce(max(o.n), -1) + 1 FROM {schema}op o WHERE o.name = NEW.key AND o.scope = '' AND o.kind = NEW.kind), CASE WHEN NEW.input IS NOT NULL THEN {object 'op', {object 'input', NEW.input}} END, coalesce(NEW.target, ''), coalesce(NEW.title, ''),
          coalesce(NEW.token, ''), CASE WHEN coalesce(NEW.token, '') = '' THEN 0 ELSE 1 END, coalesce(NEW.source, {who NEW.actor}), {who NEW.actor}, coalesce(NEW.deadline_at, {now} + 60000), 'attempt 1', {object 'sender', 'sql'})
@instead settle
- checks and clock are names of indoubt itself: sign with another one
  lower(trim(coalesce(NEW.actor, ''))) IN ('checks', 'clock')
- no first attempt of this operation is in flight: indoubt settle ID.N records what comes late
  coalesce(NEW.attempt, '') NOT LIKE '_%.1' OR NOT EXISTS (SELECT 1 FROM {schema}op o WHERE o.id = substr(NEW.attempt, 1, length(NEW.attempt) - 2) AND o.state = 'pending' AND o.attempt = 1)
- outcome is committed, failed or uncertain; proof is never_sent or refused, and goes with failed
  coalesce(NEW.outcome, '') NOT IN ('committed', 'failed', 'uncertain') OR coalesce(NEW.proof, '') NOT IN ('', 'never_sent', 'refused') OR coalesce(NEW.proof, '') <> '' AND NEW.outcome <> 'failed'
! UPDATE {schema}op SET state = NEW.outcome, version = version + 1, change_id = {random}, changed_at = {now}, ended_at = {now}, deadline_at = 0, settled_at = CASE WHEN NEW.outcome = 'uncertain' THEN 0 ELSE {now} END,
    actor = coalesce({who NEW.actor}, actor), machine = 1, verb = 'settle', reason = coalesce(nullif(trim(NEW.reason), ''), NEW.outcome), person_only = CASE WHEN NEW.outcome = 'committed' THEN 1 ELSE person_only END,
    by_answer = CASE WHEN NEW.outcome = 'committed' THEN 1 ELSE 0 END, unproven = unproven + CASE WHEN coalesce(NEW.proof, '') = '' THEN 1 ELSE 0 END,
    doubted = CASE WHEN NEW.outcome = 'uncertain' OR deadline_at < {now} THEN 1 ELSE doubted END, doubted_at = CASE WHEN NEW.outcome = 'uncertain' OR deadline_at < {now} THEN {now} ELSE doubted_at END, class = CASE WHEN NEW.outcome = 'uncertain' THEN coalesce(NEW.class, '') ELSE class END,
    effects = CASE WHEN NEW.outcome = 'committed' THEN 1 ELSE 0 END, receipts = CASE WHEN coalesce(NEW.receipt, '') = '' THEN receipts ELSE {array NEW.receipt} END,
    facts = {object 'outcome', NEW.outcome, 'proof', coalesce(NEW.proof, ''), 'error_class', coalesce(NEW.class, ''), 'lost_at', CASE WHEN NEW.outcome = 'committed' THEN 0 ELSE {now} END},
    payload = CASE WHEN NEW.result IS NOT NULL THEN {object 'receipt', coalesce(NEW.receipt, ''), 'result', NEW.result, 'op', {object 'result', NEW.result}} ELSE {object 'receipt', coalesce(NEW.receipt, '')} END
   WHERE id = substr(NEW.attempt, 1, length(NEW.attempt) - 2) AND attempt = 1 AND state = 'pending'
