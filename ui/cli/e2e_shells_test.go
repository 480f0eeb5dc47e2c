//go:build soak

package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// A person presses Tab in a shell that has read what completion prints.
func TestE2E_TheShellsComplete(t *testing.T) {
	const forBash = "/usr/share/bash-completion/bash_completion"
	for _, shell := range []struct {
		name, needs, setUp string
		args               []string
	}{
		{"bash", forBash, ". " + forBash + "; source <(indoubt completion bash)", []string{"--norc", "--noprofile", "-i"}},
		{"zsh", "", "autoload -U compinit && compinit -u && source <(indoubt completion zsh)", []string{"-f", "-i"}},
		{"fish", "", "indoubt completion fish | source", []string{"--no-config", "-i"}},
	} {
		t.Run(shell.name, func(t *testing.T) {
			need.Program(t, shell.name)
			if _, err := os.Stat(shell.needs); shell.needs != "" && err != nil {
				t.Skip("there is no " + shell.needs)
			}
			s := newSite(t)
			s.begin("stripe.charge", "k1", chargeInput)
			cmd := exec.Command(shell.name, shell.args...)
			cmd.Dir = s.dir
			cmd.Env = append(s.env, "TERM=xterm-256color", "TMPDIR="+s.dir, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
			tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120}))(t)
			screen := vt.NewSafeEmulator(120, 40)
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
				tty.Close()
				screen.InputPipe().(io.Closer).Close()
			})
			go io.Copy(tty, screen) // what a terminal answers
			go io.Copy(screen, tty)
			typed := func(text, want string) {
				t.Helper()
				io.WriteString(tty, text)
				s.eventually("the screen shows "+want, func() bool { return strings.Contains(ansi.Strip(screen.Render()), want) })
			}
			typed(shell.setUp+"; echo rea''dy\r", "ready")
			typed("indoubt sho\t--json x", "indoubt show --json x") // a space follows
		})
	}
}
