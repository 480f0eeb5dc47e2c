package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestI11_PolicyTryShowsNoSecretThatIsRepeated(t *testing.T) {
	t.Setenv("ECHO_KEY", "hush-hush-77")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"asked":"` + r.URL.String() + `","data":[{"id":"` + r.Header.Get("X-Who") + `"}]}`))
	}))
	defer s.Close()
	b := newBench(t)
	text := `
version: 1
kinds:
  echo:
    token: { into: ref }
    read:
      http: { get: "` + s.URL + `/find", query: { k: "${env.ECHO_KEY}", q: "${token}" }, headers: { X-Who: "${env.ECHO_KEY}" } }
      found: "body.data.filter(x, x.id != token)"
      receipt: it.id
`
	if err := os.WriteFile(b.policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"policy", "try", "echo", "--input", "{}"}, {"policy", "try", "echo", "--input", "{}", "--json"}} {
		if out := b.want(0, args...); strings.Contains(out, "hush") || !strings.Contains(out, "[redacted]") {
			t.Errorf("%s", out)
		}
	}
}
