package command

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
)

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
