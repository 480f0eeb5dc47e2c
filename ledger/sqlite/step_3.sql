-- From schema 2 to schema 3: engines know of each other, and share the rate of a
-- downstream.
CREATE TABLE engines (
  holder TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  since  INTEGER NOT NULL,
  until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE paces (
  downstream TEXT PRIMARY KEY,
  next_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
