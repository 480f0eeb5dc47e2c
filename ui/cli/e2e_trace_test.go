//go:build unix

package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"indoubt/ledger/need"
)

// The trace of the caller is kept, shown, and sent along by a retry.
func TestE2E_ATraceIsKeptAndPassedOn(t *testing.T) {
	const id, trace = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	heard := make(chan string, 1)
	down := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header.Get("Traceparent") }))
	defer down.Close()
	s := bareSite(t)
	file := filepath.Join(s.dir, "heard")
	s.writePolicy(`
version: 1
downstreams:
  web: { base: "` + down.URL + `" }
kinds:
  posted: { downstream: web, effect: safe, resend: here, answer: { committed: status == 200 } }
  ran:    { effect: safe, resend: here }
`)
	s.env = append(s.env, "TRACEPARENT="+trace)
	posted := s.overHTTP("posted", "k1", `{"a":1}`, down.URL, "/x")
	s.do("run", "--kind", "ran", "--key", "k2", "--", "sh", "-c", "printenv TRACEPARENT >> "+file+"; test -e "+file+".2 || { touch "+file+".2; kill -9 $$; }")
	ran := s.list()[slices.IndexFunc(s.list(), func(o operation) bool { return o.ID != posted.ID })]
	need.Contains(t, s.must(0, "show", ran.ID).Out, id+"\n")

	s.env = append(s.env, "TRACEPARENT=of somebody else")
	s.must(0, "retry", seen(posted), "--reason", "safe to repeat")
	need.Equal(t, <-heard, trace)
	s.must(0, "retry", seen(ran), "--reason", "safe to repeat")
	need.Equal(t, string(need.Get(os.ReadFile(file))(t)), trace+"\n"+trace+"\n")
	need.Lacks(t, s.must(0, "show", s.doubtful("ran", "k3", `{"a":2}`).ID).Out, "TRACE")
}
