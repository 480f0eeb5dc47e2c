package command

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestWhatAShellHides(t *testing.T) {
	for _, c := range []struct {
		argv []string
		says string // a part of the warning; "": there is none
	}{
		{[]string{"sh", "-c", "curl http://x | tee log"}, "a pipe"},
		{[]string{"/bin/bash", "-c", "curl http://x |& tee log"}, "a pipe"},
		{[]string{"bash", "-o", "pipefail", "-c", "curl http://x | tee log"}, ""},
		{[]string{"bash", "-euo", "pipefail", "-c", "curl http://x | tee log; echo"}, ""},
		{[]string{"bash", "-c", "set -eo pipefail\ncurl http://x | tee log"}, ""},
		{[]string{"sh", "-c", "curl http://x || true"}, "||"},
		{[]string{"sh", "-c", "curl http://x&&echo done"}, ""},
		{[]string{"sh", "-c", "curl http://x & echo started"}, "in the background"},
		{[]string{"sh", "-c", "(sleep 1; curl http://x) & wait"}, "in the background"},
		{[]string{"sh", "-c", "curl http://x > log 2>&1"}, ""},
		{[]string{"bash", "-c", "curl http://x &> log"}, ""},
		{[]string{"sh", "-c", "for i in 1 2; do curl http://x; done; echo done"}, "set -e"},
		{[]string{"sh", "-c", "curl http://x\necho done"}, "set -e"},
		{[]string{"sh", "-c", "set -e\ncurl http://x\necho done"}, ""},
		{[]string{"sh", "-ec", "curl http://x; echo done"}, ""},
		{[]string{"sh", "-c", "curl 'http://x?a=1&b=2|3' # | tee"}, ""},
		{[]string{"sh", "-c", `curl "http://x?a=1&b=2;3"`}, ""},
		{[]string{"sh", "-c", `curl http://x?a=1\&b=2;`}, ""},
		{[]string{"sh", "-c", "echo failed >&2; exit 1"}, ""},
		{[]string{"sh", "script.sh", "-c", "a | b"}, ""},
		{[]string{"python3", "-c", "a | b"}, ""},
		{[]string{"sh", "-c"}, ""},
		{nil, ""},
	} {
		if c.says == "" {
			need.Equal(t, hides(c.argv), "", strings.Join(c.argv, " "))
			continue
		}
		need.Contains(t, hides(c.argv), c.says)
	}
}

func TestWhatACurlHides(t *testing.T) {
	for line, says := range map[string]string{
		"curl http://x": "--fail-with-body -w", "curl -f http://x": "--fail-with-body -w", "/usr/bin/curl --fail-early http://x": "--fail-with-body -w",
		"curl -fL http://x": "leave -L out", "curl -w %{stderr}%{http_code} http://x": "", "wget http://x": "", "": "",
	} {
		if got := curlHides(strings.Fields(line)); says == "" {
			need.Equal(t, got, "", line)
		} else {
			need.Contains(t, got, says)
		}
	}
}
