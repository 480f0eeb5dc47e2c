-- From schema 1 to schema 2.
ALTER TABLE operations ADD COLUMN
  undelivered  INTEGER NOT NULL DEFAULT 0
    CONSTRAINT undelivered_is_0_or_1 CHECK (undelivered IN (0, 1));
ALTER TABLE operations ADD COLUMN
  awaits       TEXT NOT NULL DEFAULT '';
CREATE INDEX operations_by_awaits ON operations (scope, awaits) WHERE awaits <> '';
