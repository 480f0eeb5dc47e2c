package procgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is one process as /proc shows it.
type entry struct {
	Process
	parent, group int
	state         byte
	kernel        bool // a thread of the kernel
}

const kernelThread = 0x00200000 // PF_KTHREAD

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

// look reads /proc/PID/stat. The name is in brackets and may contain any character.
func look(pid int) (entry, error) {
	line, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return entry{}, err
	}
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || shut < open {
		return entry{}, fmt.Errorf("process %d: its stat cannot be read", pid)
	}
	f := strings.Fields(string(line[shut+1:]))
	if len(f) < 20 {
		return entry{}, fmt.Errorf("process %d: its stat is cut", pid)
	}
	e := entry{Process: Process{PID: pid, UID: -1, Name: string(line[open+1 : shut])}, state: f[0][0]}
	var flags int64
	for at, to := range map[int]any{1: &e.parent, 2: &e.group, 6: &flags, 19: &e.start} {
		if _, err := fmt.Sscan(f[at], to); err != nil {
			return entry{}, fmt.Errorf("process %d: its stat cannot be read: %w", pid, err)
		}
	}
	e.kernel = flags&kernelThread != 0
	return e, nil
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
	env, err := os.ReadFile(file(e.PID, "environ"))
	if err == nil && len(env) == 0 && !e.kernel {
		env, err = e.threadEnviron()
	}
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

// threadEnviron reads the environment through another thread: a first thread that
// has ended has none.
func (e entry) threadEnviron() ([]byte, error) {
	threads, err := os.ReadDir(file(e.PID, "task"))
	for _, t := range threads {
		if env, err := os.ReadFile(file(e.PID, "task/"+t.Name()+"/environ")); err == nil && len(env) > 0 {
			return env, nil
		}
	}
	return nil, err
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
