package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// tellInterrupt has the script that this is a part of hear of the interrupt too.
func tellInterrupt() {
	signal.Ignore(syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
}

// whileRead is ctx until the other end of a pipe or terminal is closed; a write to it errs then.
func whileRead(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	dies := outlivePipes()
	stop := func() { end(); dies() }
	if f, ok := out.(*os.File); ok {
		fds := []unix.PollFd{{Fd: int32(f.Fd())}}
		go func() {
			for ctx.Err() == nil {
				if n, _ := unix.Poll(fds, 1000); n > 0 {
					if fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
						end()
					}
					return
				}
			}
		}()
	}
	return ctx, stop
}
