//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// A recorder has the ledger's key, or is refused before anything is sent. Looking needs
// none.
func TestE2E_TheKeyOfTheDigestsIsASecretFile(t *testing.T) {
	s := bareSite(t)
	if strings.HasPrefix(t.Name(), inPostgreSQL) {
		s.ledger = pgtest.URL(t)
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

	says := digestkey.Variable
	if !strings.HasPrefix(t.Name(), inPostgreSQL) {
		says = "is not there" // beside the file
	}
	say(s, 101, says, run...)
	say(s, 0, "post", "list")
	doctor(s, says)
	if got := string(need.Get(os.ReadFile(sent))(t)); got != "sent\n" {
		t.Errorf("it was sent %d times", strings.Count(got, "sent"))
	}
}

// A ledger on a server that has no key takes what holds no secret, until its owner gives
// it one.
func TestE2E_AServersLedgerIsGivenItsKey(t *testing.T) {
	s := bareSite(t)
	s.ledger = newLedger(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	key := filepath.Join(s.dir, "digest.key")
	secret := []string{"run", "--kind", "post", "--", "touch", filepath.Join(s.dir, "sent"), "--password=hunter2-correct-horse"}
	need.That(t, s.do("run", "--kind", "post", "--", "true").Exit == 0, "without a secret it is refused")
	if r := s.do(secret...); r.Exit != 101 || !strings.Contains(r.Err, "indoubt init") {
		t.Errorf("with a secret: exit %d %s", r.Exit, r.Err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "sent")); err == nil {
		t.Error("it was sent")
	}
	s.env = append(s.env, digestkey.Variable+"="+key)
	if r := s.do("run", "--kind", "post", "--", "true"); r.Exit != 101 || !strings.Contains(r.Err, "indoubt init") {
		t.Errorf("a key that the ledger does not know: exit %d %s", r.Exit, r.Err)
	}
	if r := s.do("init", "--dry-run"); r.Exit != 0 || !strings.Contains(r.Out, "would give") {
		t.Errorf("%d %s%s", r.Exit, r.Out, r.Err)
	}
	if r := s.do("init"); r.Exit != 0 || !strings.Contains(r.Out, "gave ") {
		t.Fatalf("%d %s%s", r.Exit, r.Out, r.Err)
	}
	if r := s.do("init"); r.Exit != 0 || !strings.Contains(r.Out, "already") {
		t.Errorf("%d %s%s", r.Exit, r.Out, r.Err)
	}
	r := s.do("run", "--kind", "post", "--", "true", "--password=hunter2-correct-horse")
	need.That(t, r.Exit == 0, "%s%s", r.Out, r.Err)
}
