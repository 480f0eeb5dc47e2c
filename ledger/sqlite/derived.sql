-- What is kept beside the history, so that no reader counts it: the list of open
-- operations, by the database, from operations and grants; sums, by who leads, from
-- events. `indoubt doctor` compares each with what it is made from.
--
-- In this file o.*, s.*, NEW.* and OLD.* stand for the columns that the list copies,
-- which are in the table of ledger/tables/columns.go; so does what stands in braces.

-- gap: until when attempts may have begun that are missing, because this file is a copy that
-- was adopted then, or was moved from where they are missing.
CREATE VIEW gap AS
SELECT CAST(value AS INTEGER) AS at FROM meta WHERE name = 'clock.gap_at';

-- The list's columns as operations and grants give them, and the words of a search.
CREATE VIEW open_source AS
SELECT o.seq, o.*, o.recheck_at,
       coalesce((SELECT g.created_at FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0
                  ORDER BY g.created_at DESC LIMIT 1), 0) AS granted_at,
       coalesce((SELECT g.expires_at FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0
                  ORDER BY g.created_at DESC LIMIT 1), 0) AS grant_until,
       lower(o.title || char(10) || o.target || char(10) || o.kind || char(10) || o.key || char(10) || o.id || char(10) || o.source
             || char(10) || o.receipt) AS words
  FROM operations o;

-- ── The open list ───────────────────────────────────────────────────────────

-- The list follows. This reads the row as it stands, so it does not matter in which
-- order the triggers of one change run. What is in flight stays in the list if it is
-- there. What no column of the list is made from sets nothing off: then SQLite need
-- not compile this, which for a writer of one row takes longer than to run it.
CREATE TRIGGER operations_keep_list
AFTER UPDATE OF {listed}, recheck_at, version, title, target, receipt ON operations
WHEN NEW.is_open = 1 OR EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
BEGIN
  DELETE FROM open_operations
   WHERE seq = NEW.seq
     AND EXISTS (SELECT 1 FROM operations WHERE seq = NEW.seq AND is_open = 0 AND state <> 'pending')
     AND NOT EXISTS (SELECT 1 FROM grants WHERE operation_id = NEW.id AND consumed_at = 0 AND voided_at = 0);
  UPDATE open_operations
     SET digest = CASE WHEN NEW.version = OLD.version THEN digest ELSE '' END,
         read_at = CASE WHEN NEW.state = 'uncertain' AND state <> 'uncertain' THEN 0
                        WHEN NEW.recheck_at <> recheck_at AND NEW.recheck_at <> 0 THEN NEW.recheck_at
                        ELSE read_at END,
         reads = CASE WHEN NEW.state = 'uncertain' AND state <> 'uncertain' THEN 0 ELSE reads END,
         (search, {columns}) = (SELECT {search of open_operations}, s.* FROM open_source s WHERE s.seq = NEW.seq)
   WHERE seq = NEW.seq;
  {insert from open_source s}
   WHERE s.seq = NEW.seq AND EXISTS (SELECT 1 FROM operations WHERE seq = NEW.seq AND is_open = 1)
     AND NOT EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq);
END;

-- The list has what a grant allows, too, until it is used up or void. What belongs
-- there anyway follows with its operation.
CREATE TRIGGER grants_after_insert AFTER INSERT ON grants WHEN NEW.consumed_at = 0 AND NEW.voided_at = 0
BEGIN
  {insert from open_source s}
   WHERE s.seq = (SELECT seq FROM operations WHERE id = NEW.operation_id) AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = s.seq);
  UPDATE operations SET parked_until = parked_until WHERE id = NEW.operation_id;
END;

CREATE TRIGGER grants_after_update AFTER UPDATE OF consumed_at, voided_at ON grants
WHEN OLD.consumed_at = 0 AND OLD.voided_at = 0 AND (NEW.consumed_at <> 0 OR NEW.voided_at <> 0)
BEGIN
  UPDATE operations SET parked_until = parked_until WHERE id = NEW.operation_id;
END;

-- The list says what operations and grants say, with any writer. Of what a policy says
-- beside it, only policies know.
CREATE TRIGGER open_guard_insert BEFORE INSERT ON open_operations
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE EXISTS (SELECT 1 FROM open_operations WHERE seq = NEW.seq)
      OR NOT EXISTS (SELECT 1 FROM open_source s JOIN operations o ON o.seq = s.seq
                      WHERE s.seq = NEW.seq AND (o.is_open = 1 OR s.granted_at <> 0 OR s.state = 'pending')
                        AND ({search of NEW}, s.*) = (NEW.search, NEW.*));
END;

CREATE TRIGGER open_guard_update BEFORE UPDATE ON open_operations
WHEN (NEW.seq, NEW.search, NEW.priced_title, NEW.priced_target, NEW.*) IS NOT (OLD.seq, OLD.search, OLD.priced_title, OLD.priced_target, OLD.*)
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE NEW.seq IS NOT OLD.seq
      OR NOT EXISTS (SELECT 1 FROM open_source s WHERE s.seq = NEW.seq AND ({search of NEW}, s.*) = (NEW.search, NEW.*));
END;

CREATE TRIGGER open_guard_delete BEFORE DELETE ON open_operations
BEGIN
  SELECT RAISE(ABORT, 'the list of open operations is kept by the database')
   WHERE EXISTS (SELECT 1 FROM open_source s JOIN operations o ON o.seq = s.seq
                  WHERE s.seq = OLD.seq AND (o.is_open = 1 OR s.granted_at <> 0 OR s.state = 'pending'));
END;

-- ── The sums ────────────────────────────────────────────────────────────────

-- uncounted: the events after the place of total.
CREATE VIEW uncounted AS
SELECT operation_id, from_state, to_state, doubt FROM events
 WHERE seq > coalesce((SELECT CAST(class AS INTEGER) FROM total WHERE kind = '' AND what = 'place'), 0);

-- counted: what they add to total.
CREATE VIEW counted AS
WITH moved AS MATERIALIZED (
  SELECT o.kind, e.from_state, e.to_state, e.doubt, count(*) AS n FROM uncounted e CROSS JOIN operations o ON o.id = e.operation_id
   WHERE e.from_state <> e.to_state GROUP BY 1, 2, 3, 4)
SELECT kind, to_state AS what, '' AS class, n FROM moved
UNION ALL SELECT kind, from_state, '', -n FROM moved WHERE from_state <> ''
UNION ALL SELECT kind, CASE to_state WHEN 'committed' THEN 'landed' ELSE 'missed' END, doubt, n FROM moved WHERE doubt IS NOT NULL;

-- totals: the sums of now.
CREATE VIEW totals AS
SELECT kind, what, class, sum(n) AS n
  FROM (SELECT kind, what, class, n FROM total WHERE kind <> '' UNION ALL SELECT kind, what, class, n FROM counted)
 GROUP BY kind, what, class;

-- place: the place of total, the one of now, and how many events are between them.
CREATE VIEW place AS
SELECT coalesce((SELECT class FROM total WHERE kind = '' AND what = 'place'), '') AS at,
       CAST(coalesce((SELECT max(seq) FROM events), 0) AS TEXT) AS here, (SELECT count(*) FROM uncounted) AS behind;
