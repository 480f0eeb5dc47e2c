package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settleTime = 100 * time.Millisecond // editors write in several steps
	pollTime   = 5 * time.Second        // a removed directory ends the events silently
)

// Watch calls onChange whenever the content of the file changes: with the new policy,
// or with the error of reading it. have is the policy that the caller uses at first; it
// may be nil or one without a file. The caller goes on with the last good policy. Watch
// returns when ctx ends, and at once with an error when the directory cannot be watched.
//
// The directory is watched, not the file, because editors and git replace files.
func Watch(ctx context.Context, path string, have *Policy, onChange func(*Policy, error)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch policy: %w", err)
	}
	w := &watched{path: path, onChange: onChange}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch policy: %w", err)
	}
	defer events.Close()
	if err := watchDirectories(events, path); err != nil {
		return fmt.Errorf("watch policy: %w", err)
	}
	w.begin(have)
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	settled := time.NewTimer(settleTime) // what changed while the watch was set up
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-events.Events:
			if !ok {
				return errors.New("watch policy: the watcher has ended")
			}
			// Any event in the directory may be ours by way of a symbolic link.
			settled.Reset(settleTime)
		case <-events.Errors: // the poll goes on
		case <-settled.C:
			w.look()
		case <-poll.C:
			_ = watchDirectories(events, path) // again, in case one was removed or made anew
			w.look()
		}
	}
}

// watchDirectories watches where the files of a policy are.
func watchDirectories(events *fsnotify.Watcher, path string) error {
	_ = events.Add(besides(path)) // there need not be one
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return events.Add(path)
	}
	return events.Add(filepath.Dir(path))
}

// Follower reads a policy again whenever its text has changed. It is used from one
// goroutine.
type Follower struct {
	watched
	have *Policy
	err  error
}

// Follow follows the policy at the path from have on, which is of there or the one
// without a file.
func Follow(path string, have *Policy) *Follower {
	return &Follower{watched: watched{path: path}, have: have}
}

// Now is the policy as it stands in its file now. The errors are those of Load.
func (f *Follower) Now() (*Policy, error) {
	f.onChange = func(p *Policy, err error) {
		if f.err = err; f.have.empty && errors.Is(err, fs.ErrNotExist) {
			f.err = nil
		}
		if p != nil && p.digest != f.have.digest {
			f.have = p
		}
	}
	f.look()
	return f.have, f.err
}

type watched struct {
	path     string
	onChange func(*Policy, error)
	last     []file
	lastErr  string
}

// begin takes the content as it is, and reports it where the caller's is older.
func (w *watched) begin(have *Policy) {
	files, failed := w.read()
	if have == nil || have.empty && failed != nil {
		return
	}
	now, err := w.load(files, failed)
	if err != nil || now.digest != have.digest {
		w.onChange(now, err)
	}
}

// look reports a change of content once.
func (w *watched) look() {
	last, lastErr := w.last, w.lastErr
	files, failed := w.read()
	if slices.EqualFunc(files, last, func(a, b file) bool { return a.name == b.name && bytes.Equal(a.text, b.text) }) && w.lastErr == lastErr {
		return
	}
	w.onChange(w.load(files, failed))
}

// read takes the content, or why there is none. It reads regular files only: a pipe
// would block, and gives its text once.
func (w *watched) read() (files []file, failed error) {
	info, err := os.Stat(w.path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		failed = fmt.Errorf("policy: %s is not a regular file", w.path)
	} else {
		files, failed = contents(w.path)
	}
	w.last, w.lastErr = files, ""
	if failed != nil {
		w.lastErr = failed.Error()
	}
	return files, failed
}

func (w *watched) load(files []file, failed error) (*Policy, error) {
	if failed != nil {
		return nil, failed
	}
	return parse(w.path, files, nil)
}
