-- What indoubt reads: the tables of the contract that have times and flags, as views
-- of the same names, with times as Unix milliseconds and flags as 0 or 1. They hold
-- no data, and follow from the tables.

CREATE SCHEMA indoubt_rows;

DO $$
DECLARE
  made record;
BEGIN
  FOR made IN
    SELECT c.relname AS name, string_agg(
             CASE a.atttypid WHEN 'timestamptz'::regtype THEN format('indoubt.ms(%1$I) AS %1$I', a.attname)
                             WHEN 'boolean'::regtype THEN format('%1$I::int AS %1$I', a.attname)
                             ELSE quote_ident(a.attname) END, ', ' ORDER BY a.attnum) AS columns
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'indoubt'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY c.relname
    HAVING bool_or(a.atttypid IN ('timestamptz'::regtype, 'boolean'::regtype))
  LOOP
    EXECUTE format('CREATE VIEW indoubt_rows.%I AS SELECT %s FROM indoubt.%I', made.name, made.columns, made.name);
  END LOOP;
END $$;
