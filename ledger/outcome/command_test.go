package outcome

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// TestI2_OnlyAnUnconnectedCurlIsAFailure: "could not connect" is the whole story
// only of a curl that makes one request of one address.
func TestI2_OnlyAnUnconnectedCurlIsAFailure(t *testing.T) {
	plain := []string{"HOME=" + t.TempDir(), "XDG_CONFIG_HOME=", "CURL_HOME="}
	for line, proven := range map[string]bool{
		"curl -sS -d a=1 http://x/posts":                true,
		"curl http://x":                                 true,
		"/usr/bin/curl -XPOST -dx=1 -HA:b -m5 http://x": true,
		"curl --request POST --data x --header A:b --fail-with-body --max-time 5 --url http://x": true,
		"curl -sSfu me:you --json {} --noproxy * http://x":                                       true,
		"curl -d x -- http://x":               true,
		"curl -x http://proxy:3128 https://x": true,
		"curl http://[::1]:8080/x":            false,
		"curl -g http://x/[1-3]":              false,
		"curl -d x localhost:8080/x":          false,
		"curl -q -d x http://x":               true,
		"curl -L http://x":                    false,
		"curl -sSL http://x":                  false,
		"curl --location http://x":            false,
		"curl --location-trusted http://x":    false,
		"curl --loc http://x":                 false, // older ones take a beginning
		"curl --follow http://x":              false,
		"curl --retry 3 http://x":             false,
		"curl --retry-all-errors http://x":    false,
		"curl http://x --next http://y":       false,
		"curl http://x -: http://y":           false,
		"curl -sS:  http://x":                 false,
		"curl http://x http://y":              false,
		"curl --url http://x http://y":        false,
		"curl -d x -- http://x http://y":      false,
		"curl -K file http://x":               false,
		"curl -Kfile http://x":                false,
		"curl --config file http://x":         false,
		"curl --config=file http://x":         false,
		"curl http://x/[1-3]":                 false,
		"curl http://{x,y}/":                  false,
		"curl http://[::1]/{a,b}":             false,
		"curl -T {a,b} http://x/":             false,
		"curl -T a -T b http://x/":            false,
		"curl --url @file":                    false,
		"curl ftp://x/file -Q DELE":           false,
		"curl ftp.example.com/file":           false,
		"curl --anyauth -u a:b http://x":      false,
		"curl --digest -u a:b http://x":       false,
		"curl --ntlm -u a:b http://x":         false,
		"curl --proxy-anyauth http://x":       false,
		"curl --tcp-fastopen http://x":        false,
		"curl --http3 https://x":              false,
		"curl --something-new http://x":       false,
		"curl":                                false,
		"curl -d http://x":                    false,
		"sh -c curl -d x http://x":            false,
		"wget http://x":                       false,
	} {
		for exit := range 8 {
			a := Command(ledger.Answer{Sent: true, Exited: true, Exit: exit}, strings.Fields(line), plain)
			if want := proven && exit >= 6; a.Unconnected != want || want != (Judge(t.Context(), nil, ledger.Record{}, a).Proof == ledger.NeverSent) {
				t.Errorf("%s: exit %d never connected: %t", line, exit, a.Unconnected)
			}
		}
	}
	ended := Command(ledger.Answer{Sent: true, Exited: true, Exit: 7, Err: os.ErrDeadlineExceeded}, []string{"curl", "http://x"}, plain)
	need.That(t, !ended.Unconnected, "a command that was ended counts")
	signalled := Command(ledger.Answer{Sent: true, Signal: "SIGKILL", Exit: 7}, []string{"curl", "http://x"}, plain)
	need.That(t, !signalled.Unconnected, "a command that was killed counts")
}

// A configuration file can hold any option.
func TestI2_ACurlWithAConfigurationProvesNothing(t *testing.T) {
	for _, at := range []struct{ env, file string }{{"HOME", ".curlrc"}, {"HOME", ".config/curlrc"}, {"XDG_CONFIG_HOME", "curlrc"}, {"CURL_HOME", ".curlrc"}} {
		dir := t.TempDir()
		file := filepath.Join(dir, at.file)
		need.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		env := []string{at.env + "=/nowhere", at.env + "=" + dir} // of two the last counts
		answer := ledger.Answer{Sent: true, Exited: true, Exit: 7}
		need.That(t, Command(answer, []string{"curl", "http://x"}, env).Unconnected, "%v: without it", at)
		need.OK(t, os.WriteFile(file, []byte("location\n"), 0o600))
		if Command(answer, []string{"curl", "http://x"}, env).Unconnected || Command(answer, []string{"curl", "http://x", "-q"}, env).Unconnected {
			t.Errorf("%v: it is not heeded", at)
		}
		need.That(t, Command(answer, []string{"curl", "-q", "http://x"}, env).Unconnected, "%v: -q comes first", at)
	}
}
