package cli

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

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

type failure struct {
	Code    string   // a word for machines: one of codes, or what became of a run
	Message string   // one clear sentence
	More    []string // further lines below it
	Hint    string   // what to do next
	Effect  string
	Data    any
	Text    func(w *safe.Writer) // printed on standard output before the message, in text
	own     int                  // the exit code, where it is not that of the word
	facts   *record.Facts        // of what is recorded before it is sent
	cause   error
}

func (f *failure) Error() string { return f.Message }
func (f *failure) Unwrap() error { return f.cause }

// exit is the exit code: that of the word, and 100 more of what kept `run` from running.
func (f *failure) exit() int {
	if f.own != 0 {
		return f.own
	}
	return slices.IndexFunc(codes[:], func(words string) bool { return slices.Contains(strings.Fields(words), f.Code) })
}

func (f *failure) json() *errorJSON {
	return &errorJSON{Code: f.Code, Message: strings.Join(append([]string{f.Message}, f.More...), "\n"), Hint: f.Hint, Facts: f.facts}
}

// ofSending adds to an error of a command that records what it sends what that says to
// programs. operationID is "" where nothing was recorded.
func (f *failure) ofSending(code, operationID string) *failure {
	f.facts = new(record.FactsOf(code, operationID, "indoubt check "+operationID))
	return f
}

// asFailure finds the exit code, the code word and the hint for an error of the
// floors below.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	f = &failure{Code: "error", Message: err.Error(), cause: err}
	for _, known := range []func(error, *failure) bool{storeFailure, ledgerFailure, changedFailure, policyFailure, systemFailure} {
		if known(err, f) {
			break
		}
	}
	return f
}

// nextStep is an error of a command that says what to do about it, in any case.
func nextStep(command string, err error) error {
	if quiet := (*exitOnly)(nil); errors.As(err, &quiet) {
		return err
	}
	f := asFailure(err)
	switch {
	case f.Hint != "" || f.Message == "" || f.Code == "bad_policy":
	case f.exit()%100 == exitUsage:
		f.Hint = "see `" + command + " --help`"
	case f.exit()%100 == exitError:
		f.Hint = "`indoubt doctor` says what is wrong here"
	}
	return f
}

func ledgerFailure(err error, f *failure) bool {
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
		f.More = []string{"  " + filter.Text, "  " + strings.Repeat(" ", ansi.StringWidth(safe.Of(filter.Text[:filter.Offset]).String())) + "^"}
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
func changedFailure(err error, f *failure) bool {
	var changed *reconcile.ChangedError
	if !errors.As(err, &changed) {
		return false
	}
	f.Code, f.Hint = "moved", "look at what would be sent now: indoubt retry "+changed.ID+" --dry-run"
	f.More = ledger.Each(changed.Difference(), func(line string) string { return "  " + line })
	return true
}

func policyFailure(err error, f *failure) bool {
	var problems policy.Errors
	if !errors.As(err, &problems) {
		return false
	}
	f.Code = "bad_policy"
	f.Data = map[string]any{"problems": list(problems)}
	if n := len(problems); n > 0 {
		lines := strings.Split(strings.TrimRight(problems.Error(), "\n"), "\n")
		f.Message, f.More = lines[0], lines[1:]
	}
	f.Hint = "check it with `indoubt policy check`"
	return true
}

func systemFailure(err error, f *failure) bool {
	switch {
	case errors.Is(err, context.Canceled):
		f.Code, f.Message, f.Hint = "stopped", strings.ReplaceAll(f.Message, context.Canceled.Error(), "interrupted"), "what is done stays done; run it again to go on"
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
