-- From schema 2 to schema 3: engines share the rate of a downstream.
CREATE TABLE paces (
  downstream TEXT PRIMARY KEY,
  next_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
