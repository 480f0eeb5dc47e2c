-- From schema 3 to schema 4: those that have given a key up, and those without a
-- fingerprint, are found where others are looked for that may have done the same.
CREATE INDEX operations_retired ON operations (key) WHERE key_live = 0;
CREATE INDEX operations_unprinted ON operations (created_at) WHERE fingerprint = '';
