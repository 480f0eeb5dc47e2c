//go:build soak

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// An import that is killed anywhere is given again, and then everything is there once.
func TestI10_E2E_KilledImport(t *testing.T) {
	const n = 1500
	s := bareSite(t)
	s.writePolicy("version: 1\n")
	l := deadLetters[0]
	args := []string{"import", "--json", "--from", l.from, l.file(t, s.dir, n)}
	s.must(0, "init")
	for kills := 0; kills < 3; kills++ {
		p := s.start(args...)
		time.Sleep(time.Duration(150+100*kills) * time.Millisecond)
		_ = p.cmd.Process.Kill()
		p.finish()
	}
	r := s.must(0, args...)
	got := countedOf(t, r.Status.Data)
	need.That(t, got.Recorded+got.Known == n && got.Bad == 0, "%+v", got)
	need.Equal(t, countedOf(t, s.must(0, args...).Status.Data), counted{Read: n, Known: n}, "once more")
	all := s.must(0, "list", "--all", "-o", "jsonl").Out
	need.That(t, strings.Count(all, "\n") == n && strings.Count(all, `"state":"uncertain"`) == n, "%.2000s", all)
}

// BenchmarkDeadLetters imports 10,000 dead letters of each system, imports them again,
// and settles them by a check: how many seconds each takes, and of the processor. -short takes a twentieth.
func BenchmarkDeadLetters(b *testing.B) {
	n := 10_000
	if testing.Short() {
		n /= 20
	}
	for _, l := range deadLetters {
		b.Run(l.from, func(b *testing.B) {
			url, _, _ := mailbox(b)
			dir := b.TempDir()
			policy := filepath.Join(dir, "policy.yaml")
			need.OK(b, os.WriteFile(policy, []byte(mails(url)), 0o600))
			rows := l.file(b, dir, n)
			took := func(what string, args ...string) {
				began := time.Now()
				cmd := exec.Command(program, args...)
				cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "INDOUBT_POLICY="+policy, "INDOUBT_ACTOR=maya", "NO_PROXY=*",
					"INDOUBT_LEDGER="+filepath.Join(dir, fmt.Sprint(b.N)+".db"))
				out, err := cmd.CombinedOutput()
				need.That(b, err == nil, "%v: %v\n%.500s", args, err, out)
				b.ReportMetric(time.Since(began).Seconds(), what+"-s")
				b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), what+"-cpu-s")
			}
			in := []string{"import", "--from", l.from, "--map", `kind="mail.send"`, "--map", "token=" + l.token, rows}
			took("first", in...)
			took("again", in...)
			took("settle", "check")
		})
	}
}
