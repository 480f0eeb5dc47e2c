//go:build soak

package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/postgres/pgtest"
)

// fill makes a ledger with many operations, a tenth of them in doubt, priced and in outages, and gives its
// address. They are copies of two that the store has written, with the triggers set aside meanwhile.
func fill(t testing.TB, operations int) string {
	t.Helper()
	return pgtest.From(t, fmt.Sprint("full_", operations), func(url string) error {
		s, err := Create(ctx, url, Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		for _, outcome := range []ledger.Outcome{ledger.OutcomeUncertain, ledger.OutcomeCommitted} {
			req := begun(ledger.NewID())
			req.Input = []byte(`{"amount": 4200, "customer": "cus_9", "note": "an input as long as inputs usually are, with some words in it"}`)
			req.Gate, req.Token, req.TokenSent = ledger.NewID(), ledger.NewID(), true
			_, err := ledger.Begin(ctx, s, req)
			if err == nil {
				_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: outcome, ErrorClass: ledger.ClassTimeout,
					Receipt: map[ledger.Outcome]string{ledger.OutcomeCommitted: "ch"}[outcome], TokenSent: true, Actor: req.Actor})
			}
			if err != nil {
				return err
			}
		}
		if err := s.Close(); err != nil { // nothing is connected to a template
			return err
		}
		copied := func(table string, made map[string]string) string {
			names, err := pgtest.Psql(t, url, `SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'indoubt.`+table+`'::regclass AND attnum > 0`)
			if err != nil {
				return names
			}
			var values []string
			for _, name := range strings.Fields(names) {
				values = append(values, cmp.Or(made[name], "w."+name))
			}
			return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s", table, strings.Join(strings.Fields(names), ", "), strings.Join(values, ", "))
		}
		script := fmt.Sprintf(`SET search_path = indoubt; BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL maintenance_work_mem = '256MB';
			CREATE TEMP TABLE aside ON COMMIT DROP AS SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'indoubt' AND tablename IN ('op', 'ev') AND indexname NOT LIKE '%%key';
			DO $$ DECLARE one text; BEGIN FOR one IN SELECT indexname FROM aside LOOP EXECUTE 'DROP INDEX ' || one; END LOOP; END $$; -- made over all rows, they take a tenth of the time
			CREATE TEMP TABLE was ON COMMIT DROP AS SELECT * FROM op;
			CREATE TEMP TABLE said ON COMMIT DROP AS SELECT * FROM ev;
			CREATE TEMP TABLE new ON COMMIT DROP AS SELECT i, CASE WHEN i %% 10 = 0 THEN 1 ELSE 2 END AS was, %d - (%[2]d - i) * 100 AS t FROM generate_series(1::bigint, %[2]d) i;
			TRUNCATE op, ev, price, total;
			%[3]s FROM new JOIN was w ON w.seq = new.was ORDER BY i;
			%[4]s FROM new JOIN said w ON w.op = new.was ORDER BY i, w.seq;
			INSERT INTO price (op, downstream, duplicate, miss, odds) SELECT i, 'stripe', 100, 50, 0.4 FROM new WHERE was = 1;
			INSERT INTO total SELECT format('["%%s","%%s",""]', state, kind), count(*) FROM op GROUP BY state, kind UNION ALL SELECT '["seq","",""]', max(place) FROM ev;
			INSERT INTO outage (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at) -- all that is in doubt is of these
			SELECT md5(i::text), 'downstream:stripe', '["stripe.charge","mail.send"]', '[]', '[]', 100000, t, t, t + 100000 FROM new WHERE i %% 2000 = 1;
			SELECT setval('op_seq', %[2]d), setval('ev_seq', 2 * %[2]d);
			DO $$ DECLARE one text; BEGIN FOR one IN SELECT indexdef FROM aside LOOP EXECUTE one; END LOOP; END $$;
			COMMIT`, time.Now().UnixMilli(), operations,
			copied("op", map[string]string{"seq": "i", "id": `'01900000-0000-7000-8000-' || lpad(i::text, 12, '0')`, "kind": `CASE i % 4 WHEN 0 THEN 'mail.send' ELSE 'stripe.charge' END`,
				"name": `'key-' || i`, "token": `'indoubt-' || i`, "input": `md5(i::text) || md5((-i)::text)`, "gate": `md5(i::text)`, "title": `'charge cus_' || i % 9973 || ' for INV-' || i`,
				"target": `'invoice INV-' || i`, "receipts": `CASE w.state WHEN 'committed' THEN json_build_array('ch_' || i) ELSE '[]' END`,
				"created_at": "t", "started_at": "t", "begun_at": "t", "changed_at": "t + 50", "ended_at": "t + 50", "doubted_at": "w.doubted * (t + 50)",
				"settled_at": "(1 - w.doubted) * (t + 50)", "change_id": `'c' || i`, "policy": "CASE w.doubted WHEN 1 THEN 'p' ELSE '' END", "rank": "w.doubted * (i / 10 % 9973)",
				"person_at": "CASE WHEN w.doubted = 1 AND i / 10 % 3 = 0 THEN 253402300799999 ELSE 0 END"}),
			copied("ev", map[string]string{"seq": "2 * i - (w.verb = 'begin')::int", "place": "2 * i - (w.verb = 'begin')::int", "op": "i", "at": "t + 50 * (w.verb <> 'begin')::int",
				"lost_at": "CASE WHEN w.lost_at > 0 THEN t + 50 ELSE 0 END", "id": "CASE w.verb WHEN 'begin' THEN 'b' ELSE 'c' END || i",
				"facts": `CASE w.verb WHEN 'begin' THEN (w.facts::jsonb || jsonb_build_object('id', 'a' || i))::json ELSE w.facts END`}))
		out, err := pgtest.Psql(t, url, script)
		// What is not known to be visible to all is read once more, in the table: pages are counted
		// when all is. The server's own vacuum, amid its work, can hold that up.
		for end, left := time.Now().Add(amply), ""; err == nil && left != "0"; {
			if out, err = pgtest.Psql(t, url, `VACUUM ANALYZE`); err != nil {
				break
			}
			left, err = pgtest.Psql(t, url, `SELECT count(*) FROM pg_class WHERE oid IN ('indoubt.op'::regclass, 'indoubt.ev'::regclass, 'indoubt.price'::regclass) AND relallvisible < relpages`)
			left = strings.TrimSpace(left)
			if out = left + " tables are not visible to all"; err == nil && left != "0" && time.Now().After(end) {
				err = errors.New("vacuum")
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
