package clients

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Saved is one entry as it was and as indoubt wrote it.
type Saved struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// Record is what is kept of a configuration file that was rewritten: its text before,
// beside this as a plain file, and the entries by their pointers.
type Record struct {
	Path    string           `json:"path"`
	After   string           `json:"after_sha256"`
	Servers map[string]Saved `json:"servers"`

	Before []byte `json:"-"`
}

// Backups is the folder in which the texts before are kept.
type Backups string

const (
	backupName = "before.json"
	recordName = "record.json"
)

// Of is the folder of one configuration file.
func (b Backups) Of(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(string(b), strings.TrimPrefix(filepath.Base(path), ".")+"-"+hex.EncodeToString(sum[:4]))
}

// Read gives what is kept of a file; the zero Record where there is nothing.
func (b Backups) Read(path string) (r Record, err error) {
	text, err := os.ReadFile(filepath.Join(b.Of(path), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		r.Before, err = os.ReadFile(filepath.Join(b.Of(path), backupName))
	}
	if err != nil {
		return Record{}, fmt.Errorf("the backup of %s: %w", path, err)
	}
	return r, nil
}

// write keeps a record before the file itself is rewritten.
func (b Backups) write(r Record) error {
	dir := b.Of(r.Path)
	if len(r.Servers) == 0 {
		return os.RemoveAll(dir)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(replace(filepath.Join(dir, backupName), r.Before, 0o600), replace(filepath.Join(dir, recordName), text, 0o600))
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

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
	Whole         bool // it becomes byte for byte what it was before indoubt
	record        Record
	parse         func(text []byte) (*Config, error)
}

// Changed reports whether there is anything to write.
func (p *Plan) Changed() bool { return !bytes.Equal(p.Before, p.After) }

// Diff shows what changes, without secrets.
func (p *Plan) Diff() string {
	if !p.Changed() {
		return ""
	}
	before, err := p.masked(p.Before)
	after, bad := p.masked(p.After)
	if err = cmp.Or(err, bad); err != nil {
		return ""
	}
	text, err := udiff.ToUnified(p.Path, p.Path, before, udiff.Lines(before, after), 1)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

func (p *Plan) masked(text []byte) (string, error) {
	c, err := p.parse(text)
	if err != nil {
		return "", err
	}
	return c.Masked()
}

// Backup is where the text before is kept, "" where nothing is.
func (p *Plan) Backup(b Backups) string {
	if len(p.record.Servers) == 0 {
		return ""
	}
	return filepath.Join(b.Of(p.Target), backupName)
}

// open reads a file and what is kept of it.
func (s System) open(path string, b Backups) (*Plan, *Config, error) {
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
	c, err := s.Parse(path, p.Before)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	p.parse = func(text []byte) (*Config, error) { return s.Parse(path, text) }
	if p.record, err = b.Read(target); err != nil {
		return nil, nil, err
	}
	return p, c, nil
}

// Install plans to put servers behind indoubt: those of these names, or all.
func (s System) Install(path string, b Backups, w Wrapping, names []string) (*Plan, error) {
	p, c, err := s.open(path, b)
	if err != nil {
		return nil, err
	}
	if err := c.has(path, names); err != nil {
		return nil, err
	}
	plain, _, err := s.undone(p, c, nil)
	if err != nil {
		return nil, err
	}
	text, before, err := s.undone(p, c, names)
	if err != nil {
		return nil, err
	}
	if c, err = s.Parse(path, text); err != nil {
		return nil, err
	}
	var edits []udiff.Edit
	for _, server := range c.Servers {
		if !chosen(names, server.Name) {
			continue
		}
		edits = append(edits, p.wrap(server, w, before[server.ID])...)
	}
	if p.After, err = apply(text, edits); err != nil {
		return nil, err
	}
	p.record = Record{Path: p.Target, After: digest(p.After), Before: plain, Servers: map[string]Saved{}}
	if c, err = s.Parse(path, p.After); err != nil {
		return nil, err
	}
	was, err := s.Parse(path, plain)
	if err != nil {
		return nil, err
	}
	for i, server := range c.Servers {
		if i < len(was.Servers) && was.Servers[i].ID == server.ID && was.Servers[i].entry() != server.entry() {
			p.record.Servers[server.ID] = Saved{Before: was.Servers[i].entry(), After: server.entry()}
		}
	}
	return p, nil
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
func (s System) Uninstall(path string, b Backups, names []string) (*Plan, error) {
	p, c, err := s.open(path, b)
	if err != nil {
		return nil, err
	}
	if err := c.has(path, names); err != nil {
		return nil, err
	}
	for _, server := range c.Servers {
		_, behind, _ := server.Behind()
		if !behind || !chosen(names, server.Name) {
			continue
		}
		out := Outcome{Name: server.Name, Changes: true}
		if _, err := server.Unwrap(p.record.Servers[server.ID]); err != nil {
			out.Changes, out.Why = false, err.Error()+"; put it back by hand"
		}
		p.Servers = append(p.Servers, out)
	}
	if p.After, _, err = s.undone(p, c, names); err != nil {
		return nil, err
	}
	p.Whole = p.record.Before != nil && bytes.Equal(p.After, p.record.Before) && digest(p.Before) == p.record.After
	for _, server := range c.Servers {
		if chosen(names, server.Name) {
			delete(p.record.Servers, server.ID)
		}
	}
	p.record.Path, p.record.After = p.Target, digest(p.After)
	return p, nil
}

// undone is the text with the entries of these names (all, where there are none) as they
// were before indoubt, and how they stood behind it.
func (s System) undone(p *Plan, c *Config, names []string) ([]byte, map[string]Wrapped, error) {
	before := map[string]Wrapped{}
	var edits []udiff.Edit
	for _, server := range c.Servers {
		if !chosen(names, server.Name) {
			continue
		}
		if w, ok, err := server.Behind(); ok && err == nil {
			before[server.ID] = w
		}
		undo, err := server.Unwrap(p.record.Servers[server.ID])
		if err == nil { // else it stays as it is, and is said to
			edits = append(edits, undo...)
		}
	}
	if len(names) == 0 && p.record.Before != nil && digest(p.Before) == p.record.After {
		return p.record.Before, before, nil
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

// Write carries a plan out: the backup first, then the file at once, under its old mode.
// A symbolic link to it stays. Errors: ErrChanged.
func (p *Plan) Write(b Backups) error {
	info, err := os.Stat(p.Target)
	if err != nil {
		return err
	}
	if now, err := os.ReadFile(p.Target); err != nil || !bytes.Equal(now, p.Before) {
		return cmp.Or(err, ErrChanged)
	}
	if len(p.record.Servers) > 0 { // a backup that is no longer needed goes last
		if err := b.write(p.record); err != nil {
			return fmt.Errorf("keep the backup: %w", err)
		}
	}
	if now, err := os.ReadFile(p.Target); err != nil || !bytes.Equal(now, p.Before) {
		return cmp.Or(err, ErrChanged)
	}
	if err := replace(p.Target, p.After, info.Mode().Perm()); err != nil {
		return err
	}
	if len(p.record.Servers) == 0 {
		return b.write(p.record)
	}
	return nil
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
