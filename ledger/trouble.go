package ledger

import (
	"cmp"
	"fmt"
)

// Trouble is why a ledger cannot be used, in words for people.
type Trouble struct {
	Code    string // one word, for programs
	Message string
	Do      string // what helps
}

// Error is the message with what helps.
func (t Trouble) Error() string {
	if t.Do == "" {
		return t.Message
	}
	return t.Message + "; " + t.Do
}

// Troubled is an error of a store that says itself what people are told.
type Troubled interface {
	error
	// Trouble puts it in words. name gives the name of a ledger or a file as it is shown.
	Trouble(name func(string) string) Trouble
}

// InFull leaves a name as it is.
func InFull(name string) string { return name }

// MissingError: there is no ledger of this name. Why is what a server says of it; no
// writer makes one there by the way. Do is what comes before one can be made there.
type MissingError struct{ Ledger, Why, Do string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("there is no ledger at %s; check --ledger and INDOUBT_LEDGER, or make one with `indoubt init`", e.at(e.Ledger))
}

// Trouble leaves to the caller what helps where a file is missing: it depends on what
// was wanted.
func (e *MissingError) Trouble(name func(string) string) Trouble {
	t := Trouble{Code: "no_ledger", Message: "No ledger at " + e.at(name(e.Ledger)) + ". This is not an all-clear."}
	if e.Why != "" {
		t.Do = cmp.Or(e.Do, "make one with `indoubt init`, as a user who may, or look somewhere else: --ledger / INDOUBT_LEDGER")
	}
	return t
}

func (e *MissingError) at(name string) string {
	if e.Why == "" {
		return name
	}
	return name + " (" + e.Why + ")"
}

// SchemaError: another version of indoubt made the ledger, with another schema.
type SchemaError struct {
	Ledger     string
	Has, Knows int
}

func (e *SchemaError) Error() string { return e.Trouble(InFull).Error() }

// Trouble says which version to use.
func (e *SchemaError) Trouble(name func(string) string) Trouble {
	which := "a newer"
	if e.Has < e.Knows {
		which = "an older"
	}
	return Trouble{"other_schema",
		fmt.Sprintf("%s was made by %s version of indoubt: it has schema %d, this one knows schema %d", name(e.Ledger), which, e.Has, e.Knows),
		"use the version that made it; nothing was changed"}
}

// GuardError: the database refused a write that would have broken its rules, or that may not
// happen while the ledger is being copied to another place, or since it has gone there.
type GuardError struct {
	Message string
	Moving  bool
	Err     error // the driver's
}

func (e *GuardError) Error() string { return "the ledger refuses: " + e.Message }

// Trouble says whose mistake it is, or how long it lasts.
func (e *GuardError) Trouble(func(string) string) Trouble {
	if e.Moving {
		return Trouble{"moving", e.Error(), "write where it goes to when the copy is whole; one that was cut off is ended by the same command: indoubt copy FROM TO"}
	}
	return Trouble{"guard", e.Error(), "this is a mistake of the program that wrote it; see ledger/README.md"}
}

// Is makes errors.Is(err, ErrMoving) or errors.Is(err, ErrGuard) true.
func (e *GuardError) Is(target error) bool {
	return target == ErrMoving && e.Moving || target == ErrGuard && !e.Moving
}

// Unwrap gives the driver's error.
func (e *GuardError) Unwrap() error { return e.Err }

// Trouble is itself.
func (t Trouble) Trouble(func(string) string) Trouble { return t }

// Finding is one line of an examination.
type Finding struct {
	Check string `json:"check"`
	Level string `json:"level"` // LevelOK, LevelWarn or LevelFail
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
	Err   error  `json:"-"` // says what was found, where Found is empty
}

// The levels of a finding.
const (
	LevelOK   = "ok"
	LevelWarn = "warn"
	LevelFail = "fail"
)

// Deviation is a table that a database keeps beside its history and that is not what it
// is made from.
type Deviation struct {
	Table string
	Rows  int    // that are missing, too many or different
	One   string // one of them
}

// AwayError: the ledger has moved, and is written at another place. Here it is looked at
// only.
type AwayError struct{ Ledger, To string }

func (e *AwayError) Error() string { return e.Trouble(InFull).Error() }

// Is makes errors.Is(err, ErrReadOnly) true.
func (e *AwayError) Is(target error) bool { return target == ErrReadOnly }

// Trouble says where it went.
func (e *AwayError) Trouble(name func(string) string) Trouble {
	return Trouble{Code: "moved_away", Message: "the ledger of " + name(e.Ledger) + " has moved to " + name(e.To) + ", and nothing was recorded here",
		Do: "write there: --ledger / INDOUBT_LEDGER; or look at it as it was, with --read-only"}
}
