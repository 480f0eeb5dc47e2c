-- Where the ledger is at home: the system's identifier, the timeline in hexadecimal digits, the numbers of
-- the database and of a table. On a standby it is NULL. A database that is promoted, restored or copied is
-- another one, and lacks what came last to the one before it. A promotion is told by the timeline of the log
-- that is written now: the control file has it only after a checkpoint.
CREATE FUNCTION indoubt.home() RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  RETURN CASE WHEN NOT pg_is_in_recovery() THEN (pg_control_system()).system_identifier || '.' || ltrim(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), '0')
    || '.' || split_part(pg_relation_filepath('indoubt.meta'::regclass), '/', -2) || '.' || 'indoubt.meta'::regclass::oid END; END $$;

-- The owner of the ledger, who made this function. To ask the catalogue takes a query.
CREATE FUNCTION indoubt.owner() RETURNS name LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN RETURN current_user; END $$;

-- A price that is taken away. The right to delete is one over the whole table, and lets its user lock it.
CREATE FUNCTION indoubt.price_taken() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  DELETE FROM indoubt.price WHERE op = NEW.op;
  RETURN NULL; END $$;
CREATE TRIGGER price_taken AFTER UPDATE ON indoubt.price FOR EACH ROW WHEN (NEW.looks < 0) EXECUTE FUNCTION indoubt.price_taken();

-- What lets someone send is refused elsewhere, until a person has looked and adopted the ledger. It is asked
-- at COMMIT: what is recorded there with its outcome was sent before.
CREATE FUNCTION indoubt.op_at_home() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  IF NEW.attempt > coalesce(OLD.attempt, 0) OR NEW.allow_until > OLD.allow_until OR NEW.machine = 1 AND OLD.state = 'uncertain' AND NEW.state = 'failed' THEN
   IF (SELECT value FROM indoubt.meta WHERE name = 'home') IS DISTINCT FROM indoubt.home() THEN
    IF EXISTS (SELECT FROM indoubt.op o WHERE o.seq = NEW.seq AND (o.state = 'pending' AND o.attempt = NEW.attempt OR o.allow_until <> 0 OR NEW.state = 'failed')) THEN
     RAISE EXCEPTION USING ERRCODE = 'IN002', MESSAGE = 'the database failed over or was restored, and what was sent last may be missing: nothing is begun, allowed or proven until a person has looked and adopted the ledger';
    END IF;
   END IF;
  END IF;
  RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER op_at_home AFTER INSERT OR UPDATE ON indoubt.op DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION indoubt.op_at_home();
