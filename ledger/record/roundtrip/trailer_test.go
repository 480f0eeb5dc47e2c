package roundtrip

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// What an answer says behind its body reaches its caller, also where the head did not announce it.
func TestTheTrailerOfAnAnswerReachesItsCaller(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "charged")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Sum", "77")
		w.Header().Set(http.TrailerPrefix+"X-More", "1")
	})
	_, client, _ := testTransport(t, record.KindRule{})
	for range 20 {
		resp := need.Get(client.Post(s.URL+"/charges", "application/json", strings.NewReader(`{"a":1}`)))(t)
		_, announced := resp.Trailer["X-Sum"]
		body := need.Get(io.ReadAll(resp.Body))(t)
		resp.Body.Close()
		need.Must(t, announced && string(body) == "charged" && resp.Trailer.Get("X-Sum") == "77" && resp.Trailer.Get("X-More") == "1", "%q %v", body, resp.Trailer)
	}
}
