-- The guards of the ledger: what its tables refuse, and what the database writes
-- by itself when one of them changes; for the list and the sums see derived.sql.
--
-- Three things hold in every guard below.
--
-- OR REPLACE puts a column's default where a NULL was given, and does so only after
-- the guards have run. A comparison with NULL refuses nothing, so guards compare
-- with IS NOT, or refuse the NULL first: max(…) is NULL if one of its values is.
--
-- A number that a writer chose for itself could lie below 1, where two rows meet, or
-- near the largest, after which none follows: it is refused here, and a CHECK refuses
-- what lies below 1, which cannot be told here from a number left out.
--
-- A writer whose change_of equals its change_id keeps the whole record itself, as
-- indoubt does: version, attempts and times are its own. Every other one is
-- completed, whatever columns it wrote.

-- ── What operations refuse ───────────────────────────────────────────────────

CREATE TRIGGER operations_guard_insert BEFORE INSERT ON operations
BEGIN
  SELECT RAISE(ABORT, 'the database numbers its rows: leave the number out')
   WHERE NEW.seq > 0;
  SELECT RAISE(ABORT, 'a column that cannot be NULL cannot be set to NULL')
   WHERE max(NEW.scope, NEW.gate, NEW.key_live, NEW.state, NEW.conflict, NEW.parked_until, NEW.recheck_at, NEW.version, NEW.verdict,
             NEW.effects, NEW.awaits, NEW.created_at, NEW.live_attempt, NEW.attempt_count, NEW.change_id, NEW.change_of, NEW.machine) IS NULL;
  SELECT RAISE(ABORT, 'this operation is recorded already: operations are never replaced')
   WHERE EXISTS (SELECT 1 FROM operations WHERE id = NEW.id);
  SELECT RAISE(ABORT, 'this key is in use by another operation of this kind and scope: look at what became of that one before you send')
   WHERE NEW.key_live = 1
     AND EXISTS (SELECT 1 FROM operations WHERE scope = NEW.scope AND kind = NEW.kind AND key = NEW.key AND key_live = 1);
  SELECT RAISE(ABORT, 'the same request is in flight or in doubt under another key: look at what became of that one before you send')
   WHERE NEW.gate <> '' AND EXISTS (SELECT 1 FROM operations WHERE gate = NEW.gate AND state IN ('pending', 'uncertain'));
  SELECT RAISE(ABORT, 'an operation begins as pending: record it before you send, and its outcome with an UPDATE')
   WHERE NEW.state <> 'pending' OR NEW.conflict <> '' OR NEW.parked_until <> 0 OR NEW.recheck_at <> 0
      OR NEW.version <> 1 OR NEW.fact <> '' OR NEW.verdict <> '' OR NEW.effects <> 0 OR NEW.awaits <> '' OR NEW.redacted_at <> 0
      OR NEW.change_verb NOT IN ('', 'begin')
      -- it is recorded with its outcome, beside the one that has its key meanwhile
      OR NEW.key_live <> 1 AND NOT (NEW.change_of = NEW.change_id AND NEW.change_verb IS 'begin'
         AND EXISTS (SELECT 1 FROM operations WHERE scope = NEW.scope AND kind = NEW.kind AND key = NEW.key AND key_live = 1));
  SELECT RAISE(ABORT, 'the database records the first attempt: leave live_attempt and attempt_count out')
   WHERE (NEW.live_attempt <> '' OR NEW.attempt_count <> 0) AND NEW.change_of <> NEW.change_id;
  SELECT RAISE(ABORT, 'deadline_at must come after created_at, in milliseconds, and within a year')
   WHERE NEW.deadline_at <= NEW.created_at OR NEW.deadline_at > NEW.created_at + 31622400000;
  SELECT RAISE(ABORT, 'checks and clock are names of indoubt itself: sign with another one')
   WHERE (NEW.machine = 0 OR NEW.change_of <> NEW.change_id) AND (lower(trim(NEW.actor)) IN ('checks', 'clock') OR lower(trim(NEW.actor)) LIKE 'checks,%');
END;

-- Guards that speak of columns which most updates leave alone fire only where
-- those are set. seq has other names (rowid), so its guard fires always.
CREATE TRIGGER operations_guard_identity
BEFORE UPDATE OF id, kind, scope, key, sent_key, gate, token, fingerprint, input, command, redacted, created_at, source, source_run, source_host, source_pid, trace, session, request, redacted_at, redacted_by
ON operations
BEGIN
  SELECT RAISE(ABORT, 'id, kind, scope, key, token, fingerprint, input, source and created_at of an operation never change')
   WHERE NEW.id IS NOT OLD.id OR NEW.kind IS NOT OLD.kind OR NEW.scope IS NOT OLD.scope
      OR NEW.gate IS NOT OLD.gate AND NEW.gate IS NOT ''
      OR NEW.token IS NOT OLD.token OR NEW.fingerprint IS NOT OLD.fingerprint OR NEW.created_at IS NOT OLD.created_at
      OR NEW.source IS NOT OLD.source OR NEW.source_run IS NOT OLD.source_run OR NEW.source_host IS NOT OLD.source_host
      OR NEW.source_pid IS NOT OLD.source_pid OR NEW.trace IS NOT OLD.trace
      OR NEW.change_verb IS NOT 'redact'
         AND (NEW.key, NEW.sent_key, NEW.input, NEW.command, NEW.redacted, NEW.session, NEW.request) IS NOT (OLD.key, OLD.sent_key, OLD.input, OLD.command, OLD.redacted, OLD.session, OLD.request);
  -- The one way to take text out: what belongs to an operation whose newest change this is may then lose its text, too.
  SELECT RAISE(ABORT, 'a person redacts an operation that is settled and not in conflict, with a reason, and what it says becomes [redacted] and nothing else')
   WHERE (NEW.key, NEW.sent_key, NEW.input, NEW.command, NEW.redacted, NEW.session, NEW.request, NEW.redacted_at, NEW.redacted_by)
         IS NOT (OLD.key, OLD.sent_key, OLD.input, OLD.command, OLD.redacted, OLD.session, OLD.request, OLD.redacted_at, OLD.redacted_by)
     AND ((NEW.change_verb, NEW.change_of, NEW.machine, NEW.redacted_at, NEW.redacted_by, NEW.redacted, NEW.state, NEW.conflict, NEW.command, NEW.request, NEW.result)
           IS NOT ('redact', NEW.change_id, 0, NEW.updated_at, NEW.actor, 1, OLD.state, '', NULL, NULL, NULL)
       OR NEW.change_id IS OLD.change_id OR trim(coalesce(NEW.reason, '')) = '' OR OLD.conflict <> '' OR OLD.state IN ('pending', 'uncertain')
       OR NEW.input IS NOT CASE WHEN OLD.input IS NULL THEN NULL ELSE '"[redacted]"' END
       OR NEW.sent_key IS NOT OLD.sent_key AND NEW.sent_key IS NOT ''
       OR NEW.session IS NOT CASE OLD.session WHEN '' THEN '' ELSE '[redacted]' END
       OR NEW.key IS NOT OLD.key AND (length(NEW.key), substr(NEW.key, 1, 17), substr(NEW.key, 18) GLOB '*[^0-9a-f]?*', substr(NEW.key, 82)) IS NOT (82, '[redacted sha256:', 0, ']'));
END;

CREATE TRIGGER operations_guard_key BEFORE UPDATE OF key_live ON operations
BEGIN
  SELECT RAISE(ABORT, 'a key is given up once, and only by an operation that is committed, failed or abandoned')
   WHERE NEW.key_live IS NOT OLD.key_live AND (OLD.key_live = 0 OR OLD.state IN ('pending', 'uncertain')
     -- an answer that proves nothing holds back nothing that is named by its input alone
     AND NOT (OLD.state = 'pending' AND NEW.state IS 'uncertain' AND NEW.gate IS '' AND substr(OLD.key, 1, 6) = 'input-'));
END;

CREATE TRIGGER operations_guard_update BEFORE UPDATE ON operations
BEGIN
  SELECT RAISE(ABORT, 'a column that cannot be NULL cannot be set to NULL')
   WHERE max(NEW.state, NEW.version, NEW.verdict, NEW.effects, NEW.conflict, NEW.hands_off, NEW.live_attempt, NEW.attempt_count,
             NEW.awaits, NEW.undelivered, NEW.doubted, NEW.doubted_at, NEW.started_at, NEW.ended_at, NEW.deadline_at,
             NEW.change_id, NEW.change_of, NEW.machine) IS NULL;
  SELECT RAISE(ABORT, 'seq of an operation never changes')
   WHERE NEW.seq IS NOT OLD.seq;
  SELECT RAISE(ABORT, 'the state cannot change like this: pending leads to committed, failed or uncertain; uncertain to committed, failed, pending or abandoned; failed to pending, abandoned or uncertain; committed only to uncertain; abandoned, by an undo, to what it was; a person who deals with a conflict settles it')
   WHERE NEW.state <> OLD.state
     AND NOT (OLD.conflict <> '' AND NEW.conflict = '' AND NEW.state <> 'uncertain' AND NEW.state <> 'pending' AND OLD.state <> 'pending'
          AND NEW.change_verb = 'ack' AND NEW.change_of = NEW.change_id AND NEW.change_id <> OLD.change_id AND NEW.machine = 0)
     AND NOT CASE OLD.state
       WHEN 'pending' THEN NEW.state = 'committed' OR NEW.state = 'failed' OR NEW.state = 'uncertain'
       WHEN 'uncertain' THEN NEW.state = 'committed' OR NEW.state = 'failed' OR NEW.state = 'pending' OR NEW.state = 'abandoned'
       WHEN 'failed' THEN NEW.state = 'pending' OR NEW.state = 'abandoned' OR NEW.state = 'uncertain'
       ELSE NEW.state = 'uncertain' OR OLD.state = 'abandoned' AND NEW.state = OLD.fact AND NEW.change_verb = 'undo' AND NEW.change_of = NEW.change_id AND NEW.machine = 0 END;
  SELECT RAISE(ABORT, 'fact is what is known of an abandoned operation: the state that it had, or failed once every attempt of it is proven')
   WHERE (NEW.fact <> OLD.fact OR NEW.state <> OLD.state AND 'abandoned' IN (NEW.state, OLD.state))
     AND NOT CASE
       WHEN NEW.change_of <> NEW.change_id OR NEW.change_id = OLD.change_id -- another writer names none: the database does, below
         THEN NEW.fact = OLD.fact OR NEW.fact = '' AND NEW.state <> 'abandoned' OR OLD.fact = '' AND 'abandoned' = NEW.state AND 'abandoned' = OLD.state
       WHEN NEW.state <> 'abandoned' OR NEW.change_verb = 'ack' THEN NEW.fact = ''
       WHEN OLD.state <> 'abandoned' THEN NEW.fact = OLD.state
       ELSE OLD.fact = 'uncertain' AND NEW.fact = 'failed' END;
  SELECT RAISE(ABORT, 'a change of state needs a new change_id, an actor and a reason that is not empty')
   WHERE NEW.state <> OLD.state AND (NEW.change_id = OLD.change_id OR coalesce(NEW.actor, '') = '' OR trim(coalesce(NEW.reason, '')) = '');
  SELECT RAISE(ABORT, 'checks and clock are names of indoubt itself: sign with another one')
   WHERE (NEW.change_id <> OLD.change_id AND (NEW.machine = 0 OR NEW.change_of <> NEW.change_id)
       OR NEW.change_id = OLD.change_id AND NEW.actor IS NOT OLD.actor)
     AND (lower(trim(NEW.actor)) IN ('checks', 'clock') OR lower(trim(NEW.actor)) LIKE 'checks,%');
  -- A recorder repeats what it sent itself, under a key that the other side remembers.
  SELECT RAISE(ABORT, 'another send is allowed by a person, and by no machine')
   WHERE NEW.change_id <> OLD.change_id AND NEW.machine = 1
     AND (NEW.change_verb IN ('grant', 'retry') OR NEW.state = 'pending' AND OLD.state <> 'pending' AND EXISTS (
           SELECT 1 FROM grants WHERE operation_id = NEW.id AND attempt_id = NEW.live_attempt AND version > OLD.version AND (basis <> 'key_safe' OR key_works = 0)));
  SELECT RAISE(ABORT, 'the version of an operation never goes back, and grows by one')
   WHERE NEW.version NOT IN (OLD.version, OLD.version + 1);
  SELECT RAISE(ABORT, 'version must grow with every change of attempt, verdict, effects, conflict or hands_off')
   WHERE NEW.version = OLD.version AND NEW.state = OLD.state AND OLD.attempt_count > 0
     AND (NEW.live_attempt <> OLD.live_attempt OR NEW.verdict <> OLD.verdict
       OR NEW.effects <> OLD.effects OR NEW.conflict <> OLD.conflict OR NEW.hands_off <> OLD.hands_off);
  SELECT RAISE(ABORT, 'a change of verdict or conflict is in the history: it needs a new change_id')
   WHERE (NEW.verdict <> OLD.verdict OR NEW.conflict <> OLD.conflict) AND NEW.change_id = OLD.change_id;
  SELECT RAISE(ABORT, 'what only a person settles stays that: hands_off is never taken back')
   WHERE NEW.hands_off < OLD.hands_off;
  SELECT RAISE(ABORT, 'the same request is in flight or in doubt under another key: look at what became of that one before you send')
   WHERE NEW.gate <> '' AND NEW.state IN ('pending', 'uncertain') AND OLD.state NOT IN ('pending', 'uncertain')
     AND EXISTS (SELECT 1 FROM operations WHERE gate = NEW.gate AND state IN ('pending', 'uncertain'));
  SELECT RAISE(ABORT, 'another attempt needs its own id in live_attempt and one more in attempt_count, and is recorded by indoubt: use indoubt retry, or begin with the same key')
   WHERE NEW.state = 'pending' AND OLD.state <> 'pending'
     AND (NEW.live_attempt = '' OR NEW.attempt_count <> OLD.attempt_count + 1 OR NEW.change_of <> NEW.change_id
       OR EXISTS (SELECT 1 FROM attempts WHERE id = NEW.live_attempt));
  SELECT RAISE(ABORT, 'attempts are counted, and the one in flight is named, when they begin and end')
   WHERE NEW.attempt_count <> OLD.attempt_count AND OLD.attempt_count > 0 AND (NEW.state <> 'pending' OR OLD.state = 'pending')
      OR NEW.live_attempt <> OLD.live_attempt AND OLD.attempt_count > 0
         AND NOT (NEW.state <> 'pending' AND NEW.live_attempt = '' OR NEW.state = 'pending' AND OLD.state <> 'pending');
  SELECT RAISE(ABORT, 'another attempt needs a grant, or proof that every earlier attempt had no effect')
   WHERE NEW.state = 'pending' AND OLD.state <> 'pending'
     AND NOT EXISTS (SELECT 1 FROM grants WHERE operation_id = NEW.id AND attempt_id = NEW.live_attempt)
     AND (OLD.hands_off = 1 OR OLD.attempt_count > (
           SELECT count(*) FROM attempts
            WHERE operation_id = NEW.id AND (proof = 'not_there' OR proof <> '' AND (outcome = 'failed' OR late_outcome = 'failed'))));
  -- A pattern of a hold has one special sign, *.
  SELECT RAISE(ABORT, 'a hold stops every attempt but the first')
   WHERE NEW.state = 'pending' AND OLD.state <> 'pending' AND EXISTS (
           SELECT 1 FROM holds h WHERE h.released_at = 0 AND (h.until = 0 OR h.until >= NEW.updated_at)
              AND (h.scope = 'all' OR EXISTS (
                    SELECT 1 FROM (SELECT substr(h.scope, 6) AS name WHERE h.scope LIKE 'kind:%' UNION ALL SELECT value FROM json_each(h.kinds)) k
                     WHERE k.name = NEW.kind OR instr(k.name, '*') AND NEW.kind GLOB replace(replace(k.name, '[', '[[]'), '?', '[?]'))));
  SELECT RAISE(ABORT, 'this grant is void: another operation on its target was begun since')
   WHERE NEW.state = 'pending' AND OLD.state <> 'pending' AND NEW.target <> '' AND EXISTS (
           SELECT 1 FROM grants g JOIN operations p ON p.target = NEW.target AND p.created_at > g.created_at AND (p.started_at, p.seq) > (NEW.started_at, NEW.seq)
            WHERE g.operation_id = NEW.id AND g.attempt_id = NEW.live_attempt);
  SELECT RAISE(ABORT, 'what was in doubt stays known as that, and the end of an attempt and a doubt never become earlier')
   WHERE NEW.doubted < OLD.doubted OR NEW.ended_at < OLD.ended_at
      OR NEW.started_at <> OLD.started_at AND OLD.started_at <> 0
      OR NEW.doubted_at < OLD.doubted_at AND (NEW.change_id = OLD.change_id OR NEW.change_of <> NEW.change_id);
  SELECT RAISE(ABORT, 'the end of an attempt and a doubt do not lie in the future')
   WHERE (NEW.change_id = OLD.change_id OR NEW.change_of <> NEW.change_id)
     AND (NEW.doubted_at > max(OLD.doubted_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER))
       OR NEW.ended_at > max(OLD.ended_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)));
  SELECT RAISE(ABORT, 'the deadline of an attempt in flight does not become earlier')
   WHERE NEW.deadline_at < OLD.deadline_at AND NEW.state = 'pending' AND OLD.state = 'pending'
     AND (NEW.change_id = OLD.change_id OR NEW.change_of <> NEW.change_id);
  SELECT RAISE(ABORT, 'only an operation in flight waits for the rest of its answer, and says so with a new change_id, an actor and a reason')
   WHERE NEW.awaits <> OLD.awaits AND NEW.awaits <> ''
     AND (NEW.state <> 'pending' OR NEW.change_id = OLD.change_id OR coalesce(NEW.actor, '') = '' OR trim(coalesce(NEW.reason, '')) = '');
  SELECT RAISE(ABORT, 'an answer that was delivered stays delivered until another attempt begins')
   WHERE NEW.undelivered > OLD.undelivered AND (NEW.state <> 'pending' OR OLD.state = 'pending');
  SELECT RAISE(ABORT, 'an earlier attempt of this operation is still unknown, so it cannot have failed as a whole: settle it as uncertain')
   WHERE OLD.state = 'pending' AND NEW.state = 'failed' AND OLD.attempt_count > 1
     AND EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.id AND id <> OLD.live_attempt
                    AND outcome = 'uncertain' AND late_outcome <> 'failed' AND proof = '');
END;

CREATE TRIGGER operations_guard_delete BEFORE DELETE ON operations
BEGIN
  SELECT RAISE(ABORT, 'operations are never deleted');
END;

-- ── What follows from a change of operations ─────────────────────────────────

CREATE TRIGGER operations_after_insert AFTER INSERT ON operations WHEN NEW.state = 'pending'
BEGIN
  INSERT INTO events (id, operation_id, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail)
  VALUES (NEW.change_id, NEW.id, NEW.created_at, CASE NEW.change_verb WHEN '' THEN 'begin' ELSE NEW.change_verb END, NEW.actor,
          NEW.os_user, NEW.host, NEW.machine, NEW.terminal, CASE NEW.reason WHEN '' THEN 'attempt 1' ELSE NEW.reason END,
          '', 'pending', NEW.version, NEW.change_detail);
END;

-- Plain SQL names no attempt: the database makes the first one.
CREATE TRIGGER operations_complete_insert AFTER INSERT ON operations WHEN NEW.live_attempt = '' AND NEW.state = 'pending'
BEGIN
  UPDATE operations SET live_attempt = NEW.id || '.1', attempt_count = 1, started_at = NEW.created_at WHERE id = NEW.id;
  INSERT INTO attempts (id, operation_id, n, actor, host, pid, token_sent, started_at, deadline_at)
  VALUES (NEW.id || '.1', NEW.id, 1, NEW.actor, NEW.source_host, NEW.source_pid, NEW.token_sent, NEW.created_at, NEW.deadline_at);
END;

-- The event says how a doubt ended, where evidence ended it: a read, or an answer
-- however late. What is pending past its deadline is a doubt that was not written down.
CREATE TRIGGER operations_tell AFTER UPDATE OF change_id ON operations WHEN NEW.change_id <> OLD.change_id
BEGIN
  INSERT INTO events (id, operation_id, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail, conflict, doubt)
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
         CASE WHEN NEW.conflict <> OLD.conflict OR NEW.conflict_note <> OLD.conflict_note THEN NEW.conflict ELSE '' END,
         CASE WHEN NEW.state IN ('committed', 'failed')
               AND (OLD.state = 'uncertain'
                 OR OLD.state = 'pending' AND OLD.deadline_at < CASE WHEN NEW.change_of = NEW.change_id THEN NEW.updated_at
                                                                     ELSE CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) END)
               AND NOT (NEW.change_of = NEW.change_id
                    AND (NEW.change_verb IN ('confirm', 'deny', 'abandon', 'ack') OR NEW.change_verb = '' AND NEW.machine = 0))
              THEN CASE OLD.state WHEN 'pending' THEN 'deadline' ELSE OLD.error_class END END);
END;

-- What another writer leaves out of a change of state, or wrote as it had read it:
-- no attempt outlives the flight it was made for, every way into doubt says so, and
-- nothing ended before now.
CREATE TRIGGER operations_complete_update AFTER UPDATE OF state ON operations
WHEN NEW.state <> OLD.state
 AND (NEW.change_of <> NEW.change_id OR NEW.version = OLD.version OR NEW.state <> 'pending' AND NEW.live_attempt <> ''
   OR NEW.state = 'uncertain' AND (NEW.doubted = 0 OR NEW.doubted_at = 0 OR NEW.ended_at = 0))
BEGIN
  UPDATE attempts
     SET outcome = NEW.state,
         ended_at = max(NEW.updated_at, started_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
         proof = CASE WHEN NEW.state = 'failed' AND NEW.change_detail IS NOT OLD.change_detail
                       AND json_extract(NEW.change_detail, '$.proof') IN ('never_sent', 'refused')
                      THEN json_extract(NEW.change_detail, '$.proof') ELSE '' END,
         error_class = CASE WHEN NEW.state = 'uncertain' THEN NEW.error_class ELSE '' END,
         error = CASE WHEN NEW.state <> 'committed' THEN NEW.reason ELSE '' END,
         status = -1,
         receipt = CASE WHEN NEW.state <> 'committed' THEN ''
                        WHEN NEW.receipt <> '' THEN NEW.receipt
                        ELSE coalesce(json_extract(NEW.receipts, '$[0]'), '') END,
         result = CASE WHEN NEW.state = 'committed' THEN NEW.result END,
         token_sent = max(token_sent, NEW.token_sent)
   WHERE OLD.state = 'pending' AND operation_id = OLD.id AND n = OLD.attempt_count AND outcome = '';
  UPDATE operations
     SET version = OLD.version + 1,
         fact = CASE WHEN NEW.state <> 'abandoned' THEN '' WHEN NEW.change_of <> NEW.change_id THEN OLD.state ELSE NEW.fact END,
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
         -- That of the newest answer that did not come stays when the doubt is over.
         error_class = CASE WHEN NEW.state = 'uncertain' THEN NEW.error_class
                            WHEN OLD.error_class = '' AND OLD.state = 'pending' AND OLD.deadline_at < CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)
                            THEN 'deadline' ELSE OLD.error_class END,
         updated_at = max(NEW.updated_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)),
         ended_at = CASE WHEN OLD.state = 'pending' THEN max(NEW.ended_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)) ELSE NEW.ended_at END,
         doubted_at = CASE WHEN NEW.state = 'uncertain' AND OLD.doubted_at = 0 THEN max(NEW.doubted_at, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)) ELSE NEW.doubted_at END,
         settled_at = CASE WHEN OLD.state = 'failed' AND NEW.state = 'abandoned' THEN OLD.settled_at
                           WHEN NEW.state IN ('committed', 'failed', 'abandoned') THEN CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ELSE 0 END
   WHERE id = NEW.id;
  -- A grant was given for a situation that is gone.
  UPDATE grants SET voided_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER), void_reason = 'the state changed'
   WHERE operation_id = NEW.id AND consumed_at = 0 AND voided_at = 0;
END;

-- The deadline of the attempt in flight, at which it would be taken for ended, is
-- that of its operation.
CREATE TRIGGER operations_extend_attempt AFTER UPDATE OF deadline_at ON operations
WHEN NEW.deadline_at <> OLD.deadline_at AND NEW.state = 'pending' AND OLD.state = 'pending'
BEGIN
  UPDATE attempts SET deadline_at = NEW.deadline_at
   WHERE id = NEW.live_attempt AND outcome = '' AND deadline_at <> NEW.deadline_at;
END;

-- ── Attempts ─────────────────────────────────────────────────────────────────

CREATE TRIGGER attempts_guard_insert BEFORE INSERT ON attempts
BEGIN
  SELECT RAISE(ABORT, 'this attempt is recorded already: attempts are never replaced')
   WHERE EXISTS (SELECT 1 FROM attempts WHERE id = NEW.id)
      OR EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.operation_id AND n = NEW.n);
  SELECT RAISE(ABORT, 'a column that cannot be NULL cannot be set to NULL')
   WHERE max(NEW.outcome, NEW.grant_id, NEW.basis, NEW.policy) IS NULL;
  SELECT RAISE(ABORT, 'an attempt of this operation is in flight: there is never more than one')
   WHERE EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.operation_id AND outcome = '');
  SELECT RAISE(ABORT, 'an attempt is recorded as the live_attempt of a pending operation, before it is sent')
   WHERE NEW.outcome <> ''
      OR NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND state = 'pending'
                        AND live_attempt = NEW.id AND attempt_count = NEW.n);
  SELECT RAISE(ABORT, 'this was begun under an older policy than the one in force: read that one, and ask again')
   WHERE NEW.policy > 0 AND NEW.policy < (SELECT version FROM events WHERE verb = 'policy' ORDER BY seq DESC LIMIT 1);
  SELECT RAISE(ABORT, 'another attempt needs a grant, or proof that every earlier attempt had no effect')
   WHERE NEW.n > 1 AND NEW.grant_id = '' AND NEW.outcome = ''
     AND (EXISTS (SELECT 1 FROM attempts WHERE operation_id = NEW.operation_id
                     AND (proof = '' OR proof <> 'not_there' AND outcome <> 'failed' AND late_outcome <> 'failed'))
          -- or the proof was contradicted
          OR EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND hands_off = 1));
  SELECT RAISE(ABORT, 'the grant of this attempt does not exist, or another attempt has consumed it')
   WHERE NEW.grant_id <> '' AND NEW.outcome = ''
     AND NOT EXISTS (SELECT 1 FROM grants WHERE id = NEW.grant_id AND operation_id = NEW.operation_id AND attempt_id = NEW.id);
END;

CREATE TRIGGER attempts_guard_update BEFORE UPDATE ON attempts
BEGIN
  SELECT RAISE(ABORT, 'id, operation, number, basis, grant and start of an attempt never change')
   WHERE NEW.id IS NOT OLD.id OR NEW.operation_id IS NOT OLD.operation_id OR NEW.n IS NOT OLD.n OR NEW.basis IS NOT OLD.basis
      OR NEW.grant_id IS NOT OLD.grant_id OR NEW.started_at IS NOT OLD.started_at;
  SELECT RAISE(ABORT, 'where the processes of an attempt run never changes, and they are seen gone once')
   WHERE NEW.boot_id IS NOT OLD.boot_id OR NEW.pid_ns IS NOT OLD.pid_ns OR NEW.uid IS NOT OLD.uid AND NEW.uid <> 0
      OR (NEW.tree IS NOT OLD.tree OR NEW.tree_at IS NOT OLD.tree_at) AND (OLD.tree <> 'open' OR NEW.tree IS NOT 'empty');
  SELECT RAISE(ABORT, 'a process of this attempt may still write, so that absence is not proven')
   WHERE NEW.proof = 'not_there' AND OLD.proof <> 'not_there' AND NEW.tree = 'open';
  SELECT RAISE(ABORT, 'an attempt ends, and gets another deadline, with its operation')
   WHERE OLD.outcome = '' AND (NEW.outcome IS NOT '' OR NEW.deadline_at IS NOT OLD.deadline_at)
     AND EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND state = 'pending' AND live_attempt = OLD.id
                    AND (NEW.outcome IS NOT '' OR deadline_at IS NOT NEW.deadline_at));
  SELECT RAISE(ABORT, 'an attempt in flight has no outcome, proof or late answer yet')
   WHERE NEW.outcome = '' AND (NEW.proof IS NOT '' OR NEW.late_outcome IS NOT '' OR NEW.late_at IS NOT 0 OR NEW.late_receipt IS NOT '');
  SELECT RAISE(ABORT, 'an attempt that has ended does not change, but for one late answer if it ended uncertain')
   WHERE OLD.outcome <> ''
     AND (NEW.outcome IS NOT OLD.outcome OR NEW.ended_at IS NOT OLD.ended_at OR NEW.deadline_at IS NOT OLD.deadline_at
       OR NEW.receipt IS NOT OLD.receipt OR NEW.status IS NOT OLD.status OR NEW.already IS NOT OLD.already
       OR NEW.error_class IS NOT OLD.error_class OR NEW.effect_word IS NOT OLD.effect_word
       OR NEW.sender IS NOT OLD.sender OR NEW.key_works IS NOT OLD.key_works OR NEW.token_sent < OLD.token_sent OR NEW.token_sent IS NULL
       OR NEW.error IS NOT OLD.error AND OLD.error <> ''
       -- what a late answer brings, comes with it and once
       OR (NEW.late_outcome IS NOT OLD.late_outcome OR NEW.late_at IS NOT OLD.late_at OR NEW.late_receipt IS NOT OLD.late_receipt
           OR NEW.result IS NOT OLD.result OR NEW.error IS NOT OLD.error)
          AND (OLD.outcome <> 'uncertain' OR OLD.late_outcome <> '' OR coalesce(NEW.late_outcome, '') = '')
       -- proof may be found later, once, or come with the late answer
       OR NEW.proof IS NOT OLD.proof
          AND NOT (OLD.outcome = 'uncertain'
                   AND (OLD.proof = '' AND NEW.proof IS 'not_there' OR OLD.late_outcome = '' AND NEW.late_outcome IS 'failed')))
     AND NOT (EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND redacted_at <> 0 AND change_verb = 'redact' AND change_of = change_id)
         AND (NEW.outcome, NEW.ended_at, NEW.deadline_at, NEW.status, NEW.already, NEW.error_class, NEW.effect_word, NEW.sender, NEW.key_works, NEW.token_sent, NEW.late_outcome, NEW.late_at, NEW.proof)
          IS (OLD.outcome, OLD.ended_at, OLD.deadline_at, OLD.status, OLD.already, OLD.error_class, OLD.effect_word, OLD.sender, OLD.key_works, OLD.token_sent, OLD.late_outcome, OLD.late_at, OLD.proof)
         AND NEW.result IS NULL AND (NEW.error IS OLD.error OR NEW.error IS '[redacted]')
         AND (NEW.receipt IS OLD.receipt OR NOT (length(NEW.receipt), substr(NEW.receipt, 1, 17), substr(NEW.receipt, 18) GLOB '*[^0-9a-f]?*', substr(NEW.receipt, 82)) IS NOT (82, '[redacted sha256:', 0, ']')) AND (NEW.late_receipt IS OLD.late_receipt OR NOT (length(NEW.late_receipt), substr(NEW.late_receipt, 1, 17), substr(NEW.late_receipt, 18) GLOB '*[^0-9a-f]?*', substr(NEW.late_receipt, 82)) IS NOT (82, '[redacted sha256:', 0, ']')));
END;

CREATE TRIGGER attempts_guard_delete BEFORE DELETE ON attempts
BEGIN
  SELECT RAISE(ABORT, 'attempts are never deleted');
END;

-- ── Reads, grants, events, holds ──────────────────────────

CREATE TRIGGER reads_guard_insert BEFORE INSERT ON reads
BEGIN
  SELECT RAISE(ABORT, 'the database numbers its rows: leave the number out')
   WHERE NEW.rowid > 0;
  SELECT RAISE(ABORT, 'this read is recorded already: reads are never replaced')
   WHERE EXISTS (SELECT 1 FROM reads WHERE id = NEW.id);
  SELECT RAISE(ABORT, 'a read belongs to an operation that is recorded')
   WHERE NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id);
  SELECT RAISE(ABORT, 'what this policy says proves nothing: another one is in force')
   WHERE NEW.verdict = 'not_there' AND NEW.digest <> (SELECT json_extract(detail, '$.digest') FROM events WHERE verb = 'policy' ORDER BY seq DESC LIMIT 1);
END;

CREATE TRIGGER reads_guard_update BEFORE UPDATE ON reads
BEGIN
  SELECT RAISE(ABORT, 'a read is evidence and never changes')
   WHERE NOT (EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND redacted_at <> 0 AND change_verb = 'redact' AND change_of = change_id)
     AND (NEW.rowid, NEW.id, NEW.operation_id, NEW.began_at, NEW.ended_at, NEW.verdict, NEW.cause, NEW.found, NEW.proof_at, NEW.digest, NEW.actor, NEW.seen_boot, NEW.seen_steady, NEW.seen_over)
      IS (OLD.rowid, OLD.id, OLD.operation_id, OLD.began_at, OLD.ended_at, OLD.verdict, OLD.cause, OLD.found, OLD.proof_at, OLD.digest, OLD.actor, OLD.seen_boot, OLD.seen_steady, OLD.seen_over)
     AND (NEW.reason IS OLD.reason OR NEW.reason IS '[redacted]') AND NEW.evidence IS CASE WHEN OLD.evidence IS NULL THEN NULL ELSE '"[redacted]"' END
     AND coalesce(json_array_length(NEW.receipts), -1) = json_array_length(OLD.receipts) AND NOT EXISTS (SELECT 1 FROM json_each(NEW.receipts) WHERE (length(value), substr(value, 1, 17), substr(value, 18) GLOB '*[^0-9a-f]?*', substr(value, 82)) IS NOT (82, '[redacted sha256:', 0, ']')));
END;

CREATE TRIGGER reads_guard_delete BEFORE DELETE ON reads
BEGIN
  SELECT RAISE(ABORT, 'reads are never deleted');
END;

CREATE TRIGGER marks_guard_insert BEFORE INSERT ON marks
BEGIN
  SELECT RAISE(ABORT, 'a mark belongs to an operation that is recorded')
   WHERE NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id);
END;

CREATE TRIGGER marks_guard_update BEFORE UPDATE ON marks
BEGIN
  SELECT RAISE(ABORT, 'a mark never changes; a further one may be added')
   WHERE NEW.operation_id IS NOT OLD.operation_id OR (length(NEW.value), substr(NEW.value, 1, 17), substr(NEW.value, 18) GLOB '*[^0-9a-f]?*', substr(NEW.value, 82)) IS NOT (82, '[redacted sha256:', 0, ']') OR NOT EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND redacted_at <> 0 AND change_verb = 'redact' AND change_of = change_id);
END;

CREATE TRIGGER marks_guard_delete BEFORE DELETE ON marks
BEGIN
  SELECT RAISE(ABORT, 'marks are never deleted');
END;

CREATE TRIGGER grants_guard_insert BEFORE INSERT ON grants
BEGIN
  SELECT RAISE(ABORT, 'the database numbers its rows: leave the number out')
   WHERE NEW.rowid > 0;
  SELECT RAISE(ABORT, 'this grant is recorded already: grants are never replaced')
   WHERE EXISTS (SELECT 1 FROM grants WHERE id = NEW.id);
  SELECT RAISE(ABORT, 'a grant belongs to an operation that is uncertain or failed')
   WHERE NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND state IN ('uncertain', 'failed'));
END;

CREATE TRIGGER grants_guard_update BEFORE UPDATE ON grants
BEGIN
  SELECT RAISE(ABORT, 'a grant never changes, but for being consumed or voided')
   WHERE NEW.rowid IS NOT OLD.rowid OR NEW.id IS NOT OLD.id OR NEW.operation_id IS NOT OLD.operation_id OR NEW.version IS NOT OLD.version
      OR NEW.basis IS NOT OLD.basis OR NEW.sender IS NOT OLD.sender OR NEW.key_works IS NOT OLD.key_works OR NEW.actor IS NOT OLD.actor
      OR NEW.reason IS NOT OLD.reason AND NOT (NEW.reason IS '[redacted]' AND EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND redacted_at <> 0 AND change_verb = 'redact' AND change_of = change_id))
      OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at OR NEW.related IS NOT OLD.related;
  SELECT RAISE(ABORT, 'this grant is used up or void')
   WHERE (OLD.consumed_at <> 0 OR OLD.voided_at <> 0)
     AND (NEW.consumed_at IS NOT OLD.consumed_at OR NEW.attempt_id IS NOT OLD.attempt_id
       OR NEW.voided_at IS NOT OLD.voided_at
       OR NEW.void_reason IS NOT OLD.void_reason AND NOT (NEW.void_reason IS '[redacted]' AND EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND redacted_at <> 0 AND change_verb = 'redact' AND change_of = change_id)));
  SELECT RAISE(ABORT, 'this grant has expired')
   WHERE OLD.consumed_at = 0 AND NEW.consumed_at <> 0 AND NEW.consumed_at >= OLD.expires_at;
END;

CREATE TRIGGER grants_guard_delete BEFORE DELETE ON grants
BEGIN
  SELECT RAISE(ABORT, 'grants are never deleted');
END;

CREATE TRIGGER events_guard_insert BEFORE INSERT ON events
BEGIN
  SELECT RAISE(ABORT, 'the database numbers its rows: leave the number out')
   WHERE NEW.seq > 0;
  SELECT RAISE(ABORT, 'this change id is in the history already: the change was made before')
   WHERE EXISTS (SELECT 1 FROM events WHERE id = NEW.id);
  SELECT RAISE(ABORT, 'a change of state is in the history because the operation changes: change that')
   WHERE (NEW.from_state IS NOT NEW.to_state OR NEW.doubt IS NOT NULL)
     AND NOT EXISTS (SELECT 1 FROM operations WHERE id = NEW.operation_id AND change_id = NEW.id);
  SELECT RAISE(ABORT, 'a policy that is put in force has the next number, and its digest and files')
   WHERE NEW.verb = 'policy' AND (NEW.version IS NOT 1 + coalesce((SELECT version FROM events WHERE verb = 'policy' ORDER BY seq DESC LIMIT 1), 0)
     OR json_type(NEW.detail, '$.digest') IS NOT 'text' OR json_type(NEW.detail, '$.files') IS NOT 'array');
  SELECT RAISE(ABORT, 'checks and clock are names of indoubt itself: sign with another one')
   WHERE NEW.machine IS NOT 1 AND (lower(trim(NEW.actor)) IN ('checks', 'clock') OR lower(trim(NEW.actor)) LIKE 'checks,%');
END;

CREATE TRIGGER events_guard_update BEFORE UPDATE ON events
BEGIN
  SELECT RAISE(ABORT, 'the history never changes')
   WHERE NOT ((EXISTS (SELECT 1 FROM operations WHERE id = OLD.operation_id AND redacted_at <> 0 AND change_verb = 'redact' AND change_of = change_id) AND OLD.id <> (SELECT change_id FROM operations WHERE id = OLD.operation_id)
            OR OLD.verb IN ('run', 'run_over') AND EXISTS (SELECT 1 FROM events r, json_each(r.detail, '$.set') s JOIN operations o ON o.id = json_extract(s.value, '$.operation')
               WHERE r.id = OLD.run AND o.redacted_at <> 0 AND o.change_verb = 'redact' AND o.change_of = o.change_id)
            OR OLD.operation_id = '' AND OLD.outage <> '' AND EXISTS (SELECT 1 FROM outages i JOIN attempts a ON a.ended_at >= i.first_at AND a.ended_at < i.last_at + i.gap_ms JOIN operations o ON o.id = a.operation_id
               WHERE i.id = OLD.outage AND a.outcome IN ('uncertain', 'failed') AND a.sender <> 'import' AND o.redacted_at <> 0 AND o.change_verb = 'redact' AND o.change_of = o.change_id))
     AND (NEW.reason IS OLD.reason OR NEW.reason IS '[redacted]') AND (NEW.detail IS OLD.detail OR NEW.detail IS '"[redacted]"' OR json_type(OLD.detail) = 'object' AND json_type(NEW.detail) = 'object'
          AND (SELECT count(*) FROM json_each(NEW.detail)) = (SELECT count(*) FROM json_each(OLD.detail)) AND NOT EXISTS (SELECT 1 FROM json_each(NEW.detail) n
            WHERE NOT EXISTS (SELECT 1 FROM json_each(OLD.detail) o WHERE o.key = n.key AND (n.value IS o.value OR n.value IN ('[redacted]', '["[redacted]"]')))))
     AND (NEW.seq, NEW.id, NEW.operation_id, NEW.outage, NEW.run, NEW.at, NEW.verb, NEW.actor, NEW.os_user, NEW.host, NEW.machine, NEW.terminal, NEW.from_state, NEW.to_state, NEW.version, NEW.conflict, NEW.doubt)
      IS (OLD.seq, OLD.id, OLD.operation_id, OLD.outage, OLD.run, OLD.at, OLD.verb, OLD.actor, OLD.os_user, OLD.host, OLD.machine, OLD.terminal, OLD.from_state, OLD.to_state, OLD.version, OLD.conflict, OLD.doubt));
END;

CREATE TRIGGER events_guard_delete BEFORE DELETE ON events
BEGIN
  SELECT RAISE(ABORT, 'the history is never deleted');
END;

CREATE TRIGGER holds_guard_insert BEFORE INSERT ON holds
BEGIN
  SELECT RAISE(ABORT, 'the database numbers its rows: leave the number out')
   WHERE NEW.id > 0;
  SELECT RAISE(ABORT, 'there is a hold on this scope: release it first')
   WHERE EXISTS (SELECT 1 FROM holds WHERE scope = NEW.scope AND released_at = 0);
  SELECT RAISE(ABORT, 'checks and clock are names of indoubt itself: sign with another one')
   WHERE NEW.machine IS NOT 1 AND (lower(trim(NEW.actor)) IN ('checks', 'clock') OR lower(trim(NEW.actor)) LIKE 'checks,%');
END;

CREATE TRIGGER holds_guard_update BEFORE UPDATE ON holds
BEGIN
  SELECT RAISE(ABORT, 'a hold is released once and never changes otherwise')
   WHERE NEW.id IS NOT OLD.id OR NEW.scope IS NOT OLD.scope OR NEW.kinds IS NOT OLD.kinds OR NEW.actor IS NOT OLD.actor
      OR NEW.os_user IS NOT OLD.os_user OR NEW.host IS NOT OLD.host OR NEW.machine IS NOT OLD.machine OR NEW.terminal IS NOT OLD.terminal
      OR NEW.reason IS NOT OLD.reason OR NEW.until IS NOT OLD.until OR NEW.created_at IS NOT OLD.created_at
      OR NEW.change_id IS NOT OLD.change_id OR OLD.released_at <> 0 AND NEW.released_at IS NOT OLD.released_at;
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
