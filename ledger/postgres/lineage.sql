-- The lineage of a ledger: which database it lives in. A standby that is promoted, and a
-- dump that is restored, go on from what they have, and lack what came after it: the
-- newest intents, which are just those that no one knows. So what lets someone send is
-- refused until a person has looked and adopted the ledger, except where the other side
-- remembers the key.
--
-- A promotion is told by the timeline of the log that is written now: the control file
-- has it only after a checkpoint. It is compared where an attempt begins, a grant is given
-- and an event is told. A session that has found the ledger at home remembers that: in a
-- setting, and in a sequence, whose current value only the owner's functions give a session.

-- lineages: the databases that the ledger has lived in, the newest last. Leave it.
CREATE TABLE indoubt.lineages (
  n               bigint PRIMARY KEY,                          -- from 1
  lineage         text COLLATE "C" NOT NULL,                   -- what lineage() gives there
  noted_at        timestamptz(3) NOT NULL,                     -- when the ledger was first found there
  known_until     timestamptz(3) NOT NULL,                     -- what was committed elsewhere until then is here
  xid             xid8 NOT NULL,                               -- transactions from this one on are of this database
  adopted_at      timestamptz(3),                              -- NULL: no one has looked yet
  db_user         text COLLATE "C" NOT NULL DEFAULT ''         -- who adopted it, as the database knows
);

-- lineage is the database that is written now: the system's identifier, the timeline in
-- hexadecimal digits, the numbers of the database and of a table. On a standby it is NULL.
CREATE FUNCTION indoubt.lineage() RETURNS text LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN NOT pg_is_in_recovery() THEN
  (SELECT system_identifier FROM pg_control_system()) || '.' || ltrim(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), '0')
  || '.' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '.' || 'indoubt.lineages'::regclass::oid END;

-- here is what of it can change during a session.
CREATE FUNCTION indoubt.here() RETURNS text LANGUAGE sql VOLATILE
RETURN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || 'indoubt.lineages'::regclass::oid::text;

CREATE SEQUENCE indoubt.home;

-- found_home reports whether this session has found the ledger at home. Anyone can make the
-- setting; currval fails where adopted() has not been here, too.
CREATE FUNCTION indoubt.found_home() RETURNS boolean LANGUAGE sql VOLATILE
RETURN CASE WHEN current_setting('indoubt.home', true) = indoubt.here() THEN currval('indoubt.home') > 0 ELSE false END;

-- failed_over is since when the ledger is in another database than the one it was adopted
-- in, and how many milliseconds of history may be missing; no row where it is at home. A
-- standby says what its primary has noted.
CREATE FUNCTION indoubt.failed_over(OUT at bigint, OUT missing_ms bigint, OUT noted boolean) RETURNS SETOF record LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT nullif(indoubt.ms(min(noted_at)), 0), sum(indoubt.ms(noted_at) - indoubt.ms(known_until)) INTO at, missing_ms FROM indoubt.lineages WHERE adopted_at IS NULL;
  noted := (SELECT lineage FROM indoubt.lineages ORDER BY n DESC LIMIT 1) IS NOT DISTINCT FROM coalesce(indoubt.lineage(), (SELECT lineage FROM indoubt.lineages ORDER BY n DESC LIMIT 1));
  IF NOT noted THEN
    at := coalesce(at, indoubt.ms(clock_timestamp()));
    missing_ms := coalesce(missing_ms, 0) + greatest(0, indoubt.ms(clock_timestamp()) - indoubt.ms(indoubt.known_until()));
  END IF;
  IF at IS NOT NULL THEN
    RETURN NEXT;
  END IF;
END $$;

-- known_until is the newest commit of a former database that is known to be here: an event,
-- or anything else that a standby has taken over.
CREATE FUNCTION indoubt.known_until() RETURNS timestamptz LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN greatest((SELECT at FROM indoubt.events ORDER BY seq DESC LIMIT 1), (SELECT noted_at FROM indoubt.lineages ORDER BY n DESC LIMIT 1), pg_last_xact_replay_timestamp());

-- adopted reports whether the ledger was adopted in the database that is written now, and
-- notes one that is new. Any change that leaves an event calls it, so events of a new
-- database come after its note. Transactions of another system have numbers that say
-- nothing here.
CREATE FUNCTION indoubt.adopted() RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  found_here CONSTANT text := indoubt.lineage();
  until CONSTANT timestamptz(3) := indoubt.known_until();
  newest indoubt.lineages;
BEGIN
  SELECT * INTO newest FROM indoubt.lineages ORDER BY n DESC LIMIT 1;
  IF newest.lineage IS NOT DISTINCT FROM found_here THEN
    IF newest.adopted_at IS NULL THEN
      RETURN false;
    END IF;
    PERFORM setval('indoubt.home', 1), set_config('indoubt.home', indoubt.here(), false);
    RETURN true;
  END IF;
  INSERT INTO indoubt.lineages (n, lineage, noted_at, known_until, xid)
  VALUES (coalesce(newest.n, 0) + 1, found_here, greatest(clock_timestamp(), until), until, pg_snapshot_xmin(pg_current_snapshot()))
  ON CONFLICT DO NOTHING;
  IF FOUND THEN
    IF split_part(newest.lineage, '.', 1) <> split_part(found_here, '.', 1) THEN
      UPDATE indoubt.events SET xid = '3' WHERE xid > '3';
      DELETE FROM indoubt.total;
    END IF;
    UPDATE indoubt.grants SET voided_at = clock_timestamp(), void_reason = 'the database failed over or was restored, and may have lost that it was used'
     WHERE consumed_at IS NULL AND voided_at IS NULL AND basis <> 'key_safe';
    INSERT INTO indoubt.events (seq, id, verb, actor, machine, reason)
    VALUES (CASE WHEN pg_trigger_depth() > 0 THEN nextval('indoubt.events_seq') END, replace(gen_random_uuid()::text, '-', ''), 'failover', 'indoubt', true,
            format('the ledger is in another database than before: what was recorded after %s may be missing', to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')));
  END IF;
  RETURN false;
END $$;

-- at_home refuses what lets someone send while the ledger is not, but for a send that is
-- recorded with its outcome by one who remembers it (SET LOCAL indoubt.sent = 'on'), and for
-- a key that the other side remembers for so long: what is missing was sent
-- within that time.
CREATE FUNCTION indoubt.at_home(remembered_ms bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT indoubt.found_home() AND current_setting('indoubt.sent', true) IS DISTINCT FROM 'on' AND NOT indoubt.adopted()
     AND (remembered_ms = 0 OR clock_timestamp() >= (SELECT min(known_until) FROM indoubt.lineages WHERE adopted_at IS NULL) + remembered_ms * '1 millisecond'::interval) THEN
    RAISE EXCEPTION 'the database failed over or was restored, and what was sent last may be missing: nothing is begun or allowed until an operator has looked and adopted the ledger'
      USING ERRCODE = 'IN002';
  END IF;
END $$;

-- gap_at is until when attempts may have begun that are missing: the newest failover, or what
-- meta says; 0: none.
CREATE FUNCTION indoubt.gap_at() RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  newest indoubt.lineages;
BEGIN
  SELECT * INTO newest FROM indoubt.lineages ORDER BY n DESC LIMIT 1;
  RETURN greatest((SELECT value::bigint FROM indoubt.meta WHERE name = 'clock.gap_at'), CASE WHEN newest.n > 1 THEN indoubt.ms(newest.noted_at) ELSE 0 END,
    CASE WHEN newest.lineage <> indoubt.lineage() THEN indoubt.ms(clock_timestamp()) END);
END $$;

CREATE VIEW indoubt_rows.gap AS SELECT indoubt.gap_at() AS at;

-- place: the place of total, the one of now, and how many events are between them. No row
-- on a standby, and in another system as long as that is not noted: what a snapshot shows
-- there says nothing here.
CREATE VIEW indoubt.place AS
SELECT coalesce((SELECT class FROM indoubt.total WHERE kind = '' AND what = 'place'), '') AS at,
       pg_current_snapshot()::text AS here, (SELECT count(*) FROM indoubt.uncounted) AS behind
  FROM (SELECT lineage FROM indoubt.lineages ORDER BY n DESC LIMIT 1) l
 WHERE split_part(l.lineage, '.', 1) = split_part(indoubt.lineage(), '.', 1);

-- adopt has the ledger be at home where it is written now. It gives how it was before:
-- when that was noted, and how much may be missing; no row where it was at home.
CREATE FUNCTION indoubt.adopt(OUT at bigint, OUT missing_ms bigint, OUT noted boolean) RETURNS SETOF record LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT indoubt.may('decide') THEN
    RAISE EXCEPTION 'this is for a person to decide: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  IF indoubt.adopted() THEN
    RETURN;
  END IF;
  SELECT f.* INTO at, missing_ms, noted FROM indoubt.failed_over() f;
  UPDATE indoubt.lineages SET adopted_at = greatest(clock_timestamp(), noted_at), db_user = session_user WHERE adopted_at IS NULL;
  IF FOUND THEN -- no one else has meanwhile
    RETURN NEXT;
  END IF;
END $$;

CREATE FUNCTION indoubt.lineages_before_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.adopted_at IS NOT NULL OR (NEW.n, NEW.lineage, NEW.noted_at, NEW.known_until, NEW.xid) IS DISTINCT FROM (OLD.n, OLD.lineage, OLD.noted_at, OLD.known_until, OLD.xid) THEN
    RAISE EXCEPTION 'a ledger is adopted once in each database, and what was noted of it never changes' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER before_update BEFORE UPDATE ON indoubt.lineages FOR EACH ROW EXECUTE FUNCTION indoubt.lineages_before_update();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.lineages FOR EACH ROW EXECUTE FUNCTION indoubt.never('the databases of a ledger are never deleted');

REVOKE EXECUTE ON FUNCTION indoubt.adopt() FROM PUBLIC;

INSERT INTO indoubt.lineages (n, lineage, noted_at, known_until, xid, adopted_at, db_user)
SELECT 1, indoubt.lineage(), clock_timestamp(), clock_timestamp(), '3', clock_timestamp(), session_user;
