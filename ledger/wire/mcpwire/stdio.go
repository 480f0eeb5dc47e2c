package mcpwire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"indoubt/ledger/wire/procgroup"
)

// StdioOptions says which server Start starts.
type StdioOptions struct {
	Argv   []string
	Dir    string    // "" is this process's
	Env    []string  // nil is this process's
	Stderr io.Writer // gets what the server writes there; nil drops it

	// How long Close waits for the server to go after its input has ended, and
	// again after SIGTERM. Zero means 2 s each.
	Grace time.Duration
}

const (
	defaultGrace = 2 * time.Second
	outputWait   = 2 * time.Second // for output that outlives the server, at most
	exitWait     = time.Second     // for the exit of a server that has closed its end
	pipeAtom     = 512             // POSIX's least PIPE_BUF
)

// stdio is a server that is a child of this process.
type stdio struct {
	cmd    *exec.Cmd
	group  *procgroup.Group
	in     *os.File
	out    *os.File
	lines  *bufio.Reader
	grace  time.Duration
	exited chan struct{} // closed when the server itself has exited
	ending string        // how, in words; set before exited is closed
	gone   chan struct{} // closed when it is collected, after release
	free   chan struct{} // closed by Close: its process id may go
	close  sync.Once

	writing chan struct{} // holds the one who writes
	closed  chan struct{}
}

// Start starts an MCP server as a child in a process group of its own and
// connects to its standard input and output. An error means that it did not
// start, and nothing was sent.
func Start(ctx context.Context, o StdioOptions) (Conn, error) {
	if len(o.Argv) == 0 {
		return nil, errors.New("no command given for the MCP server")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the MCP server: %w", err)
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("start the MCP server: %w", err)
	}
	defer theirOut.Close()
	s := &stdio{
		cmd: exec.Command(o.Argv[0], o.Argv[1:]...), in: in, out: out,
		lines: bufio.NewReaderSize(out, 64<<10), grace: o.Grace,
		exited: make(chan struct{}), gone: make(chan struct{}), free: make(chan struct{}),
		writing: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if s.grace <= 0 {
		s.grace = defaultGrace
	}
	s.cmd.Dir, s.cmd.Env, s.cmd.WaitDelay = o.Dir, o.Env, outputWait
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirIn, theirOut, o.Stderr
	procgroup.Prepare(s.cmd)
	started := make(chan error, 1)
	go s.live(started)
	if err := <-started; err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start the MCP server: %w", err)
	}
	return s, nil
}

// live starts the server and waits for it, all on one thread: the kernel's
// parent-death signal fires when the thread that started it ends.
func (s *stdio) live(started chan<- error) {
	runtime.LockOSThread()
	var err error
	s.group, err = procgroup.Start(s.cmd)
	started <- err
	if err != nil {
		return
	}
	if s.group.AwaitExit(nil) {
		s.ending, _ = s.group.Exit()
		close(s.exited)
		<-s.free // until then its pid is not used again, and its group can be signalled
		_ = s.cmd.Wait()
	} else {
		_ = s.cmd.Wait()
		s.ending = s.cmd.ProcessState.String()
		close(s.exited)
	}
	close(s.gone)
}

func (s *stdio) Send(ctx context.Context, line []byte) (bool, error) {
	if len(line) > MaxLine {
		return false, ErrLineTooLong
	}
	if n := len(line); n == 0 || line[n-1] != '\n' {
		line = append(line[:n:n], '\n')
	}
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.closed:
		return false, ErrClosed
	}
	// The kernel takes a first part of this size whole or not at all, so until
	// then the line can be given up without a broken one in the pipe.
	first := min(len(line), pipeAtom)
	sent, err := s.writeWithin(ctx, line[:first])
	if err == nil && first < len(line) {
		_, err = s.in.Write(line[first:])
	}
	switch {
	case errors.Is(err, os.ErrClosed):
		err = ErrClosed
	case err != nil && ctx.Err() == nil:
		err = s.orEnded(err)
	}
	return sent, err
}

// orEnded is an error of a pipe to or from the server, or how the server ended
// where that is its cause.
func (s *stdio) orEnded(err error) error {
	timer := time.NewTimer(exitWait)
	defer timer.Stop()
	select {
	case <-s.closed:
	case <-timer.C:
	case <-s.exited:
		if isClosed(s.closed) { // it was asked to
			return err
		}
		if s.ending != "" {
			return fmt.Errorf("%w by itself: %s", ErrEnded, s.ending)
		}
		return fmt.Errorf("%w by itself", ErrEnded)
	}
	return err
}

// writeWithin writes unless the context ends first. Where a write to a pipe that is
// full cannot be given up, the server is killed instead.
func (s *stdio) writeWithin(ctx context.Context, part []byte) (sent bool, err error) {
	if err := ctx.Err(); err != nil { // it may have waited behind another line
		return false, err
	}
	over, killed := make(chan struct{}), false
	stop := context.AfterFunc(ctx, func() {
		if err := s.in.SetWriteDeadline(time.Unix(1, 0)); errors.Is(err, os.ErrNoDeadline) {
			s.group.Kill()
			killed = true
		}
		close(over)
	})
	n, err := s.in.Write(part)
	if !stop() {
		<-over
		_ = s.in.SetWriteDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && killed {
		err = ctx.Err()
	}
	return n > 0 || killed, err
}

func (s *stdio) Recv() ([]byte, error) {
	var long []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		if len(long)+len(part) > MaxLine {
			return nil, ErrLineTooLong
		}
		long = append(long, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, len(long) > 0: // a last line without its newline counts; the error comes again
			return long, nil
		case errors.Is(err, os.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			s.out.Close()
			return nil, ErrClosed
		}
		return nil, s.orEnded(err)
	}
}

// Close ends the server's input, waits, then terminates its process group and
// at last kills it.
func (s *stdio) Close() error {
	s.close.Do(func() {
		close(s.closed)
		s.in.Close()
		for _, end := range []func(){s.group.Terminate, s.group.Kill} {
			if s.within(s.grace) {
				break
			}
			end()
		}
		<-s.exited
		s.group.Kill() // what it left behind
		close(s.free)
	})
	<-s.gone
	// What the server said last may still be on its way to the one who receives. Its
	// end of the pipe is closed unless a process that got away holds it.
	if err := s.out.SetReadDeadline(time.Now().Add(outputWait)); err != nil {
		s.out.Close()
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *stdio) within(grace time.Duration) bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}
