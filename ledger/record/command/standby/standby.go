// Package standby is how a guard waits. There is one beside each wrapped command, for
// as long as that runs, and nearly always it is dismissed with nothing done. So it waits
// before the rest of the program is initialised, which takes several times the time and
// the memory of this, and lets that happen when there is something to do. A command at a
// terminal is held like that as well, until its witness is there.
//
// Of the packages whose imports are initialised, Go takes the first by name. This one
// imports so little that its turn comes right after that of package os; a test of the
// program keeps it there. It imports nothing of indoubt.
package standby

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Args are the arguments that a guard is started with, before all others.
var Args = []string{"run", "--guard"}

const (
	nothing = "- 0 0 0" // the charge that there is nothing to end
	ahead   = 500 * time.Millisecond
)

// With one of these arguments after its own, a guard is something else.
const (
	witness = "--witness"
	held    = "--held"
	heldBy  = 3 // the file by which a held command is let go
)

// Witnessing makes the command line of a guard that of a witness, a process that joins
// the process group of a command and does nothing. It ends well when its input ends; a key
// of the terminal that asks the group to end (Ctrl-C) ends it by a signal. So it shows that
// a command was asked to end that caught the signal and then exited 0.
func Witnessing(guard []string) []string {
	if len(guard) == 0 {
		return nil
	}
	return append(guard[:len(guard):len(guard)], witness)
}

// Held makes the command line of a guard that of a command which is not run before it is
// let go: it is in its place, with its process id, and does nothing.
func Held(guard []string, path string, argv []string) []string {
	return append(append(guard[:len(guard):len(guard)], held, path), argv...)
}

// hold waits for a byte, and then runs a command in the place of this process. Just before, it
// answers with a byte. Where the command cannot be run, the error number follows.
func hold(path string, argv []string) {
	if n, _ := syscall.Read(heldBy, make([]byte, 1)); n == 1 {
		syscall.CloseOnExec(heldBy)
		_, _ = syscall.Write(heldBy, []byte(" "))
		errno, _ := any(syscall.Exec(path, argv, os.Environ())).(syscall.Errno) // package errors would be initialised for As
		_, _ = syscall.Write(heldBy, []byte(strconv.Itoa(int(errno))))
	}
	os.Exit(1)
}

func init() {
	if len(os.Args) > len(Args) && os.Args[1] == Args[0] && os.Args[2] == Args[1] {
		for i, arg := range os.Args {
			if arg == held {
				hold(os.Args[i+1], os.Args[i+2:])
			}
		}
		if os.Args[len(os.Args)-1] == witness {
			_, _ = os.Stdin.Read(make([]byte, 1)) // on the main thread, so that a signal comes before the end of the input
			os.Exit(0)
		}
		waited = wait(os.Stdin, func() { os.Exit(0) })
	}
}

var waited *rest

// Time is that of a charge, as it is written: how long from a moment.
func Time(left time.Duration, now time.Time) string {
	return strconv.FormatInt(left.Milliseconds(), 10) + "@" + strconv.FormatInt(now.UnixMilli(), 10)
}

// Left is what a time still has; 0 is no limit. What passed until it is read counts: a
// guard may be slow to start. A clock that was set back adds nothing.
func Left(written string, now time.Time) (time.Duration, error) {
	length, at := written, now.UnixMilli()
	for i := range len(written) {
		if written[i] == '@' {
			var err error
			if at, err = strconv.ParseInt(written[i+1:], 10, 64); err != nil {
				return 0, err
			}
			length = written[:i]
		}
	}
	left, err := strconv.ParseInt(length, 10, 64)
	if err != nil || left <= 0 {
		return 0, err
	}
	return time.Duration(max(1, left-max(0, now.UnixMilli()-at))) * time.Millisecond, nil
}

// Input is what the guard has yet to read: in, or what standby has not dealt with.
func Input(in io.Reader) io.Reader {
	if waited == nil {
		return in
	}
	return waited
}

// rest are the charges that are left: the last one, and what is still to come.
type rest struct {
	text []byte
	more chan []byte
}

func (r *rest) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		text, open := <-r.more
		if !open {
			return 0, io.EOF
		}
		r.text = text
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

// wait reads charges until there is something to do: the input has ended in the
// middle of one, its time is nearly up, or it cannot be read. Where the input ends
// with nothing to do, it calls dismissed.
func wait(in io.Reader, dismissed func()) *rest {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	r := &rest{more: make(chan []byte)}
	go func() {
		defer close(r.more)
		for {
			text := make([]byte, 512)
			n, err := in.Read(text)
			if n > 0 {
				r.more <- text[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	charge, end := nothing, time.Time{}
	var soon <-chan time.Time
	for {
		select {
		case text, open := <-r.more:
			if !open && len(r.text) == 0 && charge == nothing {
				dismissed()
			}
			r.text = append(r.text, text...)
			for open {
				line, after, whole := bytes.Cut(r.text, []byte("\n"))
				if !whole {
					break
				}
				left, err := Left(string(line[bytes.LastIndexByte(line, ' ')+1:]), time.Now())
				if err != nil {
					return r.after(charge, end)
				}
				charge, r.text, end, soon = string(line), after, time.Time{}, nil
				if left > 0 {
					end, soon = time.Now().Add(left), time.After(max(left/2, left-ahead))
				}
			}
			if !open {
				return r.after(charge, end)
			}
		case <-soon:
			return r.after(charge, end)
		}
	}
}

// after puts a charge before what is left, with the time that it has until its end.
func (r *rest) after(charge string, end time.Time) *rest {
	left := []byte(charge)
	if !end.IsZero() {
		left = append(left[:bytes.LastIndexByte(left, ' ')+1], Time(max(time.Millisecond, time.Until(end)), time.Now())...)
	}
	r.text = append(append(left, '\n'), r.text...)
	return r
}
