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
  SELECT RAISE(ABORT, 'where the processes of an attempt run never changes, and they are seen gone once')
   WHERE NEW.boot_id <> OLD.boot_id OR NEW.pid_ns <> OLD.pid_ns OR NEW.uid <> OLD.uid AND NEW.uid <> 0
      OR (NEW.tree <> OLD.tree OR NEW.tree_at <> OLD.tree_at) AND (OLD.tree <> 'open' OR NEW.tree <> 'empty');
  SELECT RAISE(ABORT, 'a process of this attempt may still write, so that absence is not proven')
   WHERE NEW.proof = 'absent' AND OLD.proof <> 'absent' AND NEW.tree = 'open';
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
