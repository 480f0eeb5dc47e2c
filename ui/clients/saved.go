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

	"github.com/aymanbagabas/go-udiff"
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

// open reads a file.
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

// Install plans to put servers behind indoubt: those of these names, or all.
func (s System) Install(path string, w Wrapping, names []string) (*Plan, error) {
	p, c, err := s.open(path, names)
	if err != nil {
		return nil, err
	}
	text, before, err := p.undone(c, names)
	if err != nil {
		return nil, err
	}
	if c, err = Parse(text); err != nil {
		return nil, err
	}
	var edits []udiff.Edit
	for _, server := range c.Servers {
		if chosen(names, server.Name) {
			edits = append(edits, p.wrap(server, w, before[server.ID])...)
		}
	}
	p.After, err = apply(text, edits)
	return p, err
}

// wrap plans one entry.
func (p *Plan) wrap(server *Server, w Wrapping, before Wrapped) []udiff.Edit {
	out := Outcome{Name: server.Name}
	defer func() { p.Servers = append(p.Servers, out) }()
	if _, behind, err := server.Behind(); behind { // else it would have been undone
		out.Why = cmp.Or(err, errByHand).Error()
		return nil
	}
	edits, names, err := server.Wrap(w, before)
	if err != nil {
		out.Why = err.Error()
		return nil
	}
	out.Changes = true
	out.Kinds, out.Scope = "mcp."+names.Server+".*", names.Scope
	return edits
}

// Uninstall plans to take servers from behind indoubt: those of these names, or all.
func (s System) Uninstall(path string, names []string) (*Plan, error) {
	p, c, err := s.open(path, names)
	if err != nil {
		return nil, err
	}
	for _, server := range c.Servers {
		_, behind, _ := server.Behind()
		if !behind || !chosen(names, server.Name) {
			continue
		}
		out := Outcome{Name: server.Name, Changes: true}
		if _, err := server.Unwrap(); err != nil {
			out.Changes, out.Why = false, err.Error()+"; put it back by hand"
		}
		p.Servers = append(p.Servers, out)
	}
	p.After, _, err = p.undone(c, names)
	return p, err
}

// undone is the text with the entries of these names (all, where there are none) taken from
// behind indoubt, and how they stood there.
func (p *Plan) undone(c *Config, names []string) ([]byte, map[string]Wrapped, error) {
	before := map[string]Wrapped{}
	var edits []udiff.Edit
	for _, server := range c.Servers {
		if !chosen(names, server.Name) {
			continue
		}
		if w, ok, err := server.Behind(); ok && err == nil {
			before[server.ID] = w
		}
		undo, err := server.Unwrap()
		if err == nil { // else it stays as it is, and is said to
			edits = append(edits, undo...)
		}
	}
	text, err := apply(p.Before, edits)
	return text, before, err
}

func apply(text []byte, edits []udiff.Edit) ([]byte, error) {
	out, err := udiff.Apply(string(text), edits)
	return []byte(out), err
}

func chosen(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

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
