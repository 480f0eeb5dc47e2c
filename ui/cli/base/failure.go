package base

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/policy/file"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// Failure is an error as it is told: its word and exit code, the message, and what to do.
type Failure struct {
	Code    string   // a word for machines: one of exits, or what became of a run
	Message string   // one clear sentence
	More    []string // further lines below it
	Hint    string   // what to do next
	Effect  string
	Data    any
	Text    func(w *safe.Writer) // printed on standard output before the message, in text
	Own     int                  // the exit code, where it is not that of the word
	Facts   *record.Facts        // of what is recorded before it is sent
	Cause   error
}

func (f *Failure) Error() string { return f.Message }

// Unwrap returns the error of the floor below, if there was one.
func (f *Failure) Unwrap() error { return f.Cause }

// Exit is the exit code: that of the word, and 100 more of what kept `run` from running.
func (f *Failure) Exit() int {
	if f.Own != 0 {
		return f.Own
	}
	return slices.IndexFunc(Exits[:], func(e exitCode) bool { return slices.Contains(strings.Fields(e.Words), f.Code) })
}

// JSON is the failure as --json prints it.
func (f *Failure) JSON() *ErrorJSON {
	return &ErrorJSON{Code: f.Code, Message: strings.Join(append([]string{f.Message}, f.More...), "\n"), Hint: f.Hint, Facts: f.Facts}
}

// OfSending adds to an error of a command that records what it sends what that says to
// programs. operationID is "" where nothing was recorded.
func (f *Failure) OfSending(code, operationID string) *Failure {
	f.Facts = new(record.FactsOf(code, operationID, "indoubt check "+operationID))
	return f
}

// AsFailure finds the exit code, the code word and the hint for an error of the
// floors below.
func AsFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	f = &Failure{Code: "error", Message: err.Error(), Cause: err}
	for _, known := range []func(error, *Failure) bool{storeFailure, ledgerFailure, changedFailure, policyFailure, systemFailure} {
		if known(err, f) {
			break
		}
	}
	return f
}

// NextStep is an error of a command that says what to do about it, in any case.
func NextStep(command string, err error) error {
	if quiet := (*ExitOnly)(nil); errors.As(err, &quiet) {
		return err
	}
	f := AsFailure(err)
	switch {
	case f.Hint != "" || f.Message == "" || f.Code == "bad_policy":
	case f.Exit()%100 == ExitUsage:
		f.Hint = "see `" + command + " --help`"
	case f.Exit()%100 == ExitError:
		f.Hint = "`indoubt doctor` says what is wrong here"
	}
	return f
}

func ledgerFailure(err error, f *Failure) bool {
	var moved *ledger.MovedError
	var refused *ledger.RefusedError
	var driven *ledger.DrivenError
	var ambiguous *ledger.AmbiguousError
	var filter *ledger.FilterError
	var outage *ledger.NoOutageError
	switch {
	case errors.As(err, &outage):
		f.Code, f.Hint = "not_found", "see `indoubt outage list`, or check --ledger / INDOUBT_LEDGER"
	case errors.As(err, &moved):
		f.Code, f.Hint = "moved", "look again: indoubt show "+moved.ID
	case errors.As(err, &refused):
		f.Code, f.Hint = cmp.Or(refused.Code, "refused"), refused.Hint
	case errors.As(err, &driven):
		f.Code, f.Hint = "in_progress", "indoubt runs"
	case errors.As(err, &ambiguous):
		f.Code, f.Hint = "usage", "write more of the id"
	case errors.As(err, &filter):
		f.Code, f.Hint, f.Message = "usage", filter.Hint, filter.Message
		f.More = []string{"  " + filter.Text,
			"  " + strings.Repeat(" ", ansi.StringWidth(safe.Of(filter.Text[:filter.Offset]).String())) + "^"}
	case errors.Is(err, ledger.ErrNotFound):
		f.Code, f.Hint = "not_found", "see `indoubt list`, or check --ledger / INDOUBT_LEDGER"
	case errors.Is(err, ledger.ErrKeyReused):
		f.Code, f.Hint = "key_reused", "use a new key for a new request"
	case errors.Is(err, ledger.ErrReadOnly):
		f.Code, f.Hint = "read_only", "see who may write to the ledger and its directory: indoubt doctor"
	case errors.Is(err, ledger.ErrCopied):
		f.Code, f.Hint = "copied", "work on the original, or make this one a ledger of its own: indoubt adopt"
	case errors.Is(err, ledger.ErrGone):
		f.Code, f.Hint = "gone", "what cannot be seen must not be sent; bring it back, or start again with the one that is there now"
	case errors.Is(err, ledger.ErrFull):
		f.Code, f.Hint = "disk_full", "make room; what cannot be recorded must not be sent"
	case errors.Is(err, ledger.ErrBusy):
		f.Code, f.Hint = "locked", "another process holds the write lock; try again, or see `indoubt doctor`"
	default:
		return false
	}
	return true
}

// changedFailure shows how what would be sent differs from what was shown.
func changedFailure(err error, f *Failure) bool {
	var changed *reconcile.ChangedError
	if !errors.As(err, &changed) {
		return false
	}
	f.Code, f.Hint = "moved", "look at what would be sent now: indoubt retry "+changed.ID+" --dry-run"
	f.More = ledger.Each(changed.Difference(), func(line string) string { return "  " + line })
	return true
}

func policyFailure(err error, f *Failure) bool {
	var problems file.Errors
	if !errors.As(err, &problems) {
		return false
	}
	f.Code = "bad_policy"
	f.Data = map[string]any{"problems": List(problems)}
	if n := len(problems); n > 0 {
		lines := strings.Split(strings.TrimRight(problems.Error(), "\n"), "\n")
		f.Message, f.More = lines[0], lines[1:]
	}
	f.Hint = "check it with `indoubt policy check`"
	return true
}

func systemFailure(err error, f *Failure) bool {
	switch {
	case errors.Is(err, context.Canceled):
		f.Code, f.Message = "stopped", strings.ReplaceAll(f.Message, context.Canceled.Error(), "interrupted")
		f.Hint = "what is done stays done; run it again to go on"
	case errors.Is(err, syscall.EROFS):
		f.Code, f.Hint = "permission", "the disk is mounted read-only: look with --read-only"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f.Code, f.Hint = "disk_full", "make room; nothing that could not be recorded was sent"
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EFBIG):
		f.Code, f.Hint = "io_error", "look at the disk and the limits of this process (df, dmesg, ulimit -a), and try again"
	case errors.Is(err, fs.ErrPermission):
		f.Code, f.Hint = "permission", "check who owns the file and its directory"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		f.Code, f.Hint = "no_file", "check the name, and make the directory first if it is not there"
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Code = "timeout"
	default:
		return false
	}
	return true
}

// firstSteps are what to do at the first start. A person who mistyped a path must not
// take silence for an all-clear.
var firstSteps = fmt.Sprintf(`%-51s a simulated outage, to look around
%-51s record one write; this makes the ledger
%-51s make an empty ledger
%-51s look somewhere else`,
	"indoubt demo", "indoubt run --kind post -- curl --fail-with-body …", "indoubt init", "--ledger PATH / INDOUBT_LEDGER")

// storeFailure says why a ledger cannot be used, or what it refused, in the words of
// its store.
func storeFailure(err error, f *Failure) bool {
	var store ledger.Troubled
	if !errors.As(err, &store) {
		return false
	}
	t := store.Trouble(Short)
	f.Code, f.Message, f.Hint = t.Code, t.Message, t.Do
	if f.Code == "no_ledger" {
		f.Hint = cmp.Or(t.Do, firstSteps)
	}
	return true
}

// IsMissing reports whether there is no ledger at all.
func IsMissing(err error) bool {
	f := Failure{}
	return storeFailure(err, &f) && f.Exit() == ExitNotFound
}

type exitCode struct{ Means, Words string }

// Exits say what each exit code means, which is the same for every command, and name the
// words of errors for programs that have it. ui/README.md says what each word means.
var Exits = [...]exitCode{
	ExitDone: {"done, or nothing was to be done", ""},
	ExitError: {"error", "bad_config bad_policy bad_row damaged did_not_land digest_key disk_full error gone guard io_error locked " +
		"lost moving no_file not_a_ledger not_local other_schema permission stopped timeout unknown_commit unwell"},
	ExitUsage:    {"usage: the command line is wrong", "usage"},
	ExitNotFound: {"not found: no ledger, or nothing of that name in it", "former no_ledger not_found"},
	exitConflict: {"conflict: it moved, or is decided already", "exists moved"},
	exitRefused: {"refused: by the policy, a hold, --read-only, or for want of a person", "conflict copied failover hold incomplete " +
		"moved_away no_check no_person over quitting read_only redacted refused related throttled"},
	ExitInDoubt:    {"in doubt", "in_doubt"},
	exitInProgress: {"in progress, or begins are held: nothing was sent, come again", "held in_progress"},
	exitKeyReused:  {"the key was used with another input", "key_reused"},
	exitFinished:   {"finished already", "finished"},
}

// OwnVerdict is where the exit codes of run that are its own begin; below it
// they are the command's.
const OwnVerdict = 100

// ExitCodes are the lines about the exit codes of a command, for its help and its manual page.
func ExitCodes(cmd *cobra.Command) (lines []string) {
	of := 0
	if cmd.Name() == "run" {
		of = OwnVerdict
		lines = []string{"  0  it landed, or had landed: the stored output is printed",
			"  n  below 100: that of the command, where what became of it is known",
			"126  the command cannot be run; nothing was sent", "127  there is no such command; nothing was sent"}
	}
	for code, exit := range Exits {
		word := exit.Means
		if of > 0 && code == exitFinished {
			word += ", and its output was not kept whole"
		}
		if of == 0 || code > ExitDone {
			lines = append(lines, fmt.Sprintf("%3d  %s", of+code, word))
		}
	}
	return lines
}

// shortValue is the value of a switch whose help says no [=true|false].
type shortValue struct{ pflag.Value }

// TellExits puts the exit codes of a command below its help.
func TellExits(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				f.Value = shortValue{f.Value}
			}
		})
		help(cmd, args)
		fmt.Fprintf(cmd.OutOrStdout(), "\nExit codes:\n  %s\n", strings.Join(ExitCodes(cmd), "\n  "))
	})
}
