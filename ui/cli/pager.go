package cli

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"indoubt/ui/safe"
)

// paged are the commands whose text is read from the beginning on.
var paged = []string{"list", "show", "report", "log", "incident list", "incident show", "runs", "policy show", "doctor"}

// pager keeps what a command prints on a terminal until it ends. What is longer than the
// terminal is then shown a page at a time.
type pager struct {
	text bytes.Buffer
	to   *os.File
	env  func(string) string
	off  bool // --no-pager
}

// begin puts the pager in front of the standard output of a command that is paged.
func (p *pager) begin(a *app, cmd *cobra.Command) {
	file, ok := a.rawOut.(*os.File)
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	endless := cmd.Flags().Changed("follow")
	if p.off || !ok || endless || a.format != "text" && a.format != "wide" || !slices.Contains(paged, path) || !term.IsTerminal(int(file.Fd())) || a.env("TERM") == "dumb" {
		return
	}
	p.to, p.env = file, a.env
	a.out = safe.NewWriter(&p.text)
}

// end prints what was kept.
func (p *pager) end() {
	if p.to == nil {
		return
	}
	command := cmp.Or(p.env("INDOUBT_PAGER"), p.env("PAGER"), "less")
	_, err := exec.LookPath(strings.Fields(command + " ")[0])
	if width, height := sizeOf(p.to); err != nil || command == "cat" || screenLines(p.text.String(), width) < height {
		_, _ = p.to.Write(p.text.Bytes())
		return
	}
	shell := []string{"sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c", command}
	}
	show := exec.Command(shell[0], shell[1:]...)
	show.Stdin, show.Stdout, show.Stderr = bytes.NewReader(p.text.Bytes()), p.to, os.Stderr
	show.Env = append(os.Environ(), "LESS="+cmp.Or(p.env("LESS"), "FRX"), "LV="+cmp.Or(p.env("LV"), "-c"))
	signal.Ignore(os.Interrupt) // it is the pager's
	defer signal.Reset(os.Interrupt)
	if err := show.Start(); err != nil {
		_, _ = io.Copy(p.to, &p.text)
		return
	}
	_ = show.Wait() // how a person leaves it says nothing of the command
}

// screenLines is how many lines a text takes on a terminal.
func screenLines(text string, width int) (n int) {
	for line := range strings.Lines(text) {
		n += 1 + max(0, ansi.StringWidth(line)-1)/max(1, width)
	}
	return n
}
