package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// FormerError: there is no ledger at the path, and one was there before. A new one
// would know nothing of what was sent, and everything would be sent again.
type FormerError struct {
	Path  string
	Trace string // what tells of it
	Log   bool   // the trace is its log: the newest writes are in there
}

func (e *FormerError) Error() string {
	return fmt.Sprintf("there is no ledger at %s, and there was one: %s; %s", e.Path, e.Trace, e.Do())
}

// Do is what helps.
func (e *FormerError) Do() string {
	if e.Log {
		return "bring the ledger back beside its log, where its newest writes are; for a new ledger, move the log away first"
	}
	return "bring it back, or check the path; where it is gone for good, `indoubt init --anew` makes a new one"
}

// former refuses a place where a ledger was.
func former(path string, o Options) error {
	for _, side := range []string{"-wal", "-shm"} {
		if f, err := fileAt(path + side); err == nil && (f.size > 0 || side == "-wal") {
			if db, err := fileAt(path); err == nil && db.there() && f.size == 0 {
				continue // it is being made
			}
			return &FormerError{path, path + side + " is still there", true}
		}
	}
	if o.Anew {
		return nil
	}
	if isUsed(o.Used, path) {
		return &FormerError{Path: path, Trace: "this account has used it"}
	}
	if _, err := os.Stat(path); err == nil {
		return nil // empty: it is being made
	}
	for _, side := range []string{".lock", ".bell"} {
		if _, err := os.Lstat(path + side); err == nil {
			return &FormerError{Path: path, Trace: path + side + " is still there"}
		}
	}
	return nil
}

// mostUsed bounds the list of ledgers that an account has used.
const mostUsed = 1 << 20

func isUsed(list, path string) bool {
	if list == "" {
		return false
	}
	text, err := os.ReadFile(list)
	return err == nil && bytes.Contains(append([]byte("\n"), text...), []byte("\n"+path+"\n"))
}

// remember adds a ledger to the list. Where that cannot be written, nothing is
// remembered: the files beside a ledger tell of it, too.
func remember(list, path string) {
	if list == "" || isUsed(list, path) || bytes.ContainsAny([]byte(path), "\n") {
		return
	}
	if os.MkdirAll(filepath.Dir(list), 0o755) != nil {
		return
	}
	f, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() < mostUsed {
		_, _ = f.WriteString(path + "\n")
	}
}
