//go:build unix

package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// A recorder has the ledger's key, or is refused before anything is sent. Looking needs
// none.
func TestE2E_TheKeyOfTheDigestsIsASecretFile(t *testing.T) {
	s := bareSite(t)
	if s.afar {
		s.ledger = server(t)
		s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger)
	}
	s.env = append(s.env, "INDOUBT_POLICY=")
	key, sent := filepath.Join(s.dir, "digest.key"), filepath.Join(s.dir, "sent")
	with := func(file string) *site {
		other := *s
		other.env = append(s.env[:len(s.env):len(s.env)], digestkey.Variable+"="+file)
		return &other
	}
	say := func(as *site, exit int, what string, args ...string) {
		t.Helper()
		r := as.do(args...)
		if r.Exit != exit || !strings.Contains(r.Out+r.Err, what) {
			t.Fatalf("indoubt %s: exit %d, want %d with %q\n%s%s", strings.Join(args, " "), r.Exit, exit, what, r.Out, r.Err)
		}
	}
	run := []string{"run", "--kind", "post", "--", "sh", "-c", "echo sent >> " + sent + "; exit 3", "x", "--password=hunter2-correct-horse"}
	plain := []string{"begin", "--kind", "post", "--key", "no secret in it", "--dry-run"}

	say(with(key), 0, "digest.key", "init")
	info := need.Get(os.Stat(key))(t)
	need.That(t, info.Mode().Perm() == 0o600, "the key has mode %v", info.Mode())
	say(with(key), 0, "already", "init")
	say(with(key), 106, "", run...)
	say(with(key), 106, "in doubt", run...)
	doctor := func(as *site, says string) {
		t.Helper()
		if r := as.do("doctor", "--json"); !strings.Contains(r.Out, says) {
			t.Errorf("doctor: %s%s, want %q", r.Out, r.Err, says)
		}
	}
	doctor(with(key), "it is the ledger's")

	text := string(need.Get(os.ReadFile(key))(t))
	for _, c := range []struct{ name, text, says string }{
		{"another", strings.NewReplacer("0", "1", "1", "0", "a", "b").Replace(text), "is another one"},
		{"short", "00ff\n", "is too short"},
		{"empty", "\n", "is empty"},
		{"words", "my secret key\n", "holds no key"},
		{"longer", text + strings.Repeat(" ", 1024) + "00", "holds no key"},
		{"open", text, "can be read by others"},
		{"missing", "", "is not there"},
	} {
		file := filepath.Join(s.dir, c.name)
		if c.text != "" {
			need.OK(t, os.WriteFile(file, []byte(c.text), 0o600))
		}
		if c.name == "open" {
			need.OK(t, os.Chmod(file, 0o644))
		}
		say(with(file), 101, c.says, run...)
		say(with(file), 1, c.says, plain...)
		say(with(file), 1, c.says, "http", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1")
		doctor(with(file), c.says)
		say(with(file), 1, c.says, "init")
		say(with(file), 0, "post", "list")
	}
	// A volume of Kubernetes is made of links.
	need.OK(t, os.Symlink(key, filepath.Join(s.dir, "link")))
	say(with(filepath.Join(s.dir, "link")), 0, "would begin", plain...)

	var found struct{ ID string }
	need.OK(t, json.Unmarshal([]byte(s.do("list", "--all", "-o", "jsonl").Out), &found))
	says := digestkey.Variable
	if !s.afar {
		says = "is not there" // beside the file
	}
	say(s, 101, says, run...)
	say(s, 1, says, "redact", found.ID+"@2", "--reason", "request 7", "--yes")
	say(s, 1, says, "redact", found.ID+"@2", "--dry-run")
	say(s, 0, "post", "list")
	doctor(s, says)
	if got := string(need.Get(os.ReadFile(sent))(t)); got != "sent\n" {
		t.Errorf("it was sent %d times", strings.Count(got, "sent"))
	}
}
