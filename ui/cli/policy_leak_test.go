package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestI11_PolicyTryShowsNoSecretThatIsRepeated(t *testing.T) {
	t.Setenv("ECHO_KEY", "hush-hush-77")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"asked":"` + r.URL.String() + `","data":[{"id":"` + r.Header.Get("X-Who") + `"}]}`))
	}))
	defer s.Close()
	b := newBenchAlone(t)
	text := `
version: 1
kinds:
  echo:
    token: { into: ref }
    read:
      http: { get: "` + s.URL + `/find", query: { k: "${env.ECHO_KEY}", q: "${token}" }, headers: { X-Who: "${env.ECHO_KEY}" } }
      list: body.data
      mark: "[it.id, body.asked]"
      receipt: it.id
`
	need.OK(t, os.WriteFile(b.policy, []byte(text), 0o600))
	for _, args := range [][]string{{"policy", "try", "echo", "--input", "{}"}, {"policy", "try", "echo", "--input", "{}", "--json"}} {
		if out := b.want(0, args...); strings.Contains(out, "hush") || !strings.Contains(out, "[redacted]") {
			t.Errorf("%s", out)
		}
	}
}

// TestPolicyTryShowsStandardError: what a check complains of stands in the answer
// and in the verdict's reason, without the secrets that were sent.
func TestPolicyTryShowsStandardError(t *testing.T) {
	t.Setenv("TOOL_KEY", "hush hush 77")
	b := newBenchAlone(t)
	b.policy = b.file("tool.yaml", `
version: 1
kinds:
  tool:
    read:
      command: { argv: [sh, -c, 'printf "login of %s expired: run tool login\n\033[31m" "$KEY" >&2; exit 3'], env: { KEY: "${env.TOOL_KEY}" } }
      list: json.items
`)
	want := "VERDICT   cannot tell: the check ended with exit code 3: login of [redacted] expired: run tool login \\x1b[31m\n"
	if out := b.want(0, "policy", "try", "tool", "--input", "{}"); strings.Contains(out, "hush") || !strings.Contains(out, want) || !strings.Contains(out, "ANSWER  exit 3\n  login of [redacted]") {
		t.Errorf("%s\nwant %s", out, want)
	}
	if out := b.want(0, "policy", "try", "tool", "--input", "{}", "--json"); strings.Contains(out, "hush") || !strings.Contains(out, `"answer":"login of [redacted]`) {
		t.Errorf("%s", out)
	}
}

// TestI11_ASecretInThePolicyIsShownNowhere goes through all that shows a policy: a file
// with a secret written out is refused, and the refusal does not repeat it.
func TestI11_ASecretInThePolicyIsShownNowhere(t *testing.T) {
	const header, argument, shaped = "correct-horse-battery", "staple-battery-horse", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	b := newBenchAlone(t)
	b.policy = b.file("leaky.yaml", `
version: 1
downstreams:
  pay: { base: http://127.0.0.1:9, headers: { Private-Token: `+header+` } }
kinds:
  other:
    read: { command: [curl, -H, "Private-Token: ${input.ref}", --token, `+argument+`, "http://127.0.0.1:9"], list: json }
  echo:
    downstream: pay
    title: "echo `+shaped+`"
    token: { into: ref }
    read:
      http: { get: "/find", query: { q: "${token}" } }
      list: "body.data.filter(x, x.id != '`+shaped+`')"
      receipt: it.id
    tests:
      - { name: "with `+shaped+`", answer: { body: { data: [{ id: "`+shaped+`" }, { id: "x `+header+`" }] } }, want: not_there }
`)
	for _, args := range [][]string{
		{"policy", "check"}, {"policy", "show"}, {"policy", "show", "echo"}, {"policy", "test"}, {"policy", "apply", "--reason", "x"}, {"doctor"}, {"list"},
		{"policy", "try", "echo", "--input", "{}"}, {"begin", "--kind", "echo", "--input", "{}"},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			_, out, errs := b.run(append(args, more...)...)
			for _, hidden := range []string{header, argument, shaped} {
				need.That(t, !strings.Contains(out+errs, hidden), "%v %v shows %s:\n%s%s", args, more, hidden, out, errs)
			}
		}
	}
}
