-- The guards of the ledger: what its tables refuse, and what the database writes by
-- itself when one of them changes; for the list and the counts see derived.sql. They
-- hold no data. Each table has one function for what comes before a row is written,
-- and one for what follows. They say what the guards of the ledger in a file say, and
-- a refusal has the code IN001.
--
-- A comparison with NULL refuses nothing; a column that cannot be NULL is refused after
-- these have run.
--
-- A writer whose change_of equals its change_id keeps the whole record itself, as
-- indoubt does: version, attempts and times are its own. Every other one is
-- completed, whatever columns it wrote. For the first kind the guards do not look
-- ahead for what a unique index refuses.
--
-- What belongs to an operation is written under the lock of its row, which a writer of
-- that row has; the guards take it for one who has not.

-- reserved are names that indoubt signs with itself.
CREATE FUNCTION indoubt.reserved(actor text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower(btrim(actor)) IN ('checks', 'clock') OR lower(btrim(actor)) LIKE 'checks,%';

-- may says what the role of this session allows: 'record', 'read', 'decide' or 'own'. A
-- ledger without roles leaves that to its privileges (see roles.sql).
CREATE FUNCTION indoubt.may(act text) RETURNS boolean LANGUAGE sql STABLE RETURN true;

-- decides is what a person decides, by the verb of the change.
CREATE FUNCTION indoubt.decides(verb text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN verb IN ('confirm', 'deny', 'abandon', 'ack', 'park', 'undo', 'redact', 'hold', 'release', 'run', 'run_over', 'left_out', 'adopt',
                'outage_noted', 'outage_taken');

-- stands is an operation as one that belongs to it may rely on until the end of the
-- transaction.
CREATE FUNCTION indoubt.stands(operation text, OUT state text, OUT live_attempt text, OUT attempt_count bigint, OUT hands_off boolean, OUT deadline_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  mine boolean;
BEGIN
  SELECT p.state, p.live_attempt, p.attempt_count, p.hands_off, p.deadline_at, p.xmin = pg_current_xact_id()::xid
    INTO state, live_attempt, attempt_count, hands_off, deadline_at, mine FROM indoubt.operations p WHERE p.id = operation;
  IF NOT mine THEN
    SELECT p.state, p.live_attempt, p.attempt_count, p.hands_off, p.deadline_at
      INTO state, live_attempt, attempt_count, hands_off, deadline_at FROM indoubt.operations p WHERE p.id = operation FOR NO KEY UPDATE;
  END IF;
END $$;

-- unfit refuses what a column may not have, as a constraint of that name would.
CREATE FUNCTION indoubt.unfit(of_table text, by_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '23514', SCHEMA = 'indoubt', TABLE = of_table, CONSTRAINT = by_name,
    MESSAGE = format('new row for relation "%s" violates check constraint "%s"', of_table, by_name);
END $$;

CREATE FUNCTION indoubt.unfit_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  PERFORM indoubt.unfit(TG_TABLE_NAME, TG_ARGV[0]);
  RETURN NEW;
END $$;

-- never refuses what is never done.
CREATE FUNCTION indoubt.never() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = TG_ARGV[0];
END $$;

-- redacting says that a person takes the text out of an operation: its newest change is
-- that. What belongs to it may then lose its text, too, and nothing else.
CREATE FUNCTION indoubt.redacting(operation text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  RETURN indoubt.may('decide') AND EXISTS (SELECT 1 FROM indoubt.operations WHERE id = operation AND redacted_at IS NOT NULL AND change_verb = 'redact' AND change_of = change_id);
END $$;

-- gone says that a text is as it was, or the marker; masked, or its digest; gone_json, that
-- so are the members of a JSON object.
CREATE FUNCTION indoubt.gone(was text, is_now text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (is_now IS NOT DISTINCT FROM was OR is_now = '[redacted]' AND was <> '') IS true;

CREATE FUNCTION indoubt.masked(was text, is_now text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (is_now = was OR is_now = '[redacted sha256:' || encode(sha256(convert_to(was, 'UTF8')), 'hex') || ']' AND was <> '') IS true;

CREATE FUNCTION indoubt.gone_json(was text, is_now text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF is_now IS NOT DISTINCT FROM was OR is_now = '"[redacted]"' AND was IS NOT NULL THEN
    RETURN true;
  END IF;
  IF indoubt.json_kind(was) <> 'object' OR indoubt.json_kind(is_now) <> 'object' THEN
    RETURN false;
  END IF;
  RETURN (SELECT count(*) FROM json_object_keys(was::json)) = (SELECT count(*) FROM json_object_keys(is_now::json))
     AND NOT EXISTS (SELECT 1 FROM json_each(is_now::json) n WHERE NOT EXISTS (SELECT 1 FROM json_each(was::json) o WHERE o.key = n.key
                       AND (o.value::text = n.value::text OR n.value::text IN ('"[redacted]"', '["[redacted]"]'))));
END $$;

-- ── The ledger itself ────────────────────────────────────────────────────────

CREATE FUNCTION indoubt.meta_before() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF (indoubt.may('own') OR NEW.name LIKE 'clock.%' AND indoubt.may('read')
          AND (TG_OP = 'INSERT' OR NEW.name = OLD.name)
          AND (NEW.name <> 'clock.gap_at' OR CASE WHEN NEW.value ~ '^[0-9]{1,15}$' THEN NEW.value::bigint >= indoubt.gap_at() END)) IS NOT true THEN
    RAISE EXCEPTION 'what a ledger is, its owner says' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER before BEFORE INSERT OR UPDATE ON indoubt.meta FOR EACH ROW EXECUTE FUNCTION indoubt.meta_before();

-- ── Operations ───────────────────────────────────────────────────────────────

-- flight_alone says that a change begins another attempt, or ends at its deadline the one
-- that is in flight, and says nothing else: that is everyone's. What is committed already
-- ends as that, and then the flag may be raised that says so.
CREATE FUNCTION indoubt.flight_alone(was indoubt.operations, is_now indoubt.operations) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  begins CONSTANT boolean := is_now.state = 'pending' AND was.state <> 'pending';
  beside indoubt.operations := is_now;
BEGIN
  IF NOT begins AND NOT (is_now.change_verb = 'expire' AND was.state = 'pending' AND was.deadline_at < clock_timestamp()
       AND (is_now.state = 'uncertain' OR is_now.state = 'committed' AND EXISTS (
            SELECT 1 FROM indoubt.attempts WHERE operation_id = was.id AND id <> was.live_attempt AND 'committed' IN (outcome, late_outcome)))) IS true THEN
    RETURN false;
  END IF;
  beside.state := was.state; beside.version := was.version; beside.live_attempt := was.live_attempt; beside.attempt_count := was.attempt_count;
  beside.deadline_at := was.deadline_at; beside.awaits := was.awaits; beside.parked_until := was.parked_until; beside.error_class := was.error_class; beside.hands := was.hands;
  beside.doubted := was.doubted; beside.doubted_at := was.doubted_at; beside.started_at := was.started_at; beside.ended_at := was.ended_at;
  beside.updated_at := was.updated_at; beside.settled_at := was.settled_at;
  beside.change_id := was.change_id; beside.change_of := was.change_of; beside.change_verb := was.change_verb; beside.change_detail := was.change_detail;
  beside.actor := was.actor; beside.reason := was.reason; beside.os_user := was.os_user; beside.host := was.host; beside.machine := was.machine; beside.terminal := was.terminal;
  beside.resolved := was.resolved; beside.is_open := was.is_open;
  IF begins THEN
    beside.token_sent := was.token_sent; beside.undelivered := was.undelivered; beside.verdict := was.verdict;
  ELSIF is_now.state = 'committed' THEN
    beside.effects := was.effects; beside.verdict := was.verdict; beside.by_answer := was.by_answer; beside.hands_off := was.hands_off;
    beside.conflict := was.conflict; beside.conflict_note := was.conflict_note;
  END IF;
  RETURN beside IS NOT DISTINCT FROM was AND (NOT begins OR is_now.verdict IN ('', was.verdict));
END $$;

-- What a role may not change of an operation, under any name.
CREATE FUNCTION indoubt.operations_before_role(was indoubt.operations, is_now indoubt.operations) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  beside indoubt.operations := is_now;
BEGIN
  IF indoubt.decides(is_now.change_verb) AND is_now.change_id <> was.change_id
     OR (is_now.state = 'abandoned') <> (was.state = 'abandoned') OR was.state = 'committed' AND is_now.state = 'uncertain' AND is_now.conflict = ''
     OR was.conflict <> '' AND is_now.conflict = '' OR is_now.parked_until IS DISTINCT FROM was.parked_until AND is_now.parked_until IS NOT NULL THEN
    RAISE EXCEPTION 'this is for a person to decide: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  IF indoubt.may('read') THEN
    IF is_now.change_id <> was.change_id
       AND (is_now.change_verb = 'read' OR was.state <> 'pending' AND is_now.state NOT IN (was.state, 'pending')
            AND NOT EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = was.id AND db_user = session_user))
       AND NOT EXISTS (SELECT 1 FROM indoubt.reads WHERE operation_id = was.id AND verdict NOT IN ('not_seen', 'cannot_tell') AND xmin = pg_current_xact_id()::xid) THEN
      RAISE EXCEPTION 'what is in doubt is settled by a check, whose row in reads comes first in the same transaction, or by a person: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
    END IF;
    IF was.state = 'pending' AND (is_now.state, is_now.deadline_at, is_now.live_attempt, is_now.awaits) IS DISTINCT FROM (was.state, was.deadline_at, was.live_attempt, was.awaits)
       AND NOT EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = was.id AND id = was.live_attempt AND db_user = session_user)
       AND NOT indoubt.flight_alone(was, is_now) THEN
      RAISE EXCEPTION 'this operation was sent by another user of the database: only that one ends what is in flight, or the role indoubt_operator' USING ERRCODE = 'IN001';
    END IF;
    RETURN;
  END IF;
  IF was.state <> 'pending' AND is_now.state NOT IN (was.state, 'pending') AND is_now.change_of <> is_now.change_id OR is_now.change_verb = 'read' AND is_now.change_id <> was.change_id THEN
    RAISE EXCEPTION 'what is in doubt is settled by a check or by a person: it needs the role indoubt_engine or indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  -- what is not said of this operation alone: that its key is given up, in time
  IF was.ttl_ms > 0 AND was.settled_at + was.ttl_ms * '1 millisecond'::interval <= clock_timestamp() THEN
    beside.key_live := was.key_live;
  END IF;
  beside.resolved := was.resolved; beside.is_open := was.is_open;
  IF beside IS DISTINCT FROM was AND NOT EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = was.id AND db_user = session_user)
     AND NOT indoubt.flight_alone(was, is_now) THEN
    RAISE EXCEPTION 'this operation was sent by another user of the database: only that one changes it, or the role indoubt_engine or indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
END $$;

-- operation_cannot_move says why an operation does not become what it would, but for what
-- is answered in flight.
CREATE FUNCTION indoubt.operation_cannot_move(was indoubt.operations, is_now indoubt.operations, own boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN CASE
    WHEN (is_now.state = 'pending' AND was.state NOT IN ('uncertain', 'failed') OR is_now.state = 'committed' AND was.state NOT IN ('pending', 'uncertain')
       OR is_now.state = 'failed' AND was.state NOT IN ('pending', 'uncertain')
          AND NOT (was.state = 'abandoned' AND was.fact = 'failed' AND is_now.change_verb = 'undo' AND own AND NOT is_now.machine)
       OR is_now.state = 'abandoned' AND was.state NOT IN ('uncertain', 'failed')
       OR is_now.state NOT IN ('pending', 'committed', 'failed', 'uncertain', 'abandoned'))
      AND NOT (was.conflict <> '' AND is_now.conflict = '' AND is_now.state IN ('committed', 'failed', 'abandoned') AND was.state <> 'pending'
               AND is_now.change_verb = 'ack' AND own AND NOT is_now.machine)
      THEN 'the state cannot change like this: pending leads to committed, failed or uncertain; uncertain to committed, failed, pending or abandoned; failed to pending, abandoned or uncertain; committed only to uncertain; abandoned, by an undo, to what it was; a person who deals with a conflict settles it'
    WHEN is_now.state = 'pending' AND (is_now.live_attempt = '' OR is_now.attempt_count <> was.attempt_count + 1 OR NOT own
                                    OR EXISTS (SELECT 1 FROM indoubt.attempts WHERE id = is_now.live_attempt))
      THEN 'another attempt needs its own id in live_attempt and one more in attempt_count, and is recorded by indoubt: use indoubt retry, or begin with the same key'
    WHEN is_now.state = 'pending' AND NOT EXISTS (SELECT 1 FROM indoubt.grants WHERE operation_id = is_now.id AND attempt_id = is_now.live_attempt)
      AND (was.hands_off OR was.attempt_count > (
            SELECT count(*) FROM indoubt.attempts
             WHERE operation_id = is_now.id AND (proof = 'not_there' OR proof <> '' AND (outcome = 'failed' OR late_outcome = 'failed'))))
      THEN 'another attempt needs a grant, or proof that every earlier attempt had no effect'
    WHEN is_now.state = 'pending' AND EXISTS (
           SELECT 1 FROM indoubt.holds h WHERE h.released_at IS NULL AND (h.until IS NULL OR h.until >= is_now.updated_at)
              AND (h.scope = 'all' OR EXISTS (
                    SELECT 1 FROM (SELECT substr(h.scope, 6) AS name WHERE h.scope LIKE 'kind:%' UNION ALL SELECT value FROM indoubt.json_each(h.kinds)) k
                     WHERE k.name = is_now.kind OR strpos(k.name, '*') > 0
                       AND is_now.kind LIKE replace(replace(replace(replace(k.name, '\', '\\'), '_', '\_'), '%', '\%'), '*', '%'))))
      THEN 'a hold stops every attempt but the first'
    WHEN is_now.state = 'pending' AND is_now.target <> '' AND EXISTS (
           SELECT 1 FROM indoubt.grants g JOIN indoubt.operations p ON p.target = is_now.target AND p.created_at > g.created_at
                   AND (p.started_at, p.seq) > (is_now.started_at, is_now.seq)
            WHERE g.operation_id = is_now.id AND g.attempt_id = is_now.live_attempt)
      THEN 'this grant is void: another operation on its target was begun since'
    WHEN is_now.state = 'pending' AND is_now.machine AND EXISTS (SELECT 1 FROM indoubt.grants
             WHERE operation_id = is_now.id AND attempt_id = is_now.live_attempt AND version > was.version AND NOT (basis = 'key_safe' AND key_works))
      THEN 'another send is allowed by a person, and by no machine'
    WHEN is_now.fact <> CASE WHEN NOT own THEN was.fact WHEN is_now.state <> 'abandoned' OR is_now.change_verb = 'ack' THEN '' ELSE was.state END
      THEN 'fact is what is known of an abandoned operation: the state that it had, or failed once every attempt of it is proven'
    END;
END $$;

-- operation_is_not_of says what a person, or one who keeps the record not itself, may not.
CREATE FUNCTION indoubt.operation_is_not_of(was indoubt.operations, is_now indoubt.operations, own boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  noted CONSTANT timestamptz(3) := clock_timestamp();
BEGIN
  RETURN CASE
    WHEN (is_now.change_id <> was.change_id OR is_now.actor <> was.actor) AND indoubt.reserved(is_now.actor)
      THEN 'checks and clock are names of indoubt itself: sign with another one'
    WHEN own THEN NULL
    WHEN is_now.doubted_at < was.doubted_at OR is_now.doubted_at IS NULL AND was.doubted_at IS NOT NULL
      THEN 'what was in doubt stays known as that, and the end of an attempt and a doubt never become earlier'
    WHEN is_now.doubted_at > greatest(was.doubted_at, noted) OR is_now.ended_at > greatest(was.ended_at, noted)
      THEN 'the end of an attempt and a doubt do not lie in the future'
    WHEN (is_now.deadline_at < was.deadline_at OR is_now.deadline_at IS NULL) AND is_now.state = 'pending' AND was.state = 'pending'
      THEN 'the deadline of an attempt in flight does not become earlier'
    WHEN is_now.change_id <> was.change_id AND EXISTS (SELECT 1 FROM indoubt.events WHERE id = is_now.change_id)
      THEN 'this change id is in the history already: the change was made before'
    END;
END $$;

-- operation_completed is what another writer leaves out of a change of state, or wrote as
-- it had read it: no attempt outlives the flight it was made for, every way into doubt
-- says so, and nothing ended before now.
CREATE FUNCTION indoubt.operation_completed(was indoubt.operations, is_now indoubt.operations) RETURNS indoubt.operations LANGUAGE plpgsql AS $$
DECLARE
  noted CONSTANT timestamptz(3) := clock_timestamp();
BEGIN
  is_now.change_of := '';
  is_now.version := was.version + 1;
  is_now.fact := CASE WHEN is_now.state = 'abandoned' THEN was.state ELSE '' END;
  IF is_now.state <> 'pending' THEN
    is_now.live_attempt := '';
    is_now.deadline_at := NULL;
    is_now.awaits := '';
  END IF;
  IF is_now.state = 'committed' AND is_now.receipts <> '[]' AND indoubt.json_kind(is_now.receipts) = 'array' THEN
    is_now.effects := greatest(is_now.effects, json_array_length(is_now.receipts::json), 1);
  ELSIF is_now.state = 'committed' THEN
    is_now.effects := greatest(is_now.effects, 1);
  END IF;
  IF is_now.receipts = '[]' AND is_now.receipt <> '' THEN
    is_now.receipts := json_build_array(is_now.receipt)::text;
  ELSIF is_now.receipt = '' AND indoubt.json_kind(is_now.receipts) = 'array' THEN
    is_now.receipt := coalesce(is_now.receipts::json ->> 0, '');
  END IF;
  is_now.by_answer := CASE WHEN was.state = 'pending' AND is_now.state = 'committed' THEN true WHEN is_now.state = 'uncertain' THEN false ELSE is_now.by_answer END;
  is_now.hands_off := is_now.hands_off OR is_now.state = 'committed' OR is_now.state = 'uncertain' AND was.state <> 'pending';
  is_now.doubted := is_now.doubted OR is_now.state = 'uncertain' OR was.state = 'pending' AND was.deadline_at < noted;
  -- That of the newest answer that did not come stays when the doubt is over.
  is_now.error_class := CASE WHEN is_now.state = 'uncertain' THEN is_now.error_class
                             WHEN was.error_class = '' AND was.state = 'pending' AND was.deadline_at < noted THEN 'deadline' ELSE was.error_class END;
  is_now.updated_at := greatest(is_now.updated_at, noted);
  IF was.state = 'pending' THEN
    is_now.ended_at := greatest(is_now.ended_at, noted);
  END IF;
  IF is_now.state = 'uncertain' AND was.doubted_at IS NULL THEN
    is_now.doubted_at := greatest(is_now.doubted_at, noted);
  END IF;
  is_now.settled_at := CASE WHEN was.state = 'failed' AND is_now.state = 'abandoned' THEN was.settled_at WHEN is_now.state IN ('committed', 'failed', 'abandoned') THEN noted END;
  RETURN is_now;
END $$;

-- receipts_are_lists names the receipts that are none.
CREATE FUNCTION indoubt.receipts_are_lists(o indoubt.operations) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN CASE
    WHEN indoubt.json_kind(o.receipts) <> 'array' THEN 'receipts_is_json'
    WHEN indoubt.json_kind(o.acked_receipts) <> 'array' THEN 'acked_is_json'
    WHEN indoubt.json_kind(o.claimed_receipts) <> 'array' THEN 'claimed_is_json'
    END;
END $$;

-- beside_its_key says that an operation is recorded with its outcome, by one who remembers
-- it, beside the one that has its key meanwhile.
CREATE FUNCTION indoubt.beside_its_key(o indoubt.operations) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN o.change_of = o.change_id AND o.change_verb = 'begin' AND current_setting('indoubt.sent', true) IS NOT DISTINCT FROM 'on'
     AND EXISTS (SELECT 1 FROM indoubt.operations WHERE key = o.key AND scope = o.scope AND kind = o.kind AND key_live::int = 1);
END $$;

-- A guard is an expression that names what is wrong, the first first. PostgreSQL prepares
-- an expression anew for each transaction, with all it may come to; so what is seldom
-- asked stands apart, and what no one may change is asked of those who name it.
CREATE FUNCTION indoubt.operations_before_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  own   CONSTANT boolean := NEW.change_of = NEW.change_id; -- the writer keeps the record itself
  wrong text;
BEGIN
  wrong := CASE
    WHEN NEW.seq IS NOT NULL THEN 'the database numbers its rows: leave the number out'
    WHEN NOT indoubt.may('record') THEN 'this role records no operations: it needs the role indoubt_writer'
    WHEN NOT own AND (NEW.live_attempt <> '' OR NEW.attempt_count <> 0) THEN 'the database records the first attempt: leave live_attempt and attempt_count out'
    WHEN NEW.state <> 'pending' OR NOT NEW.key_live AND NOT indoubt.beside_its_key(NEW) OR NEW.parked_until IS NOT NULL OR NEW.recheck_at IS NOT NULL
      OR NEW.version <> 1 OR NEW.effects <> 0 OR NEW.change_verb NOT IN ('', 'begin') OR '' <> ANY (ARRAY[NEW.fact, NEW.conflict, NEW.verdict, NEW.awaits, NEW.redacted_by])
      THEN 'an operation begins as pending: record it before you send, and its outcome with an UPDATE'
    WHEN NEW.deadline_at <= NEW.created_at OR NEW.deadline_at > NEW.created_at + '31622400 seconds'::interval
      THEN 'deadline_at must come after created_at, in milliseconds, and within a year'
    END;
  IF wrong IS NULL AND (NOT NEW.machine OR NOT own) THEN
    IF indoubt.reserved(NEW.actor) THEN
      wrong := 'checks and clock are names of indoubt itself: sign with another one';
    END IF;
  END IF;
  IF NOT own THEN
    wrong := CASE
      WHEN EXISTS (SELECT 1 FROM indoubt.operations WHERE id = NEW.id) THEN 'this operation is recorded already: operations are never replaced'
      WHEN EXISTS (SELECT 1 FROM indoubt.operations WHERE key = NEW.key AND scope = NEW.scope AND kind = NEW.kind AND key_live::int = 1)
        THEN 'this key is in use by another operation of this kind and scope: look at what became of that one before you send'
      WHEN NEW.gate <> '' AND EXISTS (SELECT 1 FROM indoubt.operations WHERE gate = NEW.gate AND state IN ('pending', 'uncertain'))
        THEN 'the same request is in flight or in doubt under another key: look at what became of that one before you send'
      WHEN EXISTS (SELECT 1 FROM indoubt.events WHERE id = NEW.change_id) THEN 'this change id is in the history already: the change was made before'
      ELSE wrong END;
  END IF;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = wrong;
  END IF;
  NEW.seq := nextval('indoubt.operations_seq');
  IF NEW.live_attempt = '' THEN -- plain SQL names no attempt: the database makes the first one
    NEW.live_attempt := NEW.id || '.1';
    NEW.attempt_count := 1;
    NEW.started_at := NEW.created_at;
    NEW.change_of := '';
  END IF;
  IF NEW.resolved OR NEW.is_open THEN
    NEW.resolved := false;
    NEW.is_open := false;
  END IF;
  wrong := CASE
    WHEN length(NEW.id) NOT BETWEEN 1 AND 200 THEN 'id_is_text'
    WHEN length(NEW.kind) NOT BETWEEN 1 AND 200 THEN 'kind_is_named'
    WHEN length(NEW.key) NOT BETWEEN 1 AND 2000 OR btrim(NEW.key, E' \t\n\v\f\r') = '' THEN 'key_is_given'
    WHEN NEW.created_at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'created_at_is_in_range'
    WHEN NEW.actor = '' THEN 'actor_is_named'
    WHEN least(NEW.updated_at, NEW.deadline_at, NEW.started_at, NEW.ended_at, NEW.doubted_at, NEW.settled_at) < '2000-01-01Z'
      OR greatest(NEW.updated_at, NEW.deadline_at, NEW.started_at, NEW.ended_at, NEW.doubted_at, NEW.settled_at) > '2100-01-01Z' THEN
      CASE WHEN NEW.updated_at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'updated_at_is_in_range'
           WHEN NEW.deadline_at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'deadline_at_is_in_range'
           ELSE 'times_are_in_range' END
    WHEN NEW.deadline_at IS NULL THEN 'pending_has_a_deadline'
    WHEN NEW.deadline_at > NEW.updated_at + '31622400 seconds'::interval THEN 'deadline_is_within_a_year'
    WHEN NOT (indoubt.is_json(NEW.input) AND indoubt.is_json(NEW.command) AND indoubt.is_json(NEW.request) AND indoubt.is_json(NEW.result) AND indoubt.is_json(NEW.change_detail)) THEN 'texts_are_json'
    WHEN '[]' <> ANY (ARRAY[NEW.receipts, NEW.acked_receipts, NEW.claimed_receipts]) THEN indoubt.receipts_are_lists(NEW)
    END;
  IF wrong IS NOT NULL THEN
    PERFORM indoubt.unfit('operations', wrong);
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.operations_before_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  own   CONSTANT boolean := NEW.change_of = NEW.change_id AND NEW.change_id <> OLD.change_id;
  moves CONSTANT boolean := NEW.state <> OLD.state;
  wrong text;
BEGIN
  IF NOT moves THEN
    wrong := CASE WHEN NEW.version = OLD.version
        AND (NEW.live_attempt <> OLD.live_attempt OR NEW.verdict <> OLD.verdict
          OR NEW.effects <> OLD.effects OR NEW.conflict <> OLD.conflict OR NEW.hands_off <> OLD.hands_off)
        THEN 'version must grow with every change of attempt, verdict, effects, conflict or hands_off'
      WHEN NEW.fact <> OLD.fact AND NOT (own AND NEW.state = 'abandoned' AND (NEW.fact = '' AND NEW.change_verb = 'ack' OR OLD.fact = 'uncertain' AND NEW.fact = 'failed'))
        THEN 'fact is what is known of an abandoned operation: the state that it had, or failed once every attempt of it is proven' END;
  ELSIF OLD.state <> 'pending' OR NEW.state NOT IN ('committed', 'failed', 'uncertain') THEN
    wrong := indoubt.operation_cannot_move(OLD, NEW, own);
  ELSIF NEW.state = 'failed' AND OLD.attempt_count > 1 THEN
    IF EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = NEW.id AND id <> OLD.live_attempt
                  AND outcome = 'uncertain' AND late_outcome <> 'failed' AND proof = '') THEN
      wrong := 'an earlier attempt of this operation is still unknown, so it cannot have failed as a whole: settle it as uncertain';
    END IF;
  END IF;
  wrong := CASE
    WHEN moves AND (NEW.change_id = OLD.change_id OR NEW.actor = '' OR btrim(NEW.reason) = '') IS NOT false
      THEN 'a change of state needs a new change_id, an actor and a reason that is not empty'
    WHEN NEW.version NOT IN (OLD.version, OLD.version + 1) THEN 'the version of an operation never goes back, and grows by one'
    WHEN (NEW.attempt_count <> OLD.attempt_count OR NEW.live_attempt <> OLD.live_attempt AND (NEW.state = 'pending' OR NEW.live_attempt <> ''))
      AND NOT (moves AND NEW.state = 'pending')
      THEN 'attempts are counted, and the one in flight is named, when they begin and end'
    WHEN NEW.ended_at < OLD.ended_at OR NEW.ended_at IS NULL AND OLD.ended_at IS NOT NULL
      THEN 'what was in doubt stays known as that, and the end of an attempt and a doubt never become earlier'
    ELSE wrong END;
  IF wrong IS NULL AND (NOT own OR NOT NEW.machine) THEN
    wrong := indoubt.operation_is_not_of(OLD, NEW, own);
  ELSIF NEW.change_verb IN ('grant', 'retry') THEN
    wrong := coalesce(wrong, 'another send is allowed by a person, and by no machine');
  END IF;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = wrong;
  END IF;
  IF NOT indoubt.may('decide') THEN
    PERFORM indoubt.operations_before_role(OLD, NEW);
  END IF;
  IF moves AND (NOT own OR NEW.version = OLD.version OR NEW.state <> 'pending' AND NEW.live_attempt <> ''
             OR NEW.state = 'uncertain' AND (NOT NEW.doubted OR NEW.doubted_at IS NULL OR NEW.ended_at IS NULL)) THEN
    NEW := indoubt.operation_completed(OLD, NEW);
  END IF;
  wrong := CASE
    WHEN NEW.actor = '' THEN 'actor_is_named'
    WHEN least(NEW.updated_at, NEW.deadline_at, NEW.started_at, NEW.ended_at, NEW.doubted_at, NEW.settled_at, NEW.parked_until, NEW.recheck_at) < '2000-01-01Z'
      OR greatest(NEW.updated_at, NEW.deadline_at, NEW.started_at, NEW.ended_at, NEW.doubted_at, NEW.settled_at) > '2100-01-01Z' THEN
      CASE WHEN NEW.updated_at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'updated_at_is_in_range'
           WHEN NEW.deadline_at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'deadline_at_is_in_range'
           ELSE 'times_are_in_range' END
    -- Of a later attempt it may be before: the clock may have been set back since.
    WHEN NEW.state = 'pending' AND (NEW.deadline_at IS NULL OR NEW.attempt_count <= 1 AND NEW.deadline_at < NEW.created_at) THEN 'pending_has_a_deadline'
    WHEN NEW.deadline_at > NEW.updated_at + '31622400 seconds'::interval THEN 'deadline_is_within_a_year'
    WHEN NOT (indoubt.is_json(NEW.result) AND indoubt.is_json(NEW.change_detail)) THEN 'texts_are_json'
    WHEN NEW.fact <> '' AND NEW.state <> 'abandoned' THEN 'fact_is_known'
    WHEN '[]' <> ANY (ARRAY[NEW.receipts, NEW.acked_receipts, NEW.claimed_receipts]) THEN indoubt.receipts_are_lists(NEW)
    END;
  IF wrong IS NOT NULL THEN
    PERFORM indoubt.unfit('operations', wrong);
  END IF;
  NEW.resolved := NEW.conflict = '' AND (NEW.state IN ('committed', 'abandoned') OR NEW.state = 'failed' AND NOT NEW.doubted);
  NEW.is_open := NEW.state = 'uncertain' OR NEW.state = 'failed' AND NEW.doubted OR NEW.conflict <> '' OR NEW.recheck_at IS NOT NULL OR NEW.parked_until IS NOT NULL;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.operations_after_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT indoubt.found_home() THEN
    PERFORM indoubt.adopted();
  END IF;
  INSERT INTO indoubt.events (seq, id, operation_id, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail)
  VALUES (nextval('indoubt.events_seq'), NEW.change_id, NEW.id, NEW.created_at, CASE NEW.change_verb WHEN '' THEN 'begin' ELSE NEW.change_verb END, NEW.actor,
          NEW.os_user, NEW.host, NEW.machine, NEW.terminal, CASE NEW.reason WHEN '' THEN 'attempt 1' ELSE NEW.reason END,
          '', 'pending', NEW.version, NEW.change_detail);
  IF NEW.change_of <> NEW.change_id THEN
    INSERT INTO indoubt.attempts (id, operation_id, n, actor, host, pid, token_sent, started_at, deadline_at)
    VALUES (NEW.live_attempt, NEW.id, 1, NEW.actor, NEW.source_host, NEW.source_pid, NEW.token_sent, NEW.created_at, NEW.deadline_at);
  END IF;
  RETURN NULL;
END $$;

-- The event says how a doubt ended, where evidence ended it: a read, or an answer
-- however late. What is pending past its deadline is a doubt that was not written down.
CREATE FUNCTION indoubt.operations_after_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  own   CONSTANT boolean := NEW.change_of = NEW.change_id;
  moves CONSTANT boolean := NEW.state <> OLD.state;
  noted timestamptz(3) := NEW.updated_at;
  verb  text := NEW.change_verb;
  doubt text;
  shown text;
BEGIN
  IF NOT own OR verb = '' THEN
    verb := CASE
      WHEN OLD.state = 'pending' AND NEW.state <> 'pending' THEN 'settle'
      WHEN NEW.state = 'pending' AND OLD.state <> 'pending' THEN 'begin'
      WHEN moves THEN 'set'
      ELSE 'note' END;
  END IF;
  IF NOT own THEN -- what the columns of the change have is an earlier writer's
    noted := CASE WHEN moves AND OLD.state = 'pending' THEN NEW.ended_at
                  WHEN moves AND NEW.settled_at IS NOT NULL THEN NEW.settled_at ELSE clock_timestamp() END;
    NEW.os_user := ''; NEW.host := ''; NEW.machine := true; NEW.terminal := false;
    IF NEW.change_detail IS NOT DISTINCT FROM OLD.change_detail THEN
      NEW.change_detail := NULL;
    END IF;
  END IF;
  IF NEW.change_id <> OLD.change_id THEN
    IF NEW.state IN ('committed', 'failed') AND (OLD.state = 'uncertain' OR OLD.state = 'pending' AND OLD.deadline_at < noted) THEN
      IF NOT (own AND (NEW.change_verb IN ('confirm', 'deny', 'abandon', 'ack') OR NEW.change_verb = '' AND NOT NEW.machine)) THEN
        doubt := CASE OLD.state WHEN 'pending' THEN 'deadline' ELSE OLD.error_class END;
      END IF;
    END IF;
    IF NOT indoubt.found_home() THEN
      PERFORM indoubt.adopted();
    END IF;
    INSERT INTO indoubt.events (seq, id, operation_id, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail, conflict, doubt)
    VALUES (nextval('indoubt.events_seq'), NEW.change_id, NEW.id, noted, verb, NEW.actor, NEW.os_user, NEW.host, NEW.machine, NEW.terminal, NEW.reason, OLD.state, NEW.state,
            NEW.version, NEW.change_detail, CASE WHEN NEW.conflict <> OLD.conflict OR NEW.conflict_note <> OLD.conflict_note THEN NEW.conflict ELSE '' END, doubt);
  END IF;
  IF moves THEN
    IF NOT own THEN
      IF OLD.state = 'pending' THEN
        IF NEW.state = 'failed' AND NEW.change_detail IS NOT NULL AND indoubt.json_kind(NEW.change_detail) = 'object' THEN
          shown := NEW.change_detail::json ->> 'proof';
        END IF;
        UPDATE indoubt.attempts
           SET outcome = NEW.state, ended_at = greatest(started_at, noted),
               proof = CASE WHEN shown IN ('never_sent', 'refused') THEN shown ELSE '' END,
               error_class = CASE WHEN NEW.state = 'uncertain' THEN NEW.error_class ELSE '' END,
               error = CASE WHEN NEW.state <> 'committed' THEN NEW.reason ELSE '' END,
               status = -1,
               receipt = CASE WHEN NEW.state = 'committed' THEN NEW.receipt ELSE '' END,
               result = CASE WHEN NEW.state = 'committed' THEN NEW.result END,
               token_sent = token_sent OR NEW.token_sent
         WHERE operation_id = OLD.id AND n = OLD.attempt_count AND outcome = '';
      END IF;
      -- A grant was given for a situation that is gone.
      UPDATE indoubt.grants SET voided_at = clock_timestamp(), void_reason = 'the state changed'
       WHERE operation_id = NEW.id AND consumed_at IS NULL AND voided_at IS NULL;
    END IF;
  ELSIF NEW.state = 'pending' AND NEW.deadline_at <> OLD.deadline_at THEN
    -- The deadline of the attempt in flight, at which it would be taken for ended, is
    -- that of its operation.
    UPDATE indoubt.attempts SET deadline_at = NEW.deadline_at
     WHERE operation_id = NEW.id AND n = NEW.attempt_count AND id = NEW.live_attempt AND outcome = '' AND deadline_at <> NEW.deadline_at;
  END IF;
  IF NEW.state = 'pending' OR NEW.is_open OR OLD.is_open THEN
    PERFORM indoubt.operation_moved(OLD, NEW);
  ELSIF EXISTS (SELECT 1 FROM indoubt.open_operations WHERE seq = NEW.seq) THEN
    -- It was answered, as usual, and was priced meanwhile, or a grant put it there.
    PERFORM indoubt.list(NEW.seq, false, NEW.version <> OLD.version);
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION indoubt.operations_before_redaction() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT indoubt.may('decide') THEN
    RAISE EXCEPTION 'this is for a person to decide: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  IF (NEW.change_verb, NEW.change_of, NEW.machine, NEW.redacted_at, NEW.redacted_by, NEW.redacted, NEW.state, NEW.conflict, NEW.command, NEW.request, NEW.result)
      IS DISTINCT FROM ('redact', NEW.change_id, false, NEW.updated_at, NEW.actor, true, OLD.state, '', NULL::text, NULL::text, NULL::text)
     OR NEW.change_id = OLD.change_id OR btrim(NEW.reason) = '' OR OLD.conflict <> '' OR OLD.state IN ('pending', 'uncertain')
     OR NEW.input IS DISTINCT FROM (CASE WHEN OLD.input IS NOT NULL THEN '"[redacted]"' END)
     OR NEW.sent_key <> OLD.sent_key AND NEW.sent_key <> ''
     OR NEW.session <> (CASE OLD.session WHEN '' THEN '' ELSE '[redacted]' END) OR NOT indoubt.masked(OLD.key, NEW.key) THEN
    RAISE EXCEPTION 'a person redacts an operation that is settled and not in conflict, with a reason, and what it says becomes [redacted] and nothing else' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

-- These come before the others, by their names.
CREATE TRIGGER as_begun BEFORE UPDATE OF id, kind, scope, key, sent_key, gate, token, fingerprint, input, command, redacted, created_at, source, source_run, source_host, source_pid, trace, session, request
  ON indoubt.operations FOR EACH ROW
  WHEN (NEW.id <> OLD.id OR NEW.gate <> OLD.gate AND NEW.gate <> '' OR NEW.kind <> OLD.kind OR NEW.scope <> OLD.scope OR NEW.token <> OLD.token OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
     OR NEW.source <> OLD.source OR NEW.source_run <> OLD.source_run OR NEW.source_host <> OLD.source_host OR NEW.source_pid <> OLD.source_pid OR NEW.trace <> OLD.trace
     OR NEW.change_verb <> 'redact' AND (NEW.key, NEW.sent_key, NEW.input, NEW.command, NEW.redacted, NEW.session, NEW.request)
        IS DISTINCT FROM (OLD.key, OLD.sent_key, OLD.input, OLD.command, OLD.redacted, OLD.session, OLD.request))
  EXECUTE FUNCTION indoubt.never('id, kind, scope, key, token, fingerprint, input, source and created_at of an operation never change');
CREATE TRIGGER as_conflicts BEFORE UPDATE OF conflict ON indoubt.operations FOR EACH ROW
  WHEN (NEW.conflict NOT IN ('', 'duplicate', 'contradiction', 'different', 'possible_duplicate')) EXECUTE FUNCTION indoubt.unfit_row('conflict_is_known');
CREATE TRIGGER as_doubted BEFORE UPDATE OF doubted, started_at ON indoubt.operations FOR EACH ROW
  WHEN (OLD.doubted AND NOT NEW.doubted OR OLD.started_at IS NOT NULL AND NEW.started_at IS DISTINCT FROM OLD.started_at)
  EXECUTE FUNCTION indoubt.never('what was in doubt stays known as that, and the end of an attempt and a doubt never become earlier');
CREATE TRIGGER as_effects BEFORE UPDATE OF effects ON indoubt.operations FOR EACH ROW
  WHEN (NEW.effects < 0) EXECUTE FUNCTION indoubt.unfit_row('effects_count');
CREATE TRIGGER as_found BEFORE UPDATE OF verdict ON indoubt.operations FOR EACH ROW
  WHEN (NEW.verdict NOT IN ('', 'landed', 'not_there', 'twice', 'different')) EXECUTE FUNCTION indoubt.unfit_row('verdict_is_known');
CREATE TRIGGER as_hands_off BEFORE UPDATE OF hands_off ON indoubt.operations FOR EACH ROW
  WHEN (OLD.hands_off AND NOT NEW.hands_off) EXECUTE FUNCTION indoubt.never('what only a person settles stays that: hands_off is never taken back');
CREATE TRIGGER as_keyed BEFORE UPDATE OF key_live ON indoubt.operations FOR EACH ROW
  WHEN (NEW.key_live <> OLD.key_live AND (NOT OLD.key_live OR OLD.state IN ('pending', 'uncertain')
     -- an answer that proves nothing holds back nothing that is named by its input alone
     AND NOT (OLD.state = 'pending' AND NEW.state = 'uncertain' AND NEW.gate = '' AND substr(OLD.key, 1, 6) = 'input-')))
  EXECUTE FUNCTION indoubt.never('a key is given up once, and only by an operation that is committed, failed or abandoned');
CREATE TRIGGER as_numbered BEFORE UPDATE OF seq ON indoubt.operations FOR EACH ROW
  WHEN (NEW.seq IS DISTINCT FROM OLD.seq) EXECUTE FUNCTION indoubt.never('seq of an operation never changes');
CREATE TRIGGER as_redacted BEFORE UPDATE OF key, sent_key, input, command, redacted, session, request, redacted_at, redacted_by ON indoubt.operations FOR EACH ROW
  WHEN ((NEW.key, NEW.sent_key, NEW.input, NEW.command, NEW.redacted, NEW.session, NEW.request, NEW.redacted_at, NEW.redacted_by)
        IS DISTINCT FROM (OLD.key, OLD.sent_key, OLD.input, OLD.command, OLD.redacted, OLD.session, OLD.request, OLD.redacted_at, OLD.redacted_by))
  EXECUTE FUNCTION indoubt.operations_before_redaction();
CREATE TRIGGER as_waits BEFORE UPDATE OF awaits ON indoubt.operations FOR EACH ROW
  WHEN (NEW.awaits <> OLD.awaits AND NEW.awaits <> ''
    AND (NEW.state <> 'pending' OR NEW.change_id = OLD.change_id OR coalesce(NEW.actor, '') = '' OR btrim(coalesce(NEW.reason, '')) = ''))
  EXECUTE FUNCTION indoubt.never('only an operation in flight waits for the rest of its answer, and says so with a new change_id, an actor and a reason');
CREATE TRIGGER before_insert BEFORE INSERT ON indoubt.operations FOR EACH ROW EXECUTE FUNCTION indoubt.operations_before_insert();
CREATE TRIGGER before_update BEFORE UPDATE ON indoubt.operations FOR EACH ROW EXECUTE FUNCTION indoubt.operations_before_update();
CREATE TRIGGER told BEFORE UPDATE OF verdict, conflict ON indoubt.operations FOR EACH ROW
  WHEN ((NEW.verdict <> OLD.verdict OR NEW.conflict <> OLD.conflict) AND NEW.change_id = OLD.change_id)
  EXECUTE FUNCTION indoubt.never('a change of verdict or conflict is in the history: it needs a new change_id');
CREATE TRIGGER undelivered BEFORE UPDATE OF undelivered ON indoubt.operations FOR EACH ROW
  WHEN (NEW.undelivered AND NOT OLD.undelivered AND (NEW.state <> 'pending' OR OLD.state = 'pending'))
  EXECUTE FUNCTION indoubt.never('an answer that was delivered stays delivered until another attempt begins');
CREATE TRIGGER after_insert AFTER INSERT ON indoubt.operations FOR EACH ROW EXECUTE FUNCTION indoubt.operations_after_insert();
CREATE TRIGGER after_update AFTER UPDATE ON indoubt.operations FOR EACH ROW EXECUTE FUNCTION indoubt.operations_after_update();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.operations FOR EACH ROW EXECUTE FUNCTION indoubt.never('operations are never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.operations FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('operations are never deleted');

-- ── Attempts and marks ───────────────────────────────────────────────────────

CREATE FUNCTION indoubt.attempts_before() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  o_state text; o_live text; o_count bigint; o_hands_off boolean; o_deadline timestamptz; mine boolean;
  wrong text;
BEGIN
  SELECT p.state, p.live_attempt, p.attempt_count, p.hands_off, p.deadline_at, p.xmin = pg_current_xact_id()::xid
    INTO o_state, o_live, o_count, o_hands_off, o_deadline, mine FROM indoubt.operations p WHERE p.id = NEW.operation_id;
  IF NOT mine THEN
    SELECT * INTO o_state, o_live, o_count, o_hands_off, o_deadline FROM indoubt.stands(NEW.operation_id);
  END IF;
  IF TG_OP = 'INSERT' THEN
    NEW.db_user := session_user;
    IF (NEW.outcome = '' AND NEW.n = 1 AND NEW.grant_id = '' AND o_state = 'pending' AND o_live = NEW.id AND o_count = 1) IS NOT true THEN
      wrong := indoubt.attempt_cannot_begin(NEW, o_state = 'pending' AND o_live = NEW.id AND o_count = NEW.n, o_hands_off);
    END IF;
    IF NEW.policy > 0 AND NEW.policy < (SELECT version FROM indoubt.events WHERE verb = 'policy' ORDER BY seq DESC LIMIT 1) THEN
      wrong := 'this was begun under an older policy than the one in force: read that one, and ask again';
    END IF;
    IF wrong IS NULL AND NOT NEW.key_works AND NOT indoubt.found_home() THEN
      PERFORM indoubt.at_home();
    END IF;
  ELSE
    wrong := CASE
      WHEN OLD.outcome <> '' THEN indoubt.attempt_has_ended(OLD, NEW)
      WHEN (NEW.outcome <> '' OR NEW.deadline_at <> OLD.deadline_at) AND o_state = 'pending' AND o_live = OLD.id
        AND (NEW.outcome <> '' OR o_deadline IS DISTINCT FROM NEW.deadline_at)
        THEN 'an attempt ends, and gets another deadline, with its operation'
      WHEN NEW.outcome = '' AND (NEW.late_at IS NOT NULL OR '' <> ANY (ARRAY[NEW.proof, NEW.late_outcome, NEW.late_receipt]))
        THEN 'an attempt in flight has no outcome, proof or late answer yet'
      END;
    IF wrong IS NULL AND OLD.db_user <> session_user THEN
      IF NOT (OLD.outcome = '' AND NEW.outcome = 'uncertain' AND o_state <> 'pending' AND indoubt.attempt_ends_alone(OLD, NEW))
         AND NOT indoubt.may(CASE WHEN NEW.outcome = OLD.outcome AND NEW.late_outcome = OLD.late_outcome AND NEW.token_sent = OLD.token_sent AND NEW.proof IN (OLD.proof, 'not_there')
                                  THEN 'read' ELSE 'decide' END) THEN
        wrong := 'this operation was sent by another user of the database: only that one changes it, or the role indoubt_engine or indoubt_operator';
      END IF;
    END IF;
  END IF;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = wrong;
  END IF;
  wrong := CASE
    WHEN NEW.outcome NOT IN ('', 'committed', 'failed', 'uncertain') THEN 'outcome_is_known'
    WHEN least(NEW.started_at, NEW.deadline_at, NEW.ended_at, NEW.late_at) < '2000-01-01Z'
      OR greatest(NEW.started_at, NEW.deadline_at, NEW.ended_at, NEW.late_at) > '2100-01-01Z' THEN 'attempt_times_are_in_range'
    WHEN NEW.deadline_at < NEW.started_at THEN 'attempt_deadline_is_after_its_start'
    WHEN (NEW.outcome = '') <> (NEW.ended_at IS NULL) THEN 'attempt_ends_with_an_outcome'
    WHEN NEW.result IS NOT NULL OR NEW.tree_at IS NOT NULL OR '' <> ANY (ARRAY[NEW.late_outcome, NEW.proof, NEW.basis, NEW.tree]) THEN indoubt.attempt_is_unfit(NEW)
    END;
  IF wrong IS NOT NULL THEN
    PERFORM indoubt.unfit('attempts', wrong);
  END IF;
  RETURN NEW;
END $$;

-- attempt_ends_alone says that an attempt has an end, and nothing else that is new.
CREATE FUNCTION indoubt.attempt_ends_alone(was indoubt.attempts, is_now indoubt.attempts) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  is_now.outcome := was.outcome; is_now.ended_at := was.ended_at; is_now.error_class := was.error_class; is_now.error := was.error; is_now.status := was.status;
  RETURN is_now IS NOT DISTINCT FROM was;
END $$;

-- attempt_is_unfit names what is wrong with columns that most attempts leave empty.
CREATE FUNCTION indoubt.attempt_is_unfit(a indoubt.attempts) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN CASE
    WHEN a.late_outcome NOT IN ('', 'committed', 'failed') THEN 'late_outcome_is_known'
    WHEN a.proof NOT IN ('', 'never_sent', 'refused', 'not_there') THEN 'proof_is_known'
    WHEN a.basis NOT IN ('', 'proof', 'key_safe', 'not_seen', 'risk_accepted') THEN 'basis_is_known'
    WHEN NOT indoubt.is_json(a.result) THEN 'attempt_result_is_json'
    WHEN a.tree NOT IN ('', 'open', 'empty') THEN 'tree_is_known'
    WHEN (a.tree = 'empty') <> (a.tree_at IS NOT NULL) OR a.tree_at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'tree_is_seen_empty_at_a_time'
    END;
END $$;

-- attempt_cannot_begin says why one is not recorded that is not the first of its operation,
-- or is not what that has in flight.
CREATE FUNCTION indoubt.attempt_cannot_begin(a indoubt.attempts, flies boolean, hands_off boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN CASE
    WHEN (a.outcome = '' AND flies) IS true THEN CASE
      WHEN EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = a.operation_id AND outcome = '')
        THEN 'an attempt of this operation is in flight: there is never more than one'
      WHEN a.grant_id = '' AND (hands_off -- the proof was contradicted
          OR EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = a.operation_id
                        AND (proof = '' OR proof <> 'not_there' AND outcome <> 'failed' AND late_outcome <> 'failed')))
        THEN 'another attempt needs a grant, or proof that every earlier attempt had no effect'
      WHEN a.grant_id <> '' AND NOT EXISTS (SELECT 1 FROM indoubt.grants WHERE id = a.grant_id AND operation_id = a.operation_id AND attempt_id = a.id)
        THEN 'the grant of this attempt does not exist, or another attempt has consumed it'
      END
    WHEN EXISTS (SELECT 1 FROM indoubt.attempts WHERE id = a.id) OR EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = a.operation_id AND n = a.n)
      THEN 'this attempt is recorded already: attempts are never replaced'
    WHEN EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = a.operation_id AND outcome = '')
      THEN 'an attempt of this operation is in flight: there is never more than one'
    ELSE 'an attempt is recorded as the live_attempt of a pending operation, before it is sent' END;
END $$;

-- attempt_has_ended says what may not come after the end of an attempt.
CREATE FUNCTION indoubt.attempt_has_ended(was indoubt.attempts, is_now indoubt.attempts) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  beside indoubt.attempts := is_now;
BEGIN
  IF is_now.result IS NULL AND indoubt.gone(was.error, is_now.error) AND indoubt.masked(was.receipt, is_now.receipt) AND indoubt.masked(was.late_receipt, is_now.late_receipt) THEN
    beside.result := was.result; beside.error := was.error; beside.receipt := was.receipt; beside.late_receipt := was.late_receipt;
    IF beside IS NOT DISTINCT FROM was AND indoubt.redacting(was.operation_id) THEN
      RETURN NULL;
    END IF;
  END IF;
  RETURN CASE
    WHEN is_now.outcome <> was.outcome OR is_now.ended_at IS DISTINCT FROM was.ended_at OR is_now.deadline_at <> was.deadline_at
      OR is_now.receipt <> was.receipt OR is_now.status <> was.status OR is_now.already <> was.already
      OR is_now.error_class <> was.error_class OR is_now.effect_word <> was.effect_word
      OR is_now.sender <> was.sender OR is_now.key_works <> was.key_works OR was.token_sent AND NOT is_now.token_sent
      OR is_now.error <> was.error AND was.error <> ''
      -- what a late answer brings, comes with it and once
      OR (is_now.late_outcome <> was.late_outcome OR is_now.late_at IS DISTINCT FROM was.late_at OR is_now.late_receipt <> was.late_receipt
          OR is_now.result IS DISTINCT FROM was.result OR is_now.error <> was.error)
         AND (was.outcome <> 'uncertain' OR was.late_outcome <> '' OR is_now.late_outcome = '')
      -- proof may be found later, once, or come with the late answer
      OR is_now.proof <> was.proof
         AND NOT (was.outcome IN ('uncertain', 'failed') AND was.proof = '' AND is_now.proof = 'not_there'
                  OR was.outcome = 'uncertain' AND was.late_outcome = '' AND is_now.late_outcome = 'failed')
      THEN 'an attempt that has ended does not change, but for one late answer if it ended uncertain'
    WHEN is_now.proof = 'not_there' AND was.proof <> 'not_there' AND NOT indoubt.may('read') THEN 'absence is proven by a check: it needs the role indoubt_engine'
    END;
END $$;

CREATE TRIGGER as_begun BEFORE UPDATE OF id, operation_id, n, basis, db_user, grant_id, started_at ON indoubt.attempts FOR EACH ROW
  WHEN (NEW.id <> OLD.id OR NEW.operation_id <> OLD.operation_id OR NEW.n <> OLD.n OR NEW.basis <> OLD.basis OR NEW.db_user <> OLD.db_user
     OR NEW.grant_id <> OLD.grant_id OR NEW.started_at <> OLD.started_at)
  EXECUTE FUNCTION indoubt.never('id, operation, number, basis, grant and start of an attempt never change');
CREATE TRIGGER as_run BEFORE UPDATE OF boot_id, pid_ns, uid, tree, tree_at ON indoubt.attempts FOR EACH ROW
  WHEN (NEW.boot_id <> OLD.boot_id OR NEW.pid_ns <> OLD.pid_ns OR NEW.uid <> OLD.uid AND NEW.uid <> 0
     OR (NEW.tree <> OLD.tree OR NEW.tree_at IS DISTINCT FROM OLD.tree_at) AND (OLD.tree <> 'open' OR NEW.tree <> 'empty'))
  EXECUTE FUNCTION indoubt.never('where the processes of an attempt run never changes, and they are seen gone once');
CREATE TRIGGER as_running BEFORE UPDATE OF proof ON indoubt.attempts FOR EACH ROW
  WHEN (NEW.proof = 'not_there' AND OLD.proof <> 'not_there' AND NEW.tree = 'open')
  EXECUTE FUNCTION indoubt.never('a process of this attempt may still write, so that absence is not proven');
CREATE TRIGGER before BEFORE INSERT OR UPDATE ON indoubt.attempts FOR EACH ROW EXECUTE FUNCTION indoubt.attempts_before();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.attempts FOR EACH ROW EXECUTE FUNCTION indoubt.never('attempts are never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.attempts FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('attempts are never deleted');

CREATE FUNCTION indoubt.marks_before_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM indoubt.operations WHERE id = NEW.operation_id) THEN
    RAISE EXCEPTION 'a mark belongs to an operation that is recorded' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.marks_before_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NEW.operation_id <> OLD.operation_id OR NOT indoubt.masked(OLD.value, NEW.value) OR NOT indoubt.redacting(OLD.operation_id) THEN
    RAISE EXCEPTION 'a mark never changes; a further one may be added' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER before_insert BEFORE INSERT ON indoubt.marks FOR EACH ROW EXECUTE FUNCTION indoubt.marks_before_insert();
CREATE TRIGGER never_changed BEFORE UPDATE ON indoubt.marks FOR EACH ROW EXECUTE FUNCTION indoubt.marks_before_update();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.marks FOR EACH ROW EXECUTE FUNCTION indoubt.never('marks are never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.marks FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('marks are never deleted');

-- ── Reads, grants, events, holds ──────────────────────────

CREATE FUNCTION indoubt.reads_before_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NEW.rowid IS NOT NULL THEN
    RAISE EXCEPTION 'the database numbers its rows: leave the number out' USING ERRCODE = 'IN001';
  END IF;
  IF NOT indoubt.may('read') THEN
    RAISE EXCEPTION 'a check is made by an engine: it needs the role indoubt_engine' USING ERRCODE = 'IN001';
  END IF;
  IF NOT indoubt.found_home() THEN
    PERFORM indoubt.adopted(); -- its proof counts from when a failover was noted
  END IF;
  NEW.rowid := nextval('indoubt.reads_seq');
  IF EXISTS (SELECT 1 FROM indoubt.reads WHERE id = NEW.id) THEN
    RAISE EXCEPTION 'this read is recorded already: reads are never replaced' USING ERRCODE = 'IN001';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM indoubt.operations WHERE id = NEW.operation_id) THEN
    RAISE EXCEPTION 'a read belongs to an operation that is recorded' USING ERRCODE = 'IN001';
  END IF;
  IF NEW.verdict = 'not_there' AND NEW.digest <> (SELECT detail::json ->> 'digest' FROM indoubt.events WHERE verb = 'policy' ORDER BY seq DESC LIMIT 1) THEN
    RAISE EXCEPTION 'what this policy says proves nothing: another one is in force' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.reads_before_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  beside indoubt.reads := NEW;
BEGIN
  beside.reason := OLD.reason; beside.evidence := OLD.evidence; beside.receipts := OLD.receipts;
  IF beside IS DISTINCT FROM OLD OR NOT indoubt.redacting(OLD.operation_id) OR NOT indoubt.gone(OLD.reason, NEW.reason)
     OR NEW.evidence IS DISTINCT FROM (CASE WHEN OLD.evidence IS NOT NULL THEN '"[redacted]"' END) OR indoubt.json_kind(NEW.receipts) <> 'array'
     OR json_array_length(NEW.receipts::json) <> json_array_length(OLD.receipts::json)
     OR EXISTS (SELECT 1 FROM json_array_elements_text(NEW.receipts::json) WITH ORDINALITY AS n (value, i) JOIN json_array_elements_text(OLD.receipts::json) WITH ORDINALITY AS o (value, i) USING (i)
                 WHERE NOT indoubt.masked(o.value, n.value)) THEN
    RAISE EXCEPTION 'a read is evidence and never changes' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER before_insert BEFORE INSERT ON indoubt.reads FOR EACH ROW EXECUTE FUNCTION indoubt.reads_before_insert();
CREATE TRIGGER never_changed BEFORE UPDATE ON indoubt.reads FOR EACH ROW EXECUTE FUNCTION indoubt.reads_before_update();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.reads FOR EACH ROW EXECUTE FUNCTION indoubt.never('reads are never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.reads FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('reads are never deleted');

CREATE FUNCTION indoubt.grants_before_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  o record := indoubt.stands(NEW.operation_id);
BEGIN
  IF NEW.rowid IS NOT NULL THEN
    RAISE EXCEPTION 'the database numbers its rows: leave the number out' USING ERRCODE = 'IN001';
  END IF;
  IF NOT indoubt.may('decide')
     -- A recorder repeats what it sent itself, under a key that the other side remembers.
     AND NOT (NEW.basis = 'key_safe' AND NEW.key_works AND NEW.consumed_at IS NOT NULL AND indoubt.may('record')
              AND EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = NEW.operation_id AND db_user = session_user)) THEN
    RAISE EXCEPTION 'another send is allowed by a person: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  NEW.rowid := nextval('indoubt.grants_seq');
  NEW.db_user := session_user;
  IF EXISTS (SELECT 1 FROM indoubt.grants WHERE id = NEW.id) THEN
    RAISE EXCEPTION 'this grant is recorded already: grants are never replaced' USING ERRCODE = 'IN001';
  END IF;
  IF (o.state IN ('uncertain', 'failed')) IS NOT true THEN
    RAISE EXCEPTION 'a grant belongs to an operation that is uncertain or failed' USING ERRCODE = 'IN001';
  END IF;
  IF NOT NEW.key_works AND NOT indoubt.found_home() THEN
    PERFORM indoubt.at_home();
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.grants_before_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  PERFORM indoubt.stands(OLD.operation_id);
  IF NEW.rowid <> OLD.rowid OR NEW.id <> OLD.id OR NEW.operation_id <> OLD.operation_id OR NEW.version <> OLD.version
     OR NEW.basis <> OLD.basis OR NEW.sender <> OLD.sender OR NEW.key_works <> OLD.key_works OR NEW.actor <> OLD.actor
     OR NEW.reason <> OLD.reason AND NOT (indoubt.gone(OLD.reason, NEW.reason) AND indoubt.redacting(OLD.operation_id))
     OR NEW.created_at <> OLD.created_at OR NEW.expires_at <> OLD.expires_at OR NEW.related <> OLD.related OR NEW.db_user <> OLD.db_user THEN
    RAISE EXCEPTION 'a grant never changes, but for being consumed or voided' USING ERRCODE = 'IN001';
  END IF;
  IF (OLD.consumed_at IS NOT NULL OR OLD.voided_at IS NOT NULL)
     AND (NEW.consumed_at IS DISTINCT FROM OLD.consumed_at OR NEW.attempt_id <> OLD.attempt_id
       OR NEW.voided_at IS DISTINCT FROM OLD.voided_at
       OR NEW.void_reason <> OLD.void_reason AND NOT (indoubt.gone(OLD.void_reason, NEW.void_reason) AND indoubt.redacting(OLD.operation_id))) THEN
    RAISE EXCEPTION 'this grant is used up or void' USING ERRCODE = 'IN001';
  END IF;
  IF OLD.consumed_at IS NULL AND NEW.consumed_at >= OLD.expires_at THEN
    RAISE EXCEPTION 'this grant has expired' USING ERRCODE = 'IN001';
  END IF;
  IF NOT indoubt.may('read') AND NOT (NEW.consumed_at IS NULL AND EXISTS (SELECT 1 FROM indoubt.lineages WHERE n > 1 AND noted_at >= OLD.created_at))
     AND NOT EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = OLD.operation_id AND db_user = session_user AND id <> NEW.attempt_id) THEN
    RAISE EXCEPTION 'this grant is for the user of the database that sent before: it needs the role indoubt_engine or indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.grants_after() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  PERFORM indoubt.grant_moved(NEW.operation_id);
  RETURN NULL;
END $$;

CREATE TRIGGER before_insert BEFORE INSERT ON indoubt.grants FOR EACH ROW EXECUTE FUNCTION indoubt.grants_before_insert();
CREATE TRIGGER before_update BEFORE UPDATE ON indoubt.grants FOR EACH ROW EXECUTE FUNCTION indoubt.grants_before_update();
CREATE TRIGGER after_insert AFTER INSERT ON indoubt.grants FOR EACH ROW EXECUTE FUNCTION indoubt.grants_after();
CREATE TRIGGER after_update AFTER UPDATE ON indoubt.grants FOR EACH ROW
  WHEN (OLD.consumed_at IS NULL AND OLD.voided_at IS NULL AND (NEW.consumed_at IS NOT NULL OR NEW.voided_at IS NOT NULL))
  EXECUTE FUNCTION indoubt.grants_after();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.grants FOR EACH ROW EXECUTE FUNCTION indoubt.never('grants are never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.grants FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('grants are never deleted');

-- event_alone is an event as it is told by itself, and not by a guard.
CREATE FUNCTION indoubt.event_alone(e indoubt.events) RETURNS indoubt.events LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  wrong text := CASE
    WHEN e.seq IS NOT NULL THEN 'the database numbers its rows: leave the number out'
    WHEN NOT indoubt.may('record') THEN 'this role tells nothing: it needs the role indoubt_writer'
    WHEN e.from_state <> e.to_state OR e.doubt IS NOT NULL THEN 'a change of state is in the history because the operation changes: change that'
    WHEN NOT e.machine AND indoubt.reserved(e.actor) THEN 'checks and clock are names of indoubt itself: sign with another one'
    WHEN indoubt.decides(e.verb) AND NOT indoubt.may('decide') THEN 'this is for a person to decide: it needs the role indoubt_operator'
    WHEN e.verb = 'grant' AND NOT indoubt.may('decide') THEN 'another send is allowed by a person: it needs the role indoubt_operator'
    WHEN e.verb = 'read' AND NOT indoubt.may('read') THEN 'a check is made by an engine: it needs the role indoubt_engine'
    WHEN e.verb = 'policy' AND NOT indoubt.may('read') THEN 'a policy is put in force by a person or an engine: it needs the role indoubt_operator or indoubt_engine'
    WHEN e.operation_id <> '' AND e.outage = '' AND (e.verb <> 'note' OR e.conflict <> '') AND NOT indoubt.may('read')
      AND NOT EXISTS (SELECT 1 FROM indoubt.attempts WHERE operation_id = e.operation_id AND db_user = session_user)
      THEN 'this operation was sent by another user of the database: only that one changes it, or the role indoubt_engine or indoubt_operator'
    WHEN EXISTS (SELECT 1 FROM indoubt.events WHERE id = e.id) THEN 'this change id is in the history already: the change was made before'
    WHEN e.verb = 'policy' AND (e.version IS DISTINCT FROM 1 + coalesce((SELECT version FROM indoubt.events WHERE verb = 'policy' ORDER BY seq DESC LIMIT 1), 0)
      OR coalesce(e.detail::json ->> 'digest', '') = '' OR coalesce(json_typeof(e.detail::json -> 'files'), '') <> 'array')
      THEN 'a policy that is put in force has the next number, and its digest and files'
    END;
BEGIN
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = wrong;
  END IF;
  IF NOT indoubt.found_home() THEN
    PERFORM indoubt.adopted();
  END IF;
  e.seq := nextval('indoubt.events_seq');
  e.db_user := session_user;
  e.xid := pg_current_xact_id();
  wrong := CASE
    WHEN e.at NOT BETWEEN '2000-01-01Z' AND '2100-01-01Z' THEN 'event_is_in_range'
    WHEN e.verb = '' OR e.actor = '' THEN 'event_names_who_did_what'
    WHEN NOT indoubt.is_json(e.detail) THEN 'event_detail_is_json'
    END;
  IF wrong IS NOT NULL THEN
    PERFORM indoubt.unfit('events', wrong);
  END IF;
  RETURN e;
END $$;

-- What the guards of an operation or a hold tell has passed them. Others may have triggers,
-- too, but those run without the rights of the ledger's owner, as this does: its names are
-- whole, because the path is the caller's.
CREATE FUNCTION indoubt.events_before_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- What is known of a database that is lost ends with its newest event: none is of later
  -- than it is told, but for what a writer's clock is ahead.
  IF NEW.at OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 second'::pg_catalog.interval) AND NEW.at OPERATOR(pg_catalog.<) '2100-01-01Z'::pg_catalog.timestamptz THEN
    NEW.at := pg_catalog.clock_timestamp();
  END IF;
  IF pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.>) 1 AND pg_catalog.has_table_privilege(TG_RELID, 'TRIGGER') THEN
    RETURN NEW;
  END IF;
  RETURN indoubt.event_alone(NEW);
END $$;

-- The number of a transaction says nothing in another system: adopted() sets it to the lowest.
CREATE FUNCTION indoubt.events_before_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
DECLARE
  beside indoubt.events := NEW;
BEGIN
  beside.reason := OLD.reason; beside.detail := OLD.detail;
  IF beside IS NOT DISTINCT FROM OLD AND indoubt.gone(OLD.reason, NEW.reason) AND indoubt.gone_json(OLD.detail, NEW.detail)
     AND (OLD.operation_id <> '' AND indoubt.redacting(OLD.operation_id) AND OLD.id <> (SELECT change_id FROM indoubt.operations WHERE id = OLD.operation_id)
       OR OLD.verb IN ('run', 'run_over') AND EXISTS (
            SELECT 1 FROM indoubt.events r, json_array_elements(r.detail::json -> 'set') s WHERE r.id = OLD.run AND indoubt.redacting(s ->> 'operation'))
       OR OLD.operation_id = '' AND OLD.outage <> '' AND EXISTS (
            SELECT 1 FROM indoubt.outages i JOIN indoubt.attempts a ON indoubt.ms(a.ended_at) >= indoubt.ms(i.first_at) AND indoubt.ms(a.ended_at) < indoubt.ms(i.last_at) + i.gap_ms
              JOIN indoubt.operations o ON o.id = a.operation_id
             WHERE i.id = OLD.outage AND a.outcome IN ('uncertain', 'failed') AND a.sender <> 'import' AND o.redacted_at IS NOT NULL AND indoubt.redacting(o.id))) THEN
    RETURN NEW;
  END IF;
  beside := NEW;
  beside.xid := OLD.xid;
  IF NEW.xid <> '3' OR beside IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION 'the history never changes' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER before_insert BEFORE INSERT ON indoubt.events FOR EACH ROW EXECUTE FUNCTION indoubt.events_before_insert();
CREATE TRIGGER never_changed BEFORE UPDATE ON indoubt.events FOR EACH ROW EXECUTE FUNCTION indoubt.events_before_update();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.events FOR EACH ROW EXECUTE FUNCTION indoubt.never('the history is never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.events FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('the history is never deleted');

CREATE FUNCTION indoubt.holds_before_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NEW.id IS NOT NULL THEN
    RAISE EXCEPTION 'the database numbers its rows: leave the number out' USING ERRCODE = 'IN001';
  END IF;
  IF NOT indoubt.may('decide') THEN
    RAISE EXCEPTION 'this is for a person to decide: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  NEW.id := nextval('indoubt.holds_seq');
  NEW.db_user := session_user;
  IF EXISTS (SELECT 1 FROM indoubt.holds WHERE scope = NEW.scope AND released_at IS NULL) THEN
    RAISE EXCEPTION 'there is a hold on this scope: release it first' USING ERRCODE = 'IN001';
  END IF;
  IF NOT NEW.machine AND indoubt.reserved(NEW.actor) THEN
    RAISE EXCEPTION 'checks and clock are names of indoubt itself: sign with another one' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION indoubt.holds_before_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NEW.id <> OLD.id OR NEW.scope <> OLD.scope OR NEW.kinds <> OLD.kinds OR NEW.actor <> OLD.actor
     OR NEW.os_user <> OLD.os_user OR NEW.host <> OLD.host OR NEW.machine <> OLD.machine OR NEW.terminal <> OLD.terminal
     OR NEW.reason <> OLD.reason OR NEW.until IS DISTINCT FROM OLD.until OR NEW.created_at <> OLD.created_at OR NEW.db_user <> OLD.db_user
     OR NEW.change_id <> OLD.change_id OR OLD.released_at IS NOT NULL AND NEW.released_at IS DISTINCT FROM OLD.released_at THEN
    RAISE EXCEPTION 'a hold is released once and never changes otherwise' USING ERRCODE = 'IN001';
  END IF;
  IF NOT indoubt.may('decide') THEN
    RAISE EXCEPTION 'this is for a person to decide: it needs the role indoubt_operator' USING ERRCODE = 'IN001';
  END IF;
  RETURN NEW;
END $$;

-- hold_released refuses at the end of a transaction that a hold was released without a word:
-- its event says so, or that of the hold that is in its place.
CREATE FUNCTION indoubt.hold_released() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM indoubt.events WHERE xid = pg_current_xact_id() AND verb IN ('hold', 'release') AND detail::json ->> 'scope' = NEW.scope) THEN
    RAISE EXCEPTION 'the history says that a hold is released: add an event with the verb release and the scope in its detail, in the same transaction' USING ERRCODE = 'IN001';
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION indoubt.holds_after_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, indoubt, pg_temp AS $$
BEGIN
  IF NOT indoubt.found_home() THEN
    PERFORM indoubt.adopted();
  END IF;
  INSERT INTO indoubt.events (seq, id, at, verb, actor, os_user, host, machine, terminal, reason, detail)
  VALUES (nextval('indoubt.events_seq'), NEW.change_id, NEW.created_at, 'hold', NEW.actor, NEW.os_user, NEW.host, NEW.machine, NEW.terminal, NEW.reason,
          json_build_object('scope', NEW.scope, 'kinds', NEW.kinds::json, 'until', indoubt.ms(NEW.until))::text);
  RETURN NULL;
END $$;

CREATE TRIGGER before_insert BEFORE INSERT ON indoubt.holds FOR EACH ROW EXECUTE FUNCTION indoubt.holds_before_insert();
CREATE TRIGGER before_update BEFORE UPDATE ON indoubt.holds FOR EACH ROW EXECUTE FUNCTION indoubt.holds_before_update();
CREATE CONSTRAINT TRIGGER released AFTER UPDATE ON indoubt.holds DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.released_at IS NULL AND NEW.released_at IS NOT NULL) EXECUTE FUNCTION indoubt.hold_released();
CREATE TRIGGER after_insert AFTER INSERT ON indoubt.holds FOR EACH ROW EXECUTE FUNCTION indoubt.holds_after_insert();
CREATE TRIGGER never_deleted BEFORE DELETE ON indoubt.holds FOR EACH ROW EXECUTE FUNCTION indoubt.never('holds are never deleted');
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON indoubt.holds FOR EACH STATEMENT EXECUTE FUNCTION indoubt.never('holds are never deleted');
