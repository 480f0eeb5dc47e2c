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
GRANT INSERT ON indoubt.hold TO indoubt_engine, indoubt_operator; -- an engine, where the ledger lacks what it has followed
GRANT UPDATE (kinds, until) ON indoubt.hold TO indoubt_operator; -- of what an adoption left behind
GRANT DELETE ON indoubt.hold, indoubt.lead TO indoubt_operator;
GRANT UPDATE (reason, payload) ON indoubt.ev TO indoubt_operator;

CREATE OR REPLACE FUNCTION indoubt.price_role() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ DECLARE acting CONSTANT name := {acting}; BEGIN
  IF NOT {may check} AND NOT coalesce((SELECT {began o.seq, o.attempt} FROM indoubt.op o WHERE o.seq = NEW.op), FALSE) THEN
    RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = 'this was begun by another user of the database';
  END IF;
  RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER price_role BEFORE INSERT OR UPDATE ON indoubt.price FOR EACH ROW EXECUTE FUNCTION indoubt.price_role();

-- What the guards ask for beside, in the language of ledger.sql, of the role that a session acts as: of the user that
-- logged in, or what it has set. What a recorder changes is an attempt of its own: it settles it, or answers late. Of
-- another's it gives up the name, ends what is over time, and begins anew what is proven to have had no effect; no more.
-- An event that tells of a change is the owner's to write, by its trigger; what a user tells beside is of its role.
@refuse op INSERT
- this role records no operations: it needs the role indoubt_writer
  NOT {may record}
- nothing is told of the future
  NEW.changed_at > {now} + 1000
- to begin under a hold is for a person to decide: it needs the role indoubt_operator
  NEW.machine = 0 AND NOT {may decide} AND EXISTS (SELECT FROM indoubt.hold h WHERE h.begins = 1)
@refuse op UPDATE
- nothing is told of the future
  NEW.changed_at > {now} + 1000 AND NEW.change_id <> OLD.change_id
- this role records no operations: it needs the role indoubt_writer
  NOT {may record}
- this is for a person to decide: it needs the role indoubt_operator
  NEW.machine = 0 AND NEW.change_id <> OLD.change_id AND OLD.state <> 'pending' AND NOT {may decide}
- what is in flight is settled by who sent it, and this was begun by another user of the database
  OLD.state = 'pending' AND (NEW.change_id <> OLD.change_id OR NEW.deadline_at <> OLD.deadline_at) AND NOT {began OLD.seq, OLD.attempt} AND NOT (NEW.state = 'pending' AND NEW.deadline_at = OLD.deadline_at AND {may decide}) AND NOT (NEW.state = 'uncertain' AND OLD.deadline_at < {now} AND coalesce(NEW.facts ->> 'proof', '') = '' AND (NOT ({differs mark, target, title, gate, verdict, effects, receipts::text, conflict, undelivered, policy, rank, by_word, person_at, parked_until}) OR {may check})) AND NOT (NEW.verb = 'late' AND NEW.state = 'pending' AND {began OLD.seq, coalesce((NEW.facts ->> 'n')::bigint, OLD.attempt)})
- this was begun by another user of the database
  NEW.change_id = OLD.change_id AND (OLD.state <> 'pending' OR NEW.deadline_at = OLD.deadline_at) AND ({differs mark, target, title, gate, verdict, effects, receipts::text, conflict, undelivered, policy, rank, by_word, person_at, parked_until}) AND NOT {may check} AND NOT {began OLD.seq, OLD.attempt}
- to send again is for the user of the database that sent before
  NEW.attempt > OLD.attempt AND (OLD.state <> 'failed' OR OLD.unproven > 0 OR ({differs mark, target, title, gate, verdict, effects, receipts::text, conflict, undelivered, policy, rank, by_word, person_at, parked_until})) AND NOT {may check} AND NOT {began OLD.seq, OLD.attempt}
- this is settled by a check or by a person: it needs the role indoubt_engine or indoubt_operator
  OLD.state <> 'pending' AND NEW.change_id <> OLD.change_id AND NEW.attempt = OLD.attempt AND (NEW.verb NOT IN ('late', 'settle', 'tree', 'wait') OR NEW.state = 'failed' AND coalesce(NEW.facts ->> 'proof', '') NOT IN ('never_sent', 'refused')) AND NOT {may check}
- this was begun by another user of the database
  OLD.state <> 'pending' AND NEW.change_id <> OLD.change_id AND NEW.attempt = OLD.attempt AND NOT {may check} AND NOT {began OLD.seq, coalesce((NEW.facts ->> 'n')::bigint, OLD.attempt)}
@refuse ev INSERT
- this role tells nothing of that kind: a person does, with the role indoubt_operator, or the owner
  NOT pg_has_role(current_user, indoubt.owner(), 'USAGE') AND (NEW.at > {now} + 1000 OR NEW.verb IN ('policy', 'adopt', 'prune') OR NOT {may decide} AND NOT (NEW.machine = 1 AND ({may check} AND NEW.verb NOT IN ('run', 'run_over', 'left_out', 'release') OR NEW.op <> 0 AND (NEW.verb = 'note' OR NEW.verb IN ('tree', 'look') AND {began NEW.op, NEW.n}) AND {may record})))
