-- What is kept beside the history, so that no reader counts it: the list of open
-- operations, by the database, from operations and grants; sums, by who leads, from
-- events. indoubt.deviations() compares each with what it is made from.
--
-- Rows of the list are written under the lock of their operation's row.

-- The list's columns as operations and grants give them, and the words of a search.
CREATE VIEW indoubt.open_source AS
SELECT o.seq, o.kind, o.state, o.error_class, o.actor, o.hands, o.conflict, o.doubted, o.hands_off, o.parked_until, o.created_at, o.updated_at,
       o.deadline_at, o.doubted_at, o.recheck_at, coalesce(g.created_at, 0) AS granted_at, coalesce(g.expires_at, 0) AS grant_until,
       lower(o.title || E'\n' || o.target || E'\n' || o.kind || E'\n' || o.key || E'\n' || o.id || E'\n' || o.source || E'\n' || o.receipt) AS words
  FROM indoubt_rows.operations o
  LEFT JOIN LATERAL (SELECT indoubt.ms(g.created_at) AS created_at, indoubt.ms(g.expires_at) AS expires_at FROM indoubt.grants g
                      WHERE g.operation_id = o.id AND g.consumed_at IS NULL AND g.voided_at IS NULL
                      ORDER BY indoubt.ms(g.created_at) DESC LIMIT 1) g ON true;

-- copied is a row of open_source as the list has it.
CREATE FUNCTION indoubt.copied(s indoubt.open_source, title text, target text) RETURNS record LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ROW(s.words || lower(E'\n' || title || E'\n' || target), s.kind, s.state, s.error_class, s.actor, s.hands, s.conflict, s.doubted::bigint, s.hands_off::bigint,
           s.parked_until, s.created_at, s.updated_at, s.deadline_at, s.doubted_at, s.recheck_at, s.granted_at, s.grant_until);

-- has is what the list has of it.
CREATE FUNCTION indoubt.has(h indoubt.open_operations) RETURNS record LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ROW(h.search, h.kind, h.state, h.error_class, h.actor, h.hands, h.conflict, h.doubted, h.hands_off,
           h.parked_until, h.created_at, h.updated_at, h.deadline_at, h.doubted_at, h.recheck_at, h.granted_at, h.grant_until);

-- ── The open list ───────────────────────────────────────────────────────────

-- list makes the row of an operation what it should be; moved tells that what a policy
-- said of it is out of date. What is in flight stays in the list if it is there, and
-- joins it only when a policy prices it.
CREATE FUNCTION indoubt.list(operation bigint, belongs boolean, moved boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  s indoubt.open_source;
BEGIN
  SELECT * INTO s FROM indoubt.open_source WHERE seq = operation;
  IF NOT belongs AND s.granted_at = 0 AND s.state <> 'pending' THEN
    DELETE FROM indoubt.open_operations WHERE seq = operation;
    RETURN;
  END IF;
  UPDATE indoubt.open_operations
     SET digest = CASE WHEN moved THEN '' ELSE digest END,
         read_at = CASE WHEN s.state = 'uncertain' AND state <> 'uncertain' THEN 0
                        WHEN s.recheck_at <> recheck_at AND s.recheck_at <> 0 THEN s.recheck_at
                        ELSE read_at END,
         reads = CASE WHEN s.state = 'uncertain' AND state <> 'uncertain' THEN 0 ELSE reads END,
         search = s.words || lower(E'\n' || priced_title || E'\n' || priced_target),
         kind = s.kind, state = s.state, error_class = s.error_class, actor = s.actor, hands = s.hands, conflict = s.conflict, doubted = s.doubted,
         hands_off = s.hands_off, parked_until = s.parked_until, created_at = s.created_at, updated_at = s.updated_at, deadline_at = s.deadline_at,
         doubted_at = s.doubted_at, recheck_at = s.recheck_at, granted_at = s.granted_at, grant_until = s.grant_until
   WHERE seq = operation;
  IF NOT FOUND AND (belongs OR s.granted_at <> 0) THEN
    INSERT INTO indoubt.open_operations (seq, search, kind, state, error_class, actor, hands, conflict, doubted, hands_off, parked_until, created_at, updated_at,
                                 deadline_at, doubted_at, recheck_at, granted_at, grant_until, read_at)
    VALUES (s.seq, s.words || E'\n\n', s.kind, s.state, s.error_class, s.actor, s.hands, s.conflict, s.doubted, s.hands_off, s.parked_until, s.created_at, s.updated_at,
            s.deadline_at, s.doubted_at, s.recheck_at, s.granted_at, s.grant_until, s.recheck_at);
  END IF;
END $$;

-- operation_moved is what follows from a change of an operation.
CREATE FUNCTION indoubt.operation_moved(was indoubt.operations, is_now indoubt.operations) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF (is_now.state, is_now.error_class, is_now.actor, is_now.hands, is_now.conflict, is_now.doubted, is_now.hands_off, is_now.parked_until, is_now.updated_at,
         is_now.deadline_at, is_now.doubted_at, is_now.recheck_at, is_now.version, is_now.title, is_now.target, is_now.receipt)
     IS DISTINCT FROM
        (was.state, was.error_class, was.actor, was.hands, was.conflict, was.doubted, was.hands_off, was.parked_until, was.updated_at,
         was.deadline_at, was.doubted_at, was.recheck_at, was.version, was.title, was.target, was.receipt) THEN
    PERFORM indoubt.list(is_now.seq, is_now.is_open, is_now.version <> was.version);
  END IF;
END $$;

-- grant_moved is what follows when a grant is given, consumed or voided.
CREATE FUNCTION indoubt.grant_moved(operation text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  o record;
BEGIN
  SELECT seq, is_open INTO o FROM indoubt.operations WHERE id = operation;
  PERFORM indoubt.list(o.seq, o.is_open, false);
END $$;

-- A recorder prices what it sent itself. It hides no other's doubt behind a price or a
-- time that is far away.
CREATE FUNCTION indoubt.open_before_role(was indoubt.open_operations, is_now indoubt.open_operations) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF was.seq IS NULL THEN -- as a row begins
    was.downstream := ''; was.priced_title := ''; was.priced_target := ''; was.duplicate_value := 0; was.duplicate_word := ''; was.duplicate_guess := 0;
    was.miss_value := 0; was.miss_word := ''; was.miss_guess := 0; was.odds := 0; was.rank := 0; was.decide_at := 0; was.digest := ''; was.read_at := 0; was.ripe := 1;
  END IF;
  IF ((is_now.downstream, is_now.priced_title, is_now.priced_target, is_now.duplicate_value, is_now.duplicate_word, is_now.duplicate_guess)
      <> (was.downstream, was.priced_title, was.priced_target, was.duplicate_value, was.duplicate_word, was.duplicate_guess)
      OR (is_now.miss_value, is_now.miss_word, is_now.miss_guess, is_now.odds, is_now.rank, is_now.decide_at)
      <> (was.miss_value, was.miss_word, was.miss_guess, was.odds, was.rank, was.decide_at)
      OR is_now.ripe < was.ripe OR is_now.digest NOT IN ('', was.digest) OR is_now.read_at NOT IN (0, was.read_at, is_now.recheck_at))
     AND NOT EXISTS (SELECT 1 FROM indoubt.operations o JOIN indoubt.attempts a ON a.operation_id = o.id WHERE o.seq = is_now.seq AND a.db_user = session_user) THEN
    RAISE EXCEPTION 'this operation was sent by another user of the database: only that one changes it, or the role indoubt_engine or indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
END $$;

-- The list says what operations and grants say, with any writer. Of what a policy says
-- beside it, only policies know.
CREATE FUNCTION indoubt.open_before() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  s indoubt.open_source;
  o boolean;
BEGIN
  IF TG_OP <> 'DELETE' AND NOT indoubt.may('read') THEN
    PERFORM indoubt.open_before_role(OLD, NEW);
  END IF;
  IF TG_OP = 'UPDATE' AND NEW.seq = OLD.seq AND NEW.priced_title = OLD.priced_title AND NEW.priced_target = OLD.priced_target AND indoubt.has(NEW) = indoubt.has(OLD) THEN
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' THEN
    SELECT p.* INTO s FROM indoubt.open_source p WHERE p.seq = OLD.seq;
    SELECT p.is_open INTO o FROM indoubt.operations p WHERE p.seq = OLD.seq;
    IF o OR s.granted_at <> 0 OR s.state = 'pending' THEN
      RAISE EXCEPTION 'the list of open operations is kept by the database' USING ERRCODE = 'IN001';
    END IF;
    RETURN OLD;
  END IF;
  SELECT p.* INTO s FROM indoubt.open_source p WHERE p.seq = NEW.seq;
  SELECT p.is_open INTO o FROM indoubt.operations p WHERE p.seq = NEW.seq;
  IF TG_OP = 'UPDATE' AND NEW.seq <> OLD.seq OR s.seq IS NULL
     OR TG_OP = 'INSERT' AND (EXISTS (SELECT 1 FROM indoubt.open_operations WHERE seq = NEW.seq) OR NOT (o OR s.granted_at <> 0 OR s.state = 'pending'))
     OR indoubt.copied(s, NEW.priced_title, NEW.priced_target) IS DISTINCT FROM indoubt.has(NEW) THEN
    RAISE EXCEPTION 'the list of open operations is kept by the database' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER before BEFORE INSERT OR UPDATE OR DELETE ON indoubt.open_operations FOR EACH ROW EXECUTE FUNCTION indoubt.open_before();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.open_operations FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('the list of open operations is kept by the database');

-- ── The sums ────────────────────────────────────────────────────────────────

-- uncounted: the events after the place of total, which its snapshot does not show.
CREATE VIEW indoubt.uncounted AS
SELECT e.operation_id, e.from_state, e.to_state, e.doubt
  FROM (SELECT coalesce((SELECT class FROM indoubt.total WHERE kind = '' AND what = 'place'), '3:3:')::pg_snapshot AS shown) p
  JOIN indoubt.events e ON e.xid >= pg_snapshot_xmin(p.shown) AND NOT pg_visible_in_snapshot(e.xid, p.shown);

-- counted: what they add to total.
CREATE VIEW indoubt.counted AS
WITH moved AS MATERIALIZED (
  SELECT o.kind, e.from_state, e.to_state, e.doubt, count(*) AS n
    FROM indoubt.uncounted e JOIN indoubt.operations o ON o.id = e.operation_id
   WHERE e.from_state <> e.to_state GROUP BY 1, 2, 3, 4)
SELECT kind, to_state AS what, '' COLLATE "C" AS class, n FROM moved
UNION ALL SELECT kind, from_state, '', -n FROM moved WHERE from_state <> ''
UNION ALL SELECT kind, CASE to_state WHEN 'committed' THEN 'landed' ELSE 'missed' END, doubt, n FROM moved WHERE doubt IS NOT NULL;

-- totals: the sums of now.
CREATE VIEW indoubt.totals AS
SELECT kind, what, class, sum(n)::bigint AS n
  FROM (SELECT kind, what, class, n FROM indoubt.total WHERE kind <> '' UNION ALL SELECT kind, what, class, n FROM indoubt.counted) s
 GROUP BY kind, what, class;

-- ── Comparing ───────────────────────────────────────────────────────────────

-- What each derived table should be.
CREATE VIEW indoubt.total_source AS
SELECT kind, state AS what, '' COLLATE "C" AS class, count(*) AS n FROM indoubt.operations GROUP BY 1, 2
UNION ALL
SELECT o.kind, CASE e.to_state WHEN 'committed' THEN 'landed' ELSE 'missed' END, e.doubt, count(*)
  FROM indoubt.events e JOIN indoubt.operations o ON o.id = e.operation_id
 WHERE e.doubt IS NOT NULL GROUP BY 1, 2, 3;

-- belonging are the operations that the list should have, beside what is in flight.
CREATE VIEW indoubt.belonging AS
SELECT seq FROM indoubt.operations WHERE is_open
UNION SELECT o.seq FROM indoubt.grants g JOIN indoubt.operations o ON o.id = g.operation_id WHERE g.consumed_at IS NULL AND g.voided_at IS NULL;

CREATE VIEW indoubt.listed_wrongly AS
SELECT seq FROM indoubt.belonging WHERE seq NOT IN (SELECT seq FROM indoubt.open_operations)
UNION SELECT seq FROM indoubt.open_operations WHERE state <> 'pending' AND seq NOT IN (SELECT seq FROM indoubt.belonging)
UNION SELECT h.seq FROM indoubt.open_operations h LEFT JOIN indoubt.open_source s ON s.seq = h.seq
       WHERE s.seq IS NULL OR indoubt.has(h) IS DISTINCT FROM indoubt.copied(s, h.priced_title, h.priced_target);

-- deviations names each derived table that is not what it is made from, with how many
-- rows and one of them. It reads everything.
CREATE FUNCTION indoubt.deviations(OUT deviating text, OUT wrong bigint, OUT one text) RETURNS SETOF record LANGUAGE sql STABLE SET search_path = pg_catalog, indoubt, pg_temp
BEGIN ATOMIC
  WITH found (deviating, one) AS (
    SELECT 'open_operations', coalesce(o.id, w.seq::text) FROM indoubt.listed_wrongly w LEFT JOIN indoubt.operations o ON o.seq = w.seq
    UNION ALL
    SELECT 'total', kind || ' ' || what FROM indoubt.totals t FULL JOIN indoubt.total_source d USING (kind, what, class)
     WHERE coalesce(t.n, 0) <> coalesce(d.n, 0))
  SELECT f.deviating, count(*), min(f.one) FROM found f GROUP BY f.deviating;
END;

-- rebuild makes every derived table what it should be. What policies have said of a row
-- that stays is kept. No one else writes meanwhile.
CREATE FUNCTION indoubt.rebuild() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  w record;
BEGIN
  LOCK TABLE indoubt.operations, indoubt.grants, indoubt.reads, indoubt.open_operations, indoubt.total IN SHARE ROW EXCLUSIVE MODE;
  FOR w IN SELECT l.seq, o.is_open, o.id IS NULL AS stray FROM indoubt.listed_wrongly l LEFT JOIN indoubt.operations o ON o.seq = l.seq LOOP
    IF w.stray THEN
      DELETE FROM indoubt.open_operations WHERE seq = w.seq;
    ELSE
      PERFORM indoubt.list(w.seq, w.is_open, true);
    END IF;
  END LOOP;
  DELETE FROM indoubt.total; -- it is made again from the beginning
END $$;

-- What follows from a change is not for a session to do by itself.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA indoubt FROM PUBLIC;
GRANT EXECUTE ON FUNCTION indoubt.ms(timestamptz), indoubt.json_kind(text), indoubt.is_json(text), indoubt.json_each(text), indoubt.reserved(text), indoubt.decides(text),
  indoubt.has(indoubt.open_operations), indoubt.copied(indoubt.open_source, text, text), indoubt.may(text), indoubt.deviations(),
  indoubt.event_alone(indoubt.events) TO PUBLIC;
