package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
)

// before says that there is no ledger at the path, or an empty file, and that one was there: a
// new one would know nothing of what was sent, and everything would be sent again.
func before(path, trace, do string, empty bool) error {
	e := &Refusal{Code: "former", Before: "no ledger at ", Path: path, After: ", and there was one: ", Do: do}
	if empty {
		e.Before, e.After = "", " is empty, and a ledger was there: "
	}
	e.After += trace + ". This is not an all-clear"
	return e
}

const (
	doBack = "bring it back or put a backup in its place, or check the path; where it is gone for good, `indoubt init --anew` makes a new one"
	doLog  = "bring the ledger back beside its log, where its newest writes are; for a new ledger, move the log away first"
)

// former refuses a place where a ledger was. Another process may be making one there
// now: its files come after the ledger, so what is seen beside one that has changed
// meanwhile tells nothing.
func former(path string, o Options) error {
	for {
		db, missing := fileAt(path)
		if db.size > 0 {
			return nil
		}
		err := traced(path, o, missing == nil)
		again, gone := fileAt(path)
		if err == nil || (missing == nil) == (gone == nil) && again.size == 0 {
			return err
		}
	}
}

// traced looks for what tells of a ledger at a path where none is, or an empty file.
func traced(path string, o Options, empty bool) error {
	for _, side := range []string{"-wal", "-shm", "-journal"} {
		if f, err := fileAt(path + side); err == nil && (f.size > 0 || side != "-shm") {
			if empty && f.size == 0 {
				continue // it is being made
			}
			return before(path, path+side+" is still there", doLog, empty)
		}
	}
	if o.Anew {
		return nil
	}
	if isUsed(o.State, path) {
		return before(path, "this account has used it", doBack, empty)
	}
	for _, side := range []string{".lock", ".bell"} {
		f, err := os.Lstat(path + side)
		switch {
		case err != nil:
		case !empty:
			return before(path, path+side+" is still there", doBack, false)
		case f.Size() > 0: // something was written, so it is not being made
			return before(path, path+side+" tells of writes", doBack, true)
		}
	}
	return nil
}

// mostUsed bounds the list of ledgers that an account has used.
const mostUsed = 1 << 20

func isUsed(state, path string) bool {
	if state == "" {
		return false
	}
	text, err := os.ReadFile(usedIn(state))
	return err == nil && bytes.Contains(append([]byte("\n"), text...), []byte("\n"+path+"\n"))
}

func usedIn(state string) string { return filepath.Join(state, "ledgers") }

// remember adds a ledger to the list. Where that cannot be written, nothing is
// remembered: the files beside a ledger tell of it, too.
func remember(state, path string) {
	if state == "" || isUsed(state, path) || bytes.ContainsAny([]byte(path), "\n") {
		return
	}
	if os.MkdirAll(state, 0o755) != nil {
		return
	}
	f, err := os.OpenFile(usedIn(state), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() < mostUsed {
		_, _ = f.WriteString(path + "\n")
	}
}
