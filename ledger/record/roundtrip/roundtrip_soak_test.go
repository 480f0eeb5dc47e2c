//go:build soak

package roundtrip

import (
	"io"
	"net/http"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// The next request waits for the end of an answer that its caller has closed, longer than
// Close itself does.
func TestTransportClosedLongBeforeTheEnd(t *testing.T) {
	more := make(chan struct{})
	s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "done")
	})
	_, client, m := testTransport(t, record.KindRule{})
	need.Get(client.Do(order(t.Context(), s.URL, "")))(t).Body.Close()
	need.Equal(t, m.Only(t).Operation.State, ledger.Pending)
	time.AfterFunc(50*time.Millisecond, func() { close(more) })
	resp := need.Get(client.Do(order(t.Context(), s.URL, "")))(t)
	defer resp.Body.Close()
	if body := need.Get(io.ReadAll(resp.Body))(t); string(body) != "done" || resp.Header.Get(HeaderReplayed) != "" || s.effects.Load() != 2 {
		t.Errorf("%q, %d effects, %v", body, s.effects.Load(), resp.Header)
	}
}
