package clients

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Outcome is what is done about one entry.
type Outcome struct {
	Name    string `json:"name"`
	Kinds   string `json:"kinds,omitempty"` // of its recorded calls: mcp.NAME.*
	Scope   string `json:"scope,omitempty"`
	Changes bool   `json:"changes"`
	Why     string `json:"why,omitempty"` // why it stays as it is
}

// Server is the name in the kinds, "" where they have none.
func (o Outcome) Server() string {
	return strings.TrimSuffix(strings.TrimPrefix(o.Kinds, "mcp."), ".*")
}

// Plan is a configuration file as it is and as it is to be.
type Plan struct {
	Path, Target  string // Target is the file itself, where Path is a symbolic link
	Before, After []byte
	Servers       []Outcome
}

// Changed reports whether there is anything to write.
func (p *Plan) Changed() bool { return !bytes.Equal(p.Before, p.After) }

func (s System) open(path string, names []string) (*Plan, *Config, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil, err
	}
	if target, err = filepath.Abs(target); err != nil {
		return nil, nil, err
	}
	p := &Plan{Path: path, Target: target, Servers: []Outcome{}}
	if p.Before, err = os.ReadFile(target); err != nil {
		return nil, nil, err
	}
	c, err := Parse(p.Before)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, c, c.has(path, names)
}

// Install plans to put servers behind indoubt: those of these names, or all. One that stands
// behind it already stays.
func (s System) Install(path string, w Wrapping, names []string) (*Plan, error) {
	return s.plan(path, names, func(server *Server) Outcome {
		if _, behind, _ := server.Behind(); behind {
			return Outcome{Why: "it stands behind indoubt already"}
		}
		names, err := server.Wrap(w)
		if err != nil {
			return Outcome{Why: err.Error()}
		}
		return Outcome{Changes: true, Kinds: "mcp." + names.Server + ".*", Scope: names.Scope}
	})
}

// Uninstall plans to take servers from behind indoubt: those of these names, or all.
func (s System) Uninstall(path string, names []string) (*Plan, error) {
	return s.plan(path, names, func(server *Server) Outcome {
		changed, err := server.Unwrap()
		if err != nil {
			return Outcome{Why: err.Error() + "; put it back by hand"}
		}
		return Outcome{Changes: changed}
	})
}

// plan is what becomes of the entries of these names, or of all; an entry of which nothing is to
// be said is not of the plan.
func (s System) plan(path string, names []string, one func(*Server) Outcome) (*Plan, error) {
	p, c, err := s.open(path, names)
	if err != nil {
		return nil, err
	}
	for _, server := range c.Servers {
		if len(names) > 0 && !slices.Contains(names, server.Name) {
			continue
		}
		out := one(server)
		if out.Name = server.Name; out.Changes || out.Why != "" {
			p.Servers = append(p.Servers, out)
		}
	}
	p.After = c.text()
	return p, nil
}

// MissingError names a server that a file does not have.
type MissingError struct {
	Path, Name string
	There      []string
}

func (e *MissingError) Error() string { return fmt.Sprintf("%s has no server %q", e.Path, e.Name) }

func (c *Config) has(path string, names []string) error {
	var there []string
	for _, s := range c.Servers {
		there = append(there, s.Name)
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return &MissingError{path, name, there}
		}
	}
	return nil
}

// ErrChanged says that a file is another one than was shown.
var ErrChanged = errors.New("the file has changed since it was shown")

// Write carries a plan out: the file at once, under its old mode. A symbolic link to it stays. Errors: ErrChanged.
func (p *Plan) Write() error {
	info, err := os.Stat(p.Target)
	if err != nil {
		return err
	}
	if now, err := os.ReadFile(p.Target); err != nil || !bytes.Equal(now, p.Before) {
		return cmp.Or(err, ErrChanged)
	}
	return replace(p.Target, p.After, info.Mode().Perm())
}

// replace writes a file at once: it has its old text, or the new one.
func replace(path string, text []byte, mode fs.FileMode) error {
	made, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = made.Write(text)
	err = errors.Join(err, made.Chmod(mode), made.Sync(), made.Close())
	if err == nil {
		err = os.Rename(made.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(made.Name()))
	}
	return nil
}
