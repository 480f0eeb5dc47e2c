package policy

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"indoubt/ledger"
)

// MissingProgramError says that a program a request needs is not on this host.
type MissingProgramError struct {
	Name string
	Err  error
}

func (e *MissingProgramError) Error() string {
	return fmt.Sprintf("there is no program %s here", e.Name)
}
func (e *MissingProgramError) Unwrap() error { return e.Err }

// LackedHere reports whether an error is about a secret or a program that this process
// lacks: another process may have it, and so may this one later.
func LackedHere(err error) bool {
	return errors.As(err, new(*MissingSecretError)) || errors.As(err, new(*MissingProgramError))
}

// NoCheck is why this process cannot read the operation's effect, nil when it can: the
// kind has no read, its request cannot be made from this input, or a secret or a
// program is missing.
func (k *Kind) NoCheck(rec ledger.Record) error {
	if k.Read == nil {
		return fmt.Errorf("the policy knows no check for %s", k.Name)
	}
	err := k.Read.askable(rec.Operation)
	if err != nil {
		return err
	}
	req, err := k.Read.render(k.variables(rec), false)
	if err != nil {
		return err
	}
	return req.Missing()
}

// Lacks is the *MissingSecretError of a secret that the check needs, whatever the operation,
// and that this process does not have; nil where it has all.
func (r *Read) Lacks() error {
	vars := r.kind.variables(ledger.Record{})
	for _, e := range r.requestExpressions() {
		if !e.Secret() {
			continue
		}
		if _, err := e.Eval(context.Background(), vars.Names); errors.As(err, new(*MissingSecretError)) {
			return err
		}
	}
	return nil
}

// Missing is a *MissingProgramError when the program that the request runs is not
// on this host.
func (r Request) Missing() error {
	argv, dir := []string(nil), ""
	switch {
	case r.Command != nil:
		argv, dir = r.Command.Argv, r.Command.Dir
	case r.MCP != nil:
		argv, dir = r.MCP.Command, r.MCP.Dir
	}
	if len(argv) == 0 {
		return nil
	}
	name := argv[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return &MissingProgramError{Name: argv[0], Err: err}
	}
	return nil
}

// Checkable is the kind as it applies to the operation: without its read where that
// cannot be sent, and then why. A read that cannot be sent proves nothing.
func (k *Kind) Checkable(rec ledger.Record) (*Kind, error) {
	switch {
	case k.Read == nil, rec.Operation.State != ledger.Uncertain && rec.Operation.State != ledger.Pending:
		return k, nil
	}
	err := k.NoCheck(rec)
	if err == nil || LackedHere(err) && rec.Pricing.Digest != "" && rec.Pricing.DecideAt.After(rec.Now) { // another process checks it
		return k, nil
	}
	blind := *k
	blind.Read = nil
	return &blind, err
}
