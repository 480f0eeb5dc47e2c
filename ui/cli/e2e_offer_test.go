//go:build soak

package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// I10, I3: a recorder has a ledger that failed over record again what it had lost, and is
// killed before the answer is there: it ends in doubt, and is not sent again. Where another
// one has its key, both are named.
func TestI10_E2E_KilledAfterItOfferedWhatWasLost(t *testing.T) {
	const failedOver = `SET session_replication_role = replica; UPDATE indoubt.lineages SET lineage = 'elsewhere.1', known_until = clock_timestamp() - interval '5 seconds';`
	for name, c := range map[string]struct {
		again int // the answer to the same request
		loses string
	}{
		"lost": {http.StatusConflict, `DELETE FROM indoubt.events; DELETE FROM indoubt.attempts; DELETE FROM indoubt.open_operations; DELETE FROM indoubt.operations`},
		"another has its key": {http.StatusUnprocessableEntity, `UPDATE indoubt.operations SET id = 'other', live_attempt = 'other.1', fingerprint = 'f', key_fields = '', input = '{"n":2}';
			UPDATE indoubt.attempts SET id = 'other.1', operation_id = 'other'; UPDATE indoubt.events SET id = 'began', operation_id = 'other'`},
	} {
		t.Run(name, func(t *testing.T) {
			s, up := bareSite(t), newShop(t, true)
			s.ledger = newLedger(t)
			s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger)
			s.writePolicy("version: 1\ndefaults: { deadline: 12s }\n")
			proxy := func() (*process, string) {
				address := freeAddress(t)
				p := s.start("http", "--listen", address, "--upstream", up.URL)
				s.eventually("it listens", func() bool {
					resp, err := http.Get("http://" + address)
					return err == nil && resp.Body.Close() == nil
				})
				return p, "http://" + address
			}
			post := func(url string) int {
				req := need.Get(http.NewRequest(http.MethodPost, url+"/orders", strings.NewReader(`{"n":1}`)))(t)
				req.Header.Set("Idempotency-Key", "k")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return 0
				}
				defer resp.Body.Close()
				return resp.StatusCode
			}
			recorder, url := proxy()
			go post(url)
			s.eventually("it is sent", func() bool { return up.orders.Load() == 1 })
			id := s.list()[0].ID
			if out, err := pgtest.Psql(t, s.ledger, failedOver+c.loses); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			s.eventually("it is offered", func() bool { return s.do("show", id).Exit == 0 })
			_ = recorder.cmd.Process.Kill()
			recorder.finish()
			o := s.show(id)
			need.That(t, o.Events[0].Verb == "offer" && len(o.Attempts) == 1, "%+v", o)
			s.must(0, "adopt", "--yes")
			_, url = proxy()
			need.Equal(t, post(url), c.again, "the same request through another recorder")
			s.eventually("it is in doubt", func() bool { return s.show(id).State == "uncertain" })
			need.Equal(t, post(url), c.again, "the same request, in doubt")
			need.Equal(t, up.orders.Load(), 1, "orders")
			if name == "lost" {
				return
			}
			need.Contains(t, s.must(0, "show", id).Out, "beside other, which has its key")
			s.must(0, "confirm", seen(s.show(id)), "--receipt", "r", "--reason", "it is in their list")
			need.Contains(t, s.must(0, "show", id).Out, "was sent beside other, which has its key")
		})
	}
}
