package procgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type entry struct {
	Process
	parent, group int
	state         byte
	kernel        bool // a thread of the kernel
}

const (
	exiting      = 0x00000004 // PF_EXITING
	kernelThread = 0x00200000 // PF_KTHREAD
)

// processes reads the table of processes, without those that have ended.
func processes() ([]entry, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc does not show processes: is it mounted?")
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]entry, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		e, err := look(pid)
		switch {
		case gone(err):
			continue
		case err != nil:
			return nil, err
		}
		if e.alive() {
			all = append(all, e)
		}
	}
	return all, nil
}

// look reads /proc/PID/stat.
func look(pid int) (entry, error) {
	name, f, err := statIn(pid, "stat")
	if err != nil {
		return entry{}, err
	}
	e := entry{Process: Process{PID: pid, UID: -1, Name: name}, state: f[0][0]}
	var flags int64
	for at, to := range map[int]any{1: &e.parent, 2: &e.group, 6: &flags, 19: &e.start} {
		if _, err := fmt.Sscan(f[at], to); err != nil {
			return entry{}, fmt.Errorf("process %d: its stat cannot be read: %w", pid, err)
		}
	}
	e.kernel = flags&kernelThread != 0
	return e, nil
}

// statIn reads the name of a process or of its thread, which is in brackets and may contain
// any character, and the fields behind it, from the third on.
func statIn(pid int, name string) (of string, f []string, err error) {
	line, err := os.ReadFile(file(pid, name))
	if err != nil {
		return "", nil, err
	}
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || shut < open {
		return "", nil, fmt.Errorf("process %d: its stat cannot be read", pid)
	}
	if f = strings.Fields(string(line[shut+1:])); len(f) < 20 {
		return "", nil, fmt.Errorf("process %d: its stat is cut", pid)
	}
	return string(line[open+1 : shut]), f, nil
}

// alive reports whether the process can still act. A process whose first thread has
// ended can, while other threads run.
func (e entry) alive() bool {
	if e.state != 'Z' && e.state != 'X' {
		return true
	}
	threads, err := os.ReadDir(file(e.PID, "task"))
	return err == nil && len(threads) > 1
}

func file(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// gone reports whether an error means that the process has ended meanwhile.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// carries reports whether the process carries the mark of the attempt. The
// environment is that of its start.
func (e entry) carries(attempt string) (bool, error) {
	env, err := e.environ()
	if err != nil {
		if gone(err) {
			return false, nil
		}
		return false, err
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := strings.Cut(string(v), "=")
		if name == Mark && value == attempt {
			return true, nil
		}
		if name == markAbove && strings.Contains(" "+value+" ", " "+attempt+" ") {
			return true, nil
		}
	}
	return false, nil
}

// loadPatience is how long a program that is being loaded is waited for.
const loadPatience = 200 * time.Millisecond

// environ reads the environment of the process. While a program is loaded into it, it
// shows none, and is no less the command's for that.
func (e entry) environ() ([]byte, error) {
	for until := time.Now().Add(loadPatience); ; time.Sleep(time.Millisecond) {
		env, loading, err := e.shown()
		if !loading {
			return env, err
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("process %s: %w", e, errLoading)
		}
	}
}

// shown is the environment as the first thread that can still act shows it. One that ends
// shows none, and /proc closes its files to all but root: of a program that is killed the
// first thread may be that far while others are not, and of another one it may be for good.
func (e entry) shown() (env []byte, loading bool, err error) {
	env, err = whole(file(e.PID, "environ"))
	if e.kernel || err == nil && len(env) > 0 {
		return env, false, err
	}
	threads, err := os.ReadDir(file(e.PID, "task"))
	if err != nil {
		return nil, false, err
	}
	var failed error
	for _, t := range threads {
		thread := "task/" + t.Name() + "/"
		env, err := whole(file(e.PID, thread+"environ"))
		if err == nil && len(env) > 0 {
			return env, false, nil
		}
		bare, unknown := bare(e.PID, thread+"stat") // asked later, so that it explains what was not shown
		switch {
		case bare || gone(unknown):
		case unknown != nil:
			failed = unknown
		case err != nil && !gone(err):
			failed = err
		default:
			loading = true
		}
	}
	return nil, loading && failed == nil, failed
}

// whole reads an environment by one call: between two, another program may take the
// place of the first, whose rest can no longer be read.
func whole(name string) ([]byte, error) {
	for room := 32 << 10; ; room *= 4 {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		env := make([]byte, room)
		n, err := f.Read(env)
		f.Close()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err != nil || n < room {
			return env[:n], err
		}
	}
}

// bare reports whether a thread has no environment, or can no longer act.
func bare(pid int, name string) (bool, error) {
	_, f, err := statIn(pid, name)
	if err != nil {
		return false, err
	}
	flags, err := strconv.ParseInt(f[6], 10, 64)
	if err != nil || f[0] == "Z" || f[0] == "X" || flags&exiting != 0 || len(f) < 49 {
		return true, err
	}
	// Where its code begins is written last, when all else is in its place.
	code, begins, ends := f[23], f[47], f[48]
	return code != "0" && begins == ends, nil
}

// uids are the real, effective, saved and file system account.
func (e entry) uids() ([]int, error) {
	text, err := os.ReadFile(file(e.PID, "status"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "Uid:")
		if !ok {
			continue
		}
		var out []int
		for _, f := range strings.Fields(rest) {
			n, err := strconv.Atoi(f)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	}
	return nil, fmt.Errorf("process %d: its account cannot be read", e.PID)
}

// signal signals this process, and no later one with the same pid.
func (p Process) signal(s unix.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if now, err := look(p.PID); err != nil || now.start != p.start {
		return
	}
	if err != nil { // a kernel without it
		_ = unix.Kill(p.PID, s)
		return
	}
	_ = unix.PidfdSendSignal(fd, s, nil, 0)
}
