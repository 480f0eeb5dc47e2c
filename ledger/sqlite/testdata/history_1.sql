-- What may be in a ledger of schema 1: operations in every state, and a row in
-- every other table.
INSERT INTO operations (id, kind, key, token, token_sent, input, created_at, updated_at, deadline_at, source, actor) VALUES
  ('o-flight', 'mail.send', 'in flight', 't-1', 1, '{"to": "ana"}', 1790000000000, 1790000000000, 1790000900000, 'nightly', 'nightly'),
  ('o-late',   'mail.send', 'overdue',   't-2', 1, '{"to": "ben"}', 1790000001000, 1790000001000, 1790000002000, 'nightly', 'nightly'),
  ('o-done',   'mail.send', 'done',      't-3', 1, '{"to": "cleo"}', 1790000002000, 1790000002000, 1790000062000, 'nightly', 'nightly'),
  ('o-doubt',  'mail.send', 'doubt',     't-4', 1, '{"to": "dora"}', 1790000003000, 1790000003000, 1790000063000, 'nightly', 'nightly'),
  ('o-denied', 'card.charge', 'denied',  't-5', 1, '{"amount": 1}', 1790000004000, 1790000004000, 1790000064000, 'nightly', 'nightly'),
  ('o-said-no', 'card.charge', 'refused', 't-6', 1, '{"amount": 2}', 1790000005000, 1790000005000, 1790000065000, 'nightly', 'nightly'),
  ('o-left',   'card.charge', 'left',    't-7', 1, '{"amount": 3}', 1790000006000, 1790000006000, 1790000066000, 'nightly', 'nightly'),
  ('o-landed', 'card.charge', 'landed',  't-8', 1, '{"amount": 4}', 1790000007000, 1790000007000, 1790000067000, 'nightly', 'nightly'),
  ('o-absent', 'card.charge', 'absent',  't-9', 1, '{"amount": 5}', 1790000008000, 1790000008000, 1790000068000, 'nightly', 'nightly'),
  ('o-answered', 'card.charge', 'answered late', 't-10', 1, '{"amount": 6}', 1790000009000, 1790000009000, 1790000069000, 'nightly', 'nightly'),
  ('o-twice',  'card.charge', 'twice',   't-11', 1, '{"amount": 7}', 1790000010000, 1790000010000, 1790000070000, 'nightly', 'nightly');

UPDATE operations SET state = 'committed', receipt = 'm-9', result = '{"id": "m-9"}', change_id = 'done-2', actor = 'nightly', reason = 'answered' WHERE id = 'o-done';
UPDATE operations SET state = 'failed', change_detail = '{"proof":"refused"}', change_id = 'no-2', actor = 'nightly', reason = '402' WHERE id = 'o-said-no';
UPDATE operations SET state = 'uncertain', error_class = 'timeout', change_id = id || '-2', actor = 'nightly', reason = 'no answer'
 WHERE id IN ('o-doubt', 'o-denied', 'o-left', 'o-landed', 'o-absent', 'o-answered', 'o-twice');

UPDATE operations SET state = 'failed', error_class = '', version = 3, settled_at = updated_at, change_id = 'denied-3', change_of = 'denied-3', change_verb = 'deny',
       machine = 0, terminal = 1, actor = 'maya', reason = 'asked them' WHERE id = 'o-denied';
UPDATE operations SET state = 'abandoned', version = 3, settled_at = updated_at, change_id = 'left-3', change_of = 'left-3', change_verb = 'abandon',
       machine = 0, terminal = 1, actor = 'maya', reason = 'too small' WHERE id = 'o-left';
UPDATE operations SET state = 'committed', error_class = '', verdict = 'landed', effects = 1, receipt = 'pi_8', receipts = '["pi_8"]', hands_off = 1, version = 3,
       settled_at = updated_at, change_id = 'landed-3', change_of = 'landed-3', change_verb = 'read', actor = 'auto', reason = 'one found' WHERE id = 'o-landed';
UPDATE attempts SET proof = 'absent' WHERE operation_id = 'o-absent';
UPDATE operations SET state = 'failed', error_class = '', verdict = 'absent', version = 3, settled_at = updated_at,
       change_id = 'absent-3', change_of = 'absent-3', change_verb = 'read', actor = 'auto', reason = 'none found' WHERE id = 'o-absent';
UPDATE attempts SET late_outcome = 'committed', late_at = 1790000080000, late_receipt = 'pi_10' WHERE operation_id = 'o-answered';
UPDATE operations SET state = 'committed', error_class = '', effects = 1, receipt = 'pi_10', receipts = '["pi_10"]', by_answer = 1, hands_off = 1, version = 3,
       settled_at = updated_at, change_id = 'late-3', change_of = 'late-3', change_verb = 'late', actor = 'nightly', reason = 'late answer' WHERE id = 'o-answered';
UPDATE operations SET state = 'committed', error_class = '', verdict = 'duplicated', effects = 2, receipt = 'pi_a', receipts = '["pi_a","pi_b"]', hands_off = 1, version = 3,
       conflict = 'duplicate', conflict_note = 'two found',
       settled_at = updated_at, change_id = 'twice-3', change_of = 'twice-3', change_verb = 'read', actor = 'auto', reason = 'two found' WHERE id = 'o-twice';

INSERT INTO reads (id, operation_id, began_at, ended_at, verdict, reason) VALUES ('r-1', 'o-doubt', 1790000070000, 1790000070020, 'inconclusive', 'too early');
INSERT INTO controls (kind, digest, held_at, read_id) VALUES ('mail.send', 'p1', 1790000070000, 'r-0');
INSERT INTO grants (id, operation_id, version, basis, sender, actor, reason, created_at, expires_at)
VALUES ('g-1', 'o-denied', 3, 'risk_accepted', 'pipeline', 'maya', 'must', 1790000080000, 1790003680000);
INSERT INTO decisions (id, verb, actor, created_at) VALUES ('run-1', 'deny', 'maya', 1790000080000);
INSERT INTO leases (operation_id, holder, generation, digest, expires_at) VALUES ('o-doubt', 'engine', 3, 'p1', 1790000160000);
INSERT INTO holds (scope, actor, reason) VALUES ('kind:x', 'maya', 'night');
UPDATE open_operations SET digest = 'p1', rank = 5, miss_value = 10, decide_at = 1790000900000, ripe = 0 WHERE id = 'o-doubt';
