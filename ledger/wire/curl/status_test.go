package curl

import (
	"testing"

	"indoubt/ledger/need"
)

func TestTheWrittenStatus(t *testing.T) {
	for _, c := range []struct {
		name           string
		argv           []string
		stdout, stderr string
		status         int
		asked          bool
	}{
		{"none is written", []string{"curl", "-sS", "http://x"}, "201", "201", 0, false},
		{"to standard output", []string{"curl", "-w", `\n%{http_code}`, "http://x"}, "{}\n201", "", 201, true},
		{"to standard error", []string{"curl", "-sSw", `%{stderr}%{http_code}\n`, "http://x"}, "999", "note\n302\n", 302, true},
		{"in one word", []string{"/usr/bin/curl", `--write-out=%{stderr}HTTP %{response_code}`, "http://x"}, "", "HTTP 202", 202, true},
		{"back to standard output", []string{"curl", "-w", `%{stderr}x%{stdout}%{http_code}`, "http://x"}, "200", "x", 200, true},
		{"the last format counts", []string{"curl", "-w", `%{http_code}`, "-w", `%{time_total}`, "http://x"}, "200", "", 0, false},
		{"not at the end", []string{"curl", "-w", `%{http_code} %{time_total}`, "http://x"}, "200 111", "", 0, false},
		{"from a file", []string{"curl", "-w", `@format%{http_code}`, "http://x"}, "200", "", 0, false},
		{"into a file", []string{"curl", "-w", `%output{f}%{http_code}`, "http://x"}, "200", "", 0, false},
		{"standard error is a file", []string{"curl", "--stderr", "f", "-w", `%{stderr}%{http_code}`, "http://x"}, "", "200", 0, false},
		{"of several requests", []string{"curl", "-w", `%{http_code}`, "http://x", "--next", "http://y"}, "200", "", 0, false},
		{"it is missing", []string{"curl", "-w", `%{http_code}`, "http://x"}, "", "", 0, true},
		{"it is no number", []string{"curl", "-w", `%{http_code}`, "http://x"}, "no answer", "", 0, true},
		{"another program", []string{"wget", "-w", `%{http_code}`, "http://x"}, "200", "", 0, false},
	} {
		status, asked := Status(c.argv, []byte(c.stdout), []byte(c.stderr))
		need.That(t, status == c.status && asked == c.asked, "%s: %d %v", c.name, status, asked)
		if Is(c.argv[0]) {
			need.Equal(t, Hides(c.argv) == "", c.asked, c.name+": nothing is hidden")
		}
	}
}

func TestHides(t *testing.T) {
	for _, c := range []struct {
		argv []string
		says string // a part of it
	}{
		{[]string{"curl", "http://x"}, "--fail-with-body -w"},
		{[]string{"curl", "-df", "http://x"}, "--fail-with-body -w"},
		{[]string{"/usr/bin/curl", "--fail-early", "http://x"}, "--fail-with-body -w"},
		{[]string{"curl", "-sSf", "http://x"}, "at a redirect and at a 202"},
		{[]string{"curl", "--fail-with-body", "http://x"}, "at a redirect and at a 202"},
		{[]string{"curl", "-fL", "-w", `%{http_code}`, "http://x"}, "leave -L out"},
		{[]string{"wget", "http://x"}, ""},
		{nil, ""},
	} {
		if c.says == "" {
			need.Equal(t, Hides(c.argv), "", "nothing is said")
			continue
		}
		need.Contains(t, Hides(c.argv), c.says)
	}
}
