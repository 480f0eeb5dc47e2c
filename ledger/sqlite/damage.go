package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// DamagedError: the file is not what was written to it.
type DamagedError struct{ Path, Found string }

func (e *DamagedError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says how to go back to a backup.
func (e *DamagedError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "damaged", Message: name(e.Path) + " is damaged: " + e.Found,
		Do: "stop what writes to it, move it away with its -wal and -shm, and put a backup in its place (Backups in ledger/README.md)"}
}

// IOError: the disk, its file system or a limit of the system said no. It says
// nothing about what is in the file.
type IOError struct {
	Path string
	Err  error // the driver's, or the system's
}

func (e *IOError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says where to look.
func (e *IOError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "io_error", Message: name(e.Path) + " could not be opened, read or written: " + e.why(),
		Do: "look at who may open it, at what else has it open, at the disk, its room, and the limits of this process (ls -l, fuser, df, dmesg, " +
			"ulimit -f -n), and try again; this says nothing about what is in the file: `indoubt doctor` reads all of it"}
}

// why is what SQLite said of it. What it took for damage, and is whole at a second
// look, was an error of the disk.
func (e *IOError) why() string {
	switch code(e.Err) & 0xff {
	case codeCorrupt, codeNotADB:
		return "I/O error"
	}
	var call *fs.PathError
	if errors.As(e.Err, &call) {
		return call.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap gives the driver's error.
func (e *IOError) Unwrap() error { return e.Err }

// Check has SQLite look at the whole file. Errors: *DamagedError, and those of
// reading it.
func Check(ctx context.Context, path string) error {
	path, err := absolute(path)
	if err != nil {
		return err
	}
	said, err := quickCheck(ctx, path)
	if err != nil {
		return translate(path, err)
	}
	if said == "ok" {
		return nil
	}
	return passed(path, fmt.Errorf("I/O error: %s", said))
}

// passed is what to make of what looks like damage: err where it was an error of
// the disk that has passed, and *DamagedError where it stays.
func passed(path string, err error) error {
	if err := logWhole(path); err != nil {
		return err
	}
	if found := damage(path); found != "" {
		return &DamagedError{path, found}
	}
	return &IOError{path, err}
}

// damage looks at the file again, and gives what is wrong with it, "" where nothing
// is. To SQLite an error of the disk looks like damage. One look may meet the next
// error of a failing disk, and says nothing then; damage is what stays.
func damage(path string) (found string) {
	// From one thread: a call that fails once in each thread fails once here.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	times := 0
	for range 10 {
		said, err := quickCheck(ctx, path)
		switch {
		case err == nil && said == "ok", errors.Is(err, context.DeadlineExceeded):
			return ""
		case err == nil && !unread(said), code(err)&0xff == codeCorrupt, code(err)&0xff == codeNotADB:
			if said != found { // what stays is the same at every look
				times = 0
			}
			times, found = times+1, said
		}
		if times == 3 {
			return cmp.Or(cutOff(path), found, "what is in it is not what SQLite has written")
		}
		time.Sleep(2 * time.Millisecond)
	}
	return ""
}

// quickCheck gives "ok", or the first thing that is wrong.
func quickCheck(ctx context.Context, path string) (said string, err error) {
	err = askOnce(ctx, dsn(path, "ro"), `PRAGMA quick_check(1)`, &said)
	return said, err
}

var pageError = lazyregexp.New(`failed to get page|error code=(\d+)`)

// unread reports whether a check speaks of a page that the disk did not give.
func unread(said string) bool {
	m := pageError.FindStringSubmatch(said)
	if m == nil {
		return false
	}
	n, err := strconv.Atoi(m[1])
	return err != nil || n&0xff == codeIO
}

// cutOff says how much of the file is there, where that is less than its header
// says (https://sqlite.org/fileformat.html). This process gives up its locks on the
// file by that, which is no loss where it is damaged.
func cutOff(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	const magic = "SQLite format 3\x00"
	var header [100]byte
	n, err := f.ReadAt(header[:], 0)
	switch begun := string(header[:min(n, len(magic))]); {
	case begun != magic[:len(begun)]:
		return ""
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("it is cut off after %d bytes", n)
	}
	number := func(at, bytes int) (n int64) {
		for _, b := range header[at : at+bytes] {
			n = n<<8 | int64(b)
		}
		return n
	}
	page := number(16, 2)
	if page == 1 {
		page = 65536
	}
	if whole := page * number(28, 4); info.Size() < whole {
		return fmt.Sprintf("it is cut off: %d of %d bytes are there", info.Size(), whole)
	}
	return ""
}
