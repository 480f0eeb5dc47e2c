-- The roles of a ledger. A DBA gives them to the users that programs and people log in
-- as: GRANT indoubt_writer TO ci. Who does what is enforced here and by the guards,
-- which ask may(); an event has the user that logged in (db_user).
--
--   indoubt_reader    looks
--   indoubt_writer    records operations, and settles what it sent itself
--   indoubt_engine    checks, settles by what a check found, sends where that is safe
--   indoubt_operator  decides

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

GRANT USAGE ON SCHEMA indoubt, indoubt_rows TO indoubt_reader, indoubt_writer, indoubt_engine, indoubt_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA indoubt, indoubt_rows TO indoubt_reader, indoubt_writer, indoubt_engine, indoubt_operator;

-- What is recorded, and what a recorder leaves beside it: its names, its price.
GRANT INSERT, UPDATE ON indoubt.operations, indoubt.attempts, indoubt.open_operations
  TO indoubt_writer, indoubt_engine, indoubt_operator;
GRANT INSERT ON indoubt.marks, indoubt.events, indoubt.grants TO indoubt_writer, indoubt_engine, indoubt_operator;
GRANT UPDATE (consumed_at, attempt_id, voided_at, void_reason) ON indoubt.grants TO indoubt_writer, indoubt_engine, indoubt_operator;

GRANT INSERT ON indoubt.reads TO indoubt_engine, indoubt_operator;
GRANT INSERT, UPDATE ON indoubt.meta, indoubt.lead, indoubt.total TO indoubt_engine, indoubt_operator;
-- Outages are folded by who leads. A person says who is on one.
GRANT INSERT (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at) ON indoubt.outages TO indoubt_engine, indoubt_operator;
GRANT UPDATE (kinds, pipelines, classes, first_at, last_at, answered_at, over_at) ON indoubt.outages TO indoubt_engine, indoubt_operator;
GRANT UPDATE (taken_by, taken_until) ON indoubt.outages TO indoubt_operator;

GRANT EXECUTE ON FUNCTION indoubt.adopt() TO indoubt_operator;
GRANT INSERT, UPDATE ON indoubt.holds TO indoubt_operator;
GRANT DELETE ON indoubt.lead TO indoubt_operator;
-- What a redaction takes; the guards let nothing else be changed.
GRANT UPDATE (reason, receipts, evidence) ON indoubt.reads TO indoubt_operator;
GRANT UPDATE (reason, detail) ON indoubt.events TO indoubt_operator;
GRANT UPDATE (value) ON indoubt.marks TO indoubt_operator;
GRANT UPDATE (reason) ON indoubt.grants TO indoubt_operator;

-- may asks for the role that this session acts as: the user that logged in, or what it
-- has set. The owner of the ledger may all.
CREATE OR REPLACE FUNCTION indoubt.may(act text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who CONSTANT name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
  RETURN act <> 'own' AND pg_has_role(who, 'indoubt_operator', 'USAGE')
      OR act IN ('record', 'read') AND pg_has_role(who, 'indoubt_engine', 'USAGE')
      OR act = 'record' AND pg_has_role(who, 'indoubt_writer', 'USAGE')
      OR pg_has_role(who, (SELECT nspowner FROM pg_namespace WHERE nspname = 'indoubt'), 'USAGE');
END $$;
