package drill

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// worker is a pipeline process, seen from the process that started it.
type worker struct {
	name    string
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
	said    bytes.Buffer // on its standard error; read when it has ended

	mu     sync.Mutex // one order at a time
	killed bool
	once   sync.Once
	ended  error
}

// hire starts a process and gives it its posting; ready waits until it works.
func hire(command []string, env []string, at posting) (*worker, error) {
	k := &worker{name: at.Name, cmd: exec.Command(command[0], command[1:]...)}
	k.cmd.Env = append(os.Environ(), env...)
	k.cmd.Stderr = &k.said
	var err error
	if k.orders, err = k.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	k.answers = bufio.NewReaderSize(out, 1<<16)
	if err := k.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting pipeline %s: %w", at.Name, err)
	}
	if _, err := k.orders.Write(append(encode(at), '\n')); err != nil {
		return nil, k.broken(err)
	}
	return k, nil
}

// tell gives an order and waits for the answer.
func (k *worker) tell(o order) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.orders.Write(append(encode(o), '\n')); err != nil {
		return k.broken(err)
	}
	return k.ready()
}

// ready waits for the answer to an order, or to its posting.
func (k *worker) ready() error {
	line, err := k.answers.ReadBytes('\n')
	if err != nil {
		return k.broken(err)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("pipeline %s answered %q: %w", k.name, line, err)
	}
	if r.Error != "" {
		return fmt.Errorf("pipeline %s: %s", k.name, r.Error)
	}
	return nil
}

func (k *worker) broken(err error) error {
	k.wait()
	return fmt.Errorf("pipeline %s is gone: %w; it said: %s", k.name, err, k.said.String())
}

// kill ends the process where it stands, as kill -9 does.
func (k *worker) kill() error {
	k.killed = true
	err := k.cmd.Process.Kill()
	k.wait()
	return err
}

// dismiss tells it to stop: its orders end.
func (k *worker) dismiss() { k.orders.Close() }

// wait waits until the process has ended, and ends it when it takes too long.
func (k *worker) wait() error {
	k.once.Do(func() {
		late := time.AfterFunc(2*time.Second, func() { k.cmd.Process.Kill() })
		defer late.Stop()
		err := k.cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !k.killed && !errors.As(err, &exit) {
			k.ended = err
		}
	})
	return k.ended
}
