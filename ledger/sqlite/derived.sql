-- What the database keeps beside its history so that nobody need count it: the list
-- of open operations, from operations and grants; counts, from that list; census,
-- from operations (in guards.sql, with the change that is told); tallies, from events.
-- `indoubt doctor` compares each with what it is made from.

-- The list's columns as operations and grants give them.
CREATE VIEW open_source AS
SELECT o.seq, o.id, o.kind, o.key, o.token, o.title, o.target, o.source, o.source_run, o.source_host, o.source_pid,
       o.state, o.version, o.error_class, o.verdict, o.conflict, o.doubted, o.hands_off, o.receipt, o.actor,
       o.attempt_count AS attempts, o.created_at, o.updated_at, o.deadline_at, o.doubted_at, o.parked_until, o.recheck_at,
       coalesce((SELECT g.created_at FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0
                  ORDER BY g.created_at DESC LIMIT 1), 0) AS granted_at,
       coalesce((SELECT g.expires_at FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0
                  ORDER BY g.created_at DESC LIMIT 1), 0) AS grant_until,
       o.recheck_at AS read_at
  FROM operations o;

-- ── The open list ───────────────────────────────────────────────────────────

-- The list follows. This reads the row as it stands, so it does not matter in which
-- order the triggers of one change run. What is in flight stays in the list if it is
-- there.
CREATE TRIGGER operations_keep_list AFTER UPDATE ON operations
WHEN NEW.is_open = 1 OR EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
BEGIN
  DELETE FROM open_operations
   WHERE seq = NEW.seq
     AND EXISTS (SELECT 1 FROM operations WHERE seq = NEW.seq AND is_open = 0 AND state <> 'pending')
     AND NOT EXISTS (SELECT 1 FROM grants WHERE operation_id = NEW.id AND consumed_at = 0 AND voided_at = 0);
  UPDATE open_operations
     SET title = s.title, target = s.target, state = s.state, version = s.version, error_class = s.error_class, verdict = s.verdict,
         conflict = s.conflict, doubted = s.doubted, hands_off = s.hands_off, receipt = s.receipt, actor = s.actor,
         attempts = s.attempts, updated_at = s.updated_at, deadline_at = s.deadline_at, doubted_at = s.doubted_at,
         parked_until = s.parked_until, recheck_at = s.recheck_at, granted_at = s.granted_at, grant_until = s.grant_until,
         digest = CASE WHEN s.version = open_operations.version THEN digest ELSE '' END,
         read_at = CASE WHEN s.state = 'uncertain' AND open_operations.state <> 'uncertain' THEN 0
                        WHEN s.recheck_at <> open_operations.recheck_at AND s.recheck_at <> 0 THEN s.recheck_at
                        ELSE open_operations.read_at END,
         reads = CASE WHEN s.state = 'uncertain' AND open_operations.state <> 'uncertain' THEN 0 ELSE reads END
    FROM open_source s
   WHERE s.seq = NEW.seq AND open_operations.seq = NEW.seq;
  INSERT INTO open_operations (seq, id, kind, key, token, title, target, source, source_run, source_host, source_pid,
          state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts,
          created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until, read_at)
  SELECT * FROM open_source
   WHERE seq = NEW.seq AND EXISTS (SELECT 1 FROM operations WHERE seq = NEW.seq AND is_open = 1)
     AND NOT EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq);
END;

-- The list has what a grant allows, too, until it is used up or void. What belongs
-- there anyway follows with its operation.
CREATE TRIGGER grants_after_insert AFTER INSERT ON grants WHEN NEW.consumed_at = 0 AND NEW.voided_at = 0
BEGIN
  INSERT INTO open_operations (seq, id, kind, key, token, title, target, source, source_run, source_host, source_pid,
          state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts,
          created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until, read_at)
  SELECT * FROM open_source s
   WHERE s.id = NEW.operation_id AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = s.seq);
  UPDATE operations SET parked_until = parked_until WHERE id = NEW.operation_id;
END;

CREATE TRIGGER grants_after_update AFTER UPDATE OF consumed_at, voided_at ON grants
WHEN OLD.consumed_at = 0 AND OLD.voided_at = 0 AND (NEW.consumed_at <> 0 OR NEW.voided_at <> 0)
BEGIN
  UPDATE operations SET parked_until = parked_until WHERE id = NEW.operation_id;
END;

-- Whoever writes, the list says what operations and grants say. Of what a policy says
-- beside it, only policies know.
CREATE TRIGGER open_guard_insert BEFORE INSERT ON open_operations
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
      OR NOT EXISTS (SELECT 1 FROM open_source s JOIN operations o ON o.seq = s.seq
                      WHERE s.seq = NEW.seq AND (o.is_open = 1 OR s.granted_at <> 0 OR s.state = 'pending')
                        AND (s.id, s.kind, s.key, s.token, s.title, s.target, s.source, s.source_run, s.source_host, s.source_pid,
                             s.state, s.version, s.error_class, s.verdict, s.conflict, s.doubted, s.hands_off, s.receipt, s.actor, s.attempts,
                             s.created_at, s.updated_at, s.deadline_at, s.doubted_at, s.parked_until, s.recheck_at, s.granted_at, s.grant_until)
                          = (NEW.id, NEW.kind, NEW.key, NEW.token, NEW.title, NEW.target, NEW.source, NEW.source_run, NEW.source_host, NEW.source_pid,
                             NEW.state, NEW.version, NEW.error_class, NEW.verdict, NEW.conflict, NEW.doubted, NEW.hands_off, NEW.receipt, NEW.actor, NEW.attempts,
                             NEW.created_at, NEW.updated_at, NEW.deadline_at, NEW.doubted_at, NEW.parked_until, NEW.recheck_at, NEW.granted_at, NEW.grant_until));
END;

CREATE TRIGGER open_guard_update BEFORE UPDATE ON open_operations
WHEN (NEW.seq, NEW.id, NEW.kind, NEW.key, NEW.token, NEW.title, NEW.target, NEW.source, NEW.source_run, NEW.source_host, NEW.source_pid,
      NEW.state, NEW.version, NEW.error_class, NEW.verdict, NEW.conflict, NEW.doubted, NEW.hands_off, NEW.receipt, NEW.actor, NEW.attempts,
      NEW.created_at, NEW.updated_at, NEW.deadline_at, NEW.doubted_at, NEW.parked_until, NEW.recheck_at, NEW.granted_at, NEW.grant_until)
  IS NOT (OLD.seq, OLD.id, OLD.kind, OLD.key, OLD.token, OLD.title, OLD.target, OLD.source, OLD.source_run, OLD.source_host, OLD.source_pid,
      OLD.state, OLD.version, OLD.error_class, OLD.verdict, OLD.conflict, OLD.doubted, OLD.hands_off, OLD.receipt, OLD.actor, OLD.attempts,
      OLD.created_at, OLD.updated_at, OLD.deadline_at, OLD.doubted_at, OLD.parked_until, OLD.recheck_at, OLD.granted_at, OLD.grant_until)
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE NEW.seq IS NOT OLD.seq
      OR NOT EXISTS (SELECT 1 FROM open_source s
                      WHERE s.seq = NEW.seq
                        AND (s.id, s.kind, s.key, s.token, s.title, s.target, s.source, s.source_run, s.source_host, s.source_pid,
                             s.state, s.version, s.error_class, s.verdict, s.conflict, s.doubted, s.hands_off, s.receipt, s.actor, s.attempts,
                             s.created_at, s.updated_at, s.deadline_at, s.doubted_at, s.parked_until, s.recheck_at, s.granted_at, s.grant_until)
                          = (NEW.id, NEW.kind, NEW.key, NEW.token, NEW.title, NEW.target, NEW.source, NEW.source_run, NEW.source_host, NEW.source_pid,
                             NEW.state, NEW.version, NEW.error_class, NEW.verdict, NEW.conflict, NEW.doubted, NEW.hands_off, NEW.receipt, NEW.actor, NEW.attempts,
                             NEW.created_at, NEW.updated_at, NEW.deadline_at, NEW.doubted_at, NEW.parked_until, NEW.recheck_at, NEW.granted_at, NEW.grant_until));
END;

CREATE TRIGGER open_guard_delete BEFORE DELETE ON open_operations
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE EXISTS (SELECT 1 FROM open_source s JOIN operations o ON o.seq = s.seq
                  WHERE s.seq = OLD.seq AND (o.is_open = 1 OR s.granted_at <> 0 OR s.state = 'pending'));
END;

-- ── The counts ──────────────────────────────────────────────────────────────

CREATE TRIGGER counts_guard_delete BEFORE DELETE ON counts
BEGIN
  SELECT RAISE(ABORT, 'the counts are kept by the database');
END;

CREATE TRIGGER census_guard_delete BEFORE DELETE ON census
BEGIN
  SELECT RAISE(ABORT, 'the counts are kept by the database');
END;

CREATE TRIGGER tallies_guard_delete BEFORE DELETE ON tallies
BEGIN
  SELECT RAISE(ABORT, 'the counts are kept by the database');
END;

CREATE TRIGGER events_after_insert AFTER INSERT ON events WHEN NEW.doubt IS NOT NULL
BEGIN
  INSERT INTO tallies (kind, class, landed, missed)
  SELECT kind, NEW.doubt, NEW.to_state = 'committed', NEW.to_state = 'failed' FROM operations WHERE id = NEW.operation_id
      ON CONFLICT (kind, class) DO UPDATE SET landed = landed + excluded.landed, missed = missed + excluded.missed;
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
