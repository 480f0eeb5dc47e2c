package procgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	killedCode  = 0xE0001D07 // the exit code that Kill sets; its top bits mean an error that is not Microsoft's
	controlExit = 0xC000013A // STATUS_CONTROL_C_EXIT: by Ctrl-C or Ctrl-Break
)

// Group is a started command and the processes it has started: a job object.
type Group struct {
	process *os.Process
	job     windows.Handle
	killed  atomic.Bool
}

// Prepare makes a command start in its own group, so that Ctrl-C at the console does
// not reach it, and suspended, so that it is in its job before it runs.
func Prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
}

// Start starts a prepared command. When it cannot be put into a job, Start returns
// an error before the command has run an instruction.
func Start(cmd *exec.Cmd) (*Group, error) {
	if cmd.SysProcAttr == nil || cmd.SysProcAttr.CreationFlags&windows.CREATE_SUSPENDED == 0 {
		return nil, errNotOwn
	}
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("a job object for the command: %w", err)
	}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	var refused error
	err = cmd.Process.WithHandle(func(h uintptr) { refused = windows.AssignProcessToJobObject(job, windows.Handle(h)) })
	if err = errors.Join(err, refused); err == nil {
		err = resume(uint32(cmd.Process.Pid))
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = windows.CloseHandle(job)
		_ = cmd.Wait()
		return nil, fmt.Errorf("put the command into its job object: %w", err)
	}
	return &Group{process: cmd.Process, job: job}, nil
}

// newJob returns a job that ends with its last handle, which this process holds.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	if err := limit(job, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE); err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

func limit(job windows.Handle, flags uint32) error {
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: flags}}
	_, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err
}

// resume resumes the one thread of a suspended process. os/exec has closed its
// handle.
func resume(pid uint32) error {
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(all)
	resumed := false
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(all, &entry); err == nil; err = windows.Thread32Next(all, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(thread)
		_ = windows.CloseHandle(thread)
		if err != nil {
			return err
		}
		resumed = true
	}
	if !resumed {
		return errors.New("the thread of the suspended command was not found")
	}
	return nil
}

// ID names the group to a process that guards it.
func (g *Group) ID() int { return g.process.Pid }

// Kill ends the whole group at once. A group that has ended already is not an error.
func (g *Group) Kill() {
	g.killed.Store(true)
	_ = windows.TerminateJobObject(g.job, killedCode)
}

// Terminate asks the command to end, with Ctrl-Break. It does not reach a command
// that shares no console with this process.
func (g *Group) Terminate() {
	if !g.Exited() { // its pid could belong to another process by now
		_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.process.Pid))
	}
}

// Signal does what Terminate does: Windows has no other signal between processes.
func (g *Group) Signal(os.Signal) { g.Terminate() }

// Widen changes nothing: a process cannot leave its job.
func (g *Group) Widen(Scope) {}

// Adopt reports false: Windows gives orphans no new parent.
func Adopt() bool { return false }

// Reap does nothing: there are no adopted processes.
func (g *Group) Reap() {}

func (g *Group) killGroup()     { g.Kill() }
func (g *Group) kill([]Process) { g.Kill() }

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	times                             [4]int64
	faults, total, active, terminated uint32
}

const basicAccounting = 1 // JobObjectBasicAccountingInformation

// Left returns the processes of the job.
func (g *Group) Left() ([]Process, error) {
	var info accounting
	err := windows.QueryInformationJobObject(g.job, basicAccounting, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	if err != nil || info.active == 0 {
		return nil, err
	}
	return []Process{{PID: g.process.Pid, UID: -1, Name: "job object"}}, nil
}

// EndedBadly reports whether the command has ended with an exit code other than 0.
func (g *Group) EndedBadly() bool {
	code, known := g.exitCode()
	return known && code != 0
}

// Ending describes how the command has ended, or is "" where that is not known.
func (g *Group) Ending() string {
	if code, known := g.exitCode(); known {
		return fmt.Sprintf("exit status %d", code)
	}
	return ""
}

func (g *Group) exitCode() (code uint32, known bool) {
	err := g.process.WithHandle(func(h uintptr) { _ = windows.GetExitCodeProcess(windows.Handle(h), &code) })
	return code, err == nil && g.Exited()
}

// Release gives the group up. Its processes go on, unless they were killed. The
// group must not be used afterwards.
func (g *Group) Release() {
	if !g.killed.Load() {
		_ = limit(g.job, 0)
	}
	_ = windows.CloseHandle(g.job)
}

// AwaitExit returns when the command has exited, and does not collect it: until it
// is collected, its process id is not used again. It reports whether it could wait.
// Windows does not stop commands.
func (g *Group) AwaitExit(func()) bool {
	waited := false
	err := g.process.WithHandle(func(h uintptr) {
		event, err := windows.WaitForSingleObject(windows.Handle(h), windows.INFINITE)
		waited = err == nil && event == windows.WAIT_OBJECT_0
	})
	return err == nil && waited
}

// Exited reports whether the command has ended already.
func (g *Group) Exited() bool {
	ended := true
	err := g.process.WithHandle(func(h uintptr) {
		event, err := windows.WaitForSingleObject(windows.Handle(h), 0)
		ended = err != nil || event != uint32(windows.WAIT_TIMEOUT)
	})
	return err != nil || ended
}

// EndedBy returns "SIGKILL" for a command that Kill has ended, else "". A command
// that another program has ended (the task manager) looks like one that exited by
// itself, mostly with code 1.
func (g *Group) EndedBy(state *os.ProcessState) string {
	switch uint32(state.ExitCode()) {
	case killedCode:
		return "SIGKILL"
	case controlExit:
		return "SIGINT"
	}
	return ""
}
