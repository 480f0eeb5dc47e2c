-- The roles of a ledger. A DBA gives them to the users that programs and people log in
-- as: GRANT indoubt_writer TO ci. An event has the user that logged in (db_user).
--
--   indoubt_reader    looks
--   indoubt_writer    records operations, and settles what it sent itself
--   indoubt_engine    checks, settles by what a check found
--   indoubt_operator  decides
--
-- Policies, adoptions and prunes are for the owner. Rights are on columns: one on a whole table lets
-- its user lock that against all others.

DO $$
DECLARE
  missing text;
BEGIN
  LOOP -- another ledger of this cluster may have them, or make them meanwhile
    SELECT string_agg('CREATE ROLE ' || name || ' NOLOGIN', '; ') INTO missing
      FROM unnest(ARRAY['indoubt_reader', 'indoubt_writer', 'indoubt_engine', 'indoubt_operator']) name WHERE to_regrole(name) IS NULL;
    EXIT WHEN missing IS NULL;
    BEGIN
      EXECUTE missing;
    EXCEPTION
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'it may not make roles',
          HINT = 'have one with CREATEROLE make them, once for all ledgers of the server, and then do this again: ' || missing;
    END;
  END LOOP;
END $$;

GRANT USAGE ON SCHEMA indoubt TO indoubt_reader, indoubt_writer, indoubt_engine, indoubt_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA indoubt TO indoubt_reader, indoubt_writer, indoubt_engine, indoubt_operator;

GRANT USAGE ON ALL SEQUENCES IN SCHEMA indoubt TO indoubt_writer, indoubt_engine, indoubt_operator;

GRANT INSERT ON indoubt.intent, indoubt.settle TO indoubt_writer;
GRANT INSERT ON indoubt.op, indoubt.price TO indoubt_writer, indoubt_engine, indoubt_operator;
GRANT UPDATE (name, key, live, gate, token_sent, mark, target, title, state, abandoned, version, attempt, unproven, allow_until, allowed_at, started_at, begun_at, deadline_at, ended_at, doubted, doubted_at, settled_at, parked_until, undelivered, awaits, class, verdict, conflict, person_only, by_answer, effects, receipts, policy, rank, by_word, person_at, change_id, changed_at, actor, machine, verb, reason, about, facts, payload) ON indoubt.op TO indoubt_writer, indoubt_engine, indoubt_operator;
GRANT UPDATE (downstream, title, target, duplicate, duplicate_word, duplicate_guess, miss, miss_word, miss_guess, odds, look_at, looks) ON indoubt.price TO indoubt_writer, indoubt_engine, indoubt_operator;
GRANT INSERT (op, n, id, at, verb, actor, machine, reason, before, state, version, about, facts, payload) ON indoubt.ev TO indoubt_writer, indoubt_engine, indoubt_operator;
-- What is folded is for who leads. A person says who is on an outage, holds, and redacts.
GRANT INSERT ON indoubt.total, indoubt.lead, indoubt.outage TO indoubt_engine, indoubt_operator;
GRANT UPDATE (n) ON indoubt.total TO indoubt_engine, indoubt_operator;
GRANT UPDATE (holder, rank, since, until) ON indoubt.lead TO indoubt_engine, indoubt_operator;
GRANT UPDATE (kinds, pipelines, classes, first_at, last_at, answered_at, over_at) ON indoubt.outage TO indoubt_engine, indoubt_operator;
GRANT UPDATE (taken_by, taken_until) ON indoubt.outage TO indoubt_operator;
GRANT INSERT, DELETE ON indoubt.hold TO indoubt_operator;
GRANT DELETE ON indoubt.lead TO indoubt_operator;
GRANT UPDATE (reason, payload) ON indoubt.ev TO indoubt_operator;

-- may asks for the role that this session acts as: the user that logged in, or what it
-- has set. The owner of the ledger may all.
CREATE OR REPLACE FUNCTION indoubt.may(act text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who CONSTANT name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
  RETURN act <> 'own' AND pg_has_role(who, 'indoubt_operator', 'USAGE')
      OR act IN ('record', 'check') AND pg_has_role(who, 'indoubt_engine', 'USAGE')
      OR act = 'record' AND pg_has_role(who, 'indoubt_writer', 'USAGE')
      OR pg_has_role(who, (SELECT nspowner FROM pg_namespace WHERE nspname = 'indoubt'), 'USAGE');
END $$;

-- began reports whether this user began an attempt. By + 0 it is not looked for along all of the history.
CREATE OR REPLACE FUNCTION indoubt.began(op bigint, n bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  RETURN session_user = (SELECT e.db_user FROM indoubt.ev e WHERE e.op = began.op AND e.n = began.n AND e.verb IN ('begin', 'retry') ORDER BY e.seq + 0 LIMIT 1);
END $$;

CREATE OR REPLACE FUNCTION indoubt.op_role_insert() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  IF NOT indoubt.may('record') THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'this role records no operations: it needs the role indoubt_writer';
  END IF;
  IF NEW.changed_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'nothing is told of the future';
  END IF;
  IF NEW.machine = 0 AND NOT indoubt.may('decide') AND EXISTS (SELECT FROM indoubt.hold h WHERE h.begins = 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'to begin under a hold is for a person to decide: it needs the role indoubt_operator';
  END IF;
  RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER op_role_insert BEFORE INSERT ON indoubt.op FOR EACH ROW EXECUTE FUNCTION indoubt.op_role_insert();

-- What a recorder changes is an attempt of its own: it settles it, or answers late. Of another's it gives
-- up the name, ends what is over time, and begins anew what is proven to have had no effect; no more.
CREATE OR REPLACE FUNCTION indoubt.op_role_update() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  changes CONSTANT boolean := NEW.change_id <> OLD.change_id;
  other CONSTANT boolean := (NEW.mark, NEW.target, NEW.title, NEW.gate, NEW.verdict, NEW.effects, NEW.receipts::text, NEW.conflict, NEW.undelivered, NEW.policy, NEW.rank, NEW.by_word, NEW.person_at, NEW.parked_until)
    IS DISTINCT FROM (OLD.mark, OLD.target, OLD.title, OLD.gate, OLD.verdict, OLD.effects, OLD.receipts::text, OLD.conflict, OLD.undelivered, OLD.policy, OLD.rank, OLD.by_word, OLD.person_at, OLD.parked_until);
  found text := '';
BEGIN
  IF NEW.changed_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1000 AND changes THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'nothing is told of the future';
  END IF;
  IF indoubt.may('decide') AND (OLD.state <> 'pending' OR NEW.state = 'pending' AND NEW.deadline_at = OLD.deadline_at) THEN
    RETURN NEW;
  END IF;
  IF NOT indoubt.may('record') THEN
    found := 'this role records no operations: it needs the role indoubt_writer';
  ELSIF changes AND NEW.machine = 0 AND OLD.state <> 'pending' THEN
    found := 'this is for a person to decide: it needs the role indoubt_operator';
  ELSIF OLD.state = 'pending' AND (changes OR NEW.deadline_at <> OLD.deadline_at) THEN
    IF NOT indoubt.began(OLD.seq, OLD.attempt) AND NOT (NEW.state = 'uncertain' AND OLD.deadline_at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint
       AND coalesce(NEW.facts ->> 'proof', '') = '' AND (NOT other OR indoubt.may('check'))) AND NOT (NEW.verb = 'late' AND NEW.state = 'pending' AND indoubt.began(OLD.seq, (NEW.facts ->> 'n')::bigint)) THEN
      found := 'what is in flight is settled by who sent it, and this was begun by another user of the database';
    END IF;
  ELSIF indoubt.may('check') THEN
    NULL;
  ELSIF NOT changes THEN
    IF other AND NOT indoubt.began(OLD.seq, OLD.attempt) THEN
      found := 'this was begun by another user of the database';
    END IF;
  ELSIF NEW.attempt > OLD.attempt THEN
    IF NOT indoubt.began(OLD.seq, OLD.attempt) AND (other OR OLD.state <> 'failed' OR OLD.unproven > 0) THEN
      found := 'to send again is for the user of the database that sent before';
    END IF;
  ELSIF NEW.verb NOT IN ('late', 'settle', 'tree', 'wait') OR NEW.state = 'failed' AND coalesce(NEW.facts ->> 'proof', '') NOT IN ('never_sent', 'refused') THEN
    found := 'this is settled by a check or by a person: it needs the role indoubt_engine or indoubt_operator';
  ELSIF NOT indoubt.began(OLD.seq, coalesce((NEW.facts ->> 'n')::bigint, OLD.attempt)) THEN
    found := 'this was begun by another user of the database';
  END IF;
  IF found <> '' THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = found;
  END IF;
  RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER op_role_update BEFORE UPDATE ON indoubt.op FOR EACH ROW EXECUTE FUNCTION indoubt.op_role_update();

-- An event that tells of a change is the owner's to write, by its trigger. What a user tells beside is of its role.
CREATE OR REPLACE FUNCTION indoubt.ev_role_insert() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  IF pg_has_role(current_user, (SELECT nspowner FROM pg_namespace WHERE nspname = 'indoubt'), 'USAGE') THEN
    RETURN NEW;
  END IF;
  IF NEW.at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1000 OR NEW.verb IN ('policy', 'adopt', 'prune') OR NOT indoubt.may('decide') AND NOT (NEW.machine = 1 AND
       (indoubt.may('check') AND NEW.verb NOT IN ('run', 'run_over', 'left_out', 'hold', 'release') OR NEW.op <> 0 AND (NEW.verb = 'note' OR NEW.verb IN ('tree', 'look') AND indoubt.began(NEW.op, NEW.n)))) THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'this role tells nothing of that kind: a person does, with the role indoubt_operator, or the owner';
  END IF;
  RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER ev_role_insert BEFORE INSERT ON indoubt.ev FOR EACH ROW EXECUTE FUNCTION indoubt.ev_role_insert();

CREATE OR REPLACE FUNCTION indoubt.price_role() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  IF NOT indoubt.may('check') AND NOT coalesce((SELECT indoubt.began(o.seq, o.attempt) FROM indoubt.op o WHERE o.seq = NEW.op), FALSE) THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'this was begun by another user of the database';
  END IF;
  RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER price_role BEFORE INSERT OR UPDATE ON indoubt.price FOR EACH ROW EXECUTE FUNCTION indoubt.price_role();
