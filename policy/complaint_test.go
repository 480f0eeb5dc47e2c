package policy

import (
	"strings"
	"testing"

	"indoubt/ledger"
)

const complaining = `
version: 1
kinds:
  list:
    read: { command: [tool], list: json.items, complete: "true" }
  strict:
    read: { command: [tool], valid: '!stderr.contains("warning")', list: json.items }
  told:
    read: { command: [tool], valid: 'exit == 0 || exit == 4 && stderr.contains("nothing there")', list: 'exit == 4 ? [] : json.items', complete: "true" }
  written:
    send: { command: recorded, refused: 'exit == 7 && stderr.startsWith("refused: ")' }
`

// TestReasonsTellWhatACheckComplainedOf: a command says on standard error what is
// wrong; the reason repeats it on one line and bounded. What shows a reason makes it safe.
func TestReasonsTellWhatACheckComplainedOf(t *testing.T) {
	p := must(t, complaining)
	long := strings.Repeat("word ", 1000)
	for _, c := range []struct {
		name, kind, stdout, stderr string
		exit                       int
		want                       string
	}{
		{"a failure", "list", "", "\nlogin expired:\trun tool login\n\n", 3, "the check ended with exit code 3: login expired: run tool login"},
		{"a silent failure", "list", "", " \n", 3, "the check ended with exit code 3"},
		{"no JSON", "list", "", "login expired\n", 0, "answer is empty, not JSON: login expired"},
		{"text instead of JSON", "list", "Log in first", "no ticket", 0, "answer is not JSON: no ticket"},
		{"not valid by the policy", "strict", `{"items":[]}`, "warning: old data\n", 0, "the answer is not what the policy calls valid: warning: old data"},
		{"escapes", "list", "", "\x1b]0;x\x07 \x1b[31mred\u202e\x00", 1, "the check ended with exit code 1: \x1b]0;x\x07 \x1b[31mred\u202e\x00"},
		{"not UTF-8", "list", "", "caf\xe9", 1, "the check ended with exit code 1: caf\uFFFD"},
		{"a secret", "list", "", "Authorization: Bearer hunter2-very-secret", 1, "the check ended with exit code 1: Authorization: Bearer [redacted]"},
		{"what does not fit whole is left out", "list", "", "ghp_abcdefghijklmnopqrstuvwxyz0123456789\n" + strings.Repeat("x", maxComplaint-8), 1, "the check ended with exit code 1: " + strings.Repeat("x", maxComplaint-8)},
		{"only its end", "list", "", long + "\nthe last line\n", 1, "the check ended with exit code 1: the last line"},
		{"one endless word", "list", "", strings.Repeat("x", 10*maxComplaint), 1, "the check ended with exit code 1"},
	} {
		_, err := p.Kind(c.kind).Read.Judge(t.Context(), operation(c.kind, `{}`), ledger.Answer{Via: "command", Exited: true, Exit: c.exit, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
	_, err := p.Kind("list").Read.Judge(t.Context(), operation("list", `{}`), ledger.Answer{Via: "command", Exited: true, Exit: 1, Stderr: []byte(long)})
	if err == nil || len(err.Error()) > maxComplaint+100 || !strings.HasSuffix(err.Error(), "word word") || strings.Contains(err.Error(), "wordword") {
		t.Errorf("a long line: %v", err)
	}
}

// TestRulesSeeStandardError: in the rules of a check and of a write, and nowhere
// where there is none.
func TestRulesSeeStandardError(t *testing.T) {
	p := must(t, complaining)
	said := func(exit int, stderr string) ledger.Answer {
		return ledger.Answer{Via: "command", Exited: true, Exit: exit, Stderr: []byte(stderr)}
	}
	f, err := p.Kind("told").Read.Judge(t.Context(), operation("told", `{}`), said(4, "there is nothing there\n"))
	if err != nil || !f.Complete || len(f.Effects) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := p.Kind("told").Read.Judge(t.Context(), operation("told", `{}`), said(4, "no route to host")); err == nil {
		t.Error("another complaint was taken for none found")
	}
	for stderr, want := range map[string]ledger.Outcome{"refused: no such account": ledger.OutcomeFailed, "timeout": ""} {
		if r, err := p.Kind("written").JudgeAnswer(t.Context(), operation("written", `{}`), said(7, stderr)); err != nil || r.Outcome != want {
			t.Errorf("%s: %+v, %v", stderr, r, err)
		}
	}
	if r, err := p.Kind("written").JudgeAnswer(t.Context(), operation("written", `{}`), ledger.Answer{Via: "http", Status: 200}); err == nil || r.Outcome != ledger.OutcomeUncertain {
		t.Errorf("an answer without standard error: %+v, %v", r, err)
	}
}
