package cli

import (
	"errors"
	"fmt"

	"indoubt/ledger"
	"indoubt/ledger/sqlite"
)

// say gives a failure its words.
func (f *failure) say(code, message, hint string) bool {
	f.Code, f.Message, f.Hint = code, message, hint
	return true
}

// storeFailure says that there is no ledger, or that the file is none of ours.
func storeFailure(err error, f *failure) bool {
	var missing *sqlite.MissingError
	var former *sqlite.FormerError
	var displaced *sqlite.DisplacedError
	var foreign *sqlite.ForeignError
	var newer *sqlite.NewerError
	var older *sqlite.OlderError
	var other *sqlite.NotDatabaseError
	const elsewhere = "give the path of a ledger: --ledger PATH / INDOUBT_LEDGER"
	switch {
	case errors.As(err, &missing):
		*f = *noSuchLedger(missing.Path)
		f.cause = err
		return true
	case errors.As(err, &former):
		f.Exit = exitNotFound
		return f.say("former", fmt.Sprintf("%s: %s. This is not an all-clear", former.Missing(short(former.Path)), former.Trace), former.Do())
	case errors.As(err, &displaced) && displaced.Gone:
		return f.say("gone", fmt.Sprintf("%v: %s %s", ledger.ErrGone, short(displaced.Path), displaced.Why), displaced.Do)
	case errors.As(err, &displaced):
		return f.say("displaced", short(displaced.Path)+" "+displaced.Why, displaced.Do)
	case errors.As(err, &foreign):
		return f.say("foreign", fmt.Sprintf("%s is a database, but not a ledger (%s)", short(foreign.Path), foreign.Why), elsewhere)
	case errors.As(err, &other):
		return f.say("not_a_ledger", short(other.Path)+" is not a ledger", elsewhere)
	case errors.As(err, &newer):
		return f.say("newer_schema", fmt.Sprintf("%s was written by a newer indoubt: it has schema %d, this one knows up to %d", short(newer.Path), newer.Has, newer.Knows),
			"use the newer indoubt; nothing was changed")
	case errors.As(err, &older):
		return f.say("older_schema", fmt.Sprintf("%s has schema %d and is read with schema %d", short(older.Path), older.Has, older.Needs),
			"bring it up to date once, with any command that writes, or with `indoubt init`")
	}
	return false
}

// useFailure says why a ledger cannot be used, or what it refused.
func useFailure(err error, f *failure) bool {
	var remote *sqlite.NotLocalError
	var shut *sqlite.ReadOnlyDirError
	var denied *sqlite.PermissionError
	var side *sqlite.SideFileError
	var group *sqlite.GroupError
	var key *sqlite.KeyError
	var full *sqlite.FullDiskError
	var guard *sqlite.GuardError
	var broken *sqlite.IOError
	var damaged *sqlite.DamagedError
	switch {
	case errors.As(err, &remote):
		return f.say("not_local", fmt.Sprintf("%s is on %s, which is not known to be a local disk", short(remote.Path), remote.Type),
			"keep the ledger on a local disk (ext4, xfs, btrfs, zfs, …)")
	case errors.As(err, &shut):
		return f.say("read_only_disk", "the directory of "+short(shut.Path)+" cannot be written, and a ledger needs files beside it",
			"let this user write there, or copy the ledger with its -wal file and look at the copy")
	case errors.As(err, &denied) && denied.Done == "read":
		return f.say("permission", short(denied.Path)+" cannot be read by this account: "+denied.Whose, denied.Do())
	case errors.As(err, &denied):
		return f.say("permission", short(denied.Path)+" cannot be written by this account: "+denied.Whose, denied.Do()+", or look at it with --read-only")
	case errors.As(err, &side):
		return f.say("side_file", short(side.Path)+" "+side.Why, "remove it, and see who may write to that directory")
	case errors.As(err, &key):
		return f.say("digest_key", "the key of the ledger's digests, "+short(key.Path)+", "+key.Why, "bring back the one that belongs to this ledger; under another one the same request would count as a new one")
	case errors.As(err, &group):
		return f.say("group", "the ledger cannot be shared with the group "+group.Group+": "+group.Why, "make a directory of the group's for it first")
	case errors.As(err, &full):
		return f.say("disk_full", "the disk under "+short(full.Path)+" is full: "+full.Found, "make room; what cannot be recorded must not be sent")
	case errors.As(err, &broken):
		return f.say("io_error", short(broken.Path)+" could not be "+broken.Done()+": "+broken.Why(),
			broken.Do()+"; this says nothing about what is in the file")
	case errors.As(err, &damaged):
		return f.say("damaged", short(damaged.Path)+" is damaged: "+damaged.Found, damaged.Do())
	case errors.As(err, &guard):
		return f.say("guard", guard.Error(), "this is a mistake of the program that wrote it; see ledger/README.md")
	}
	return false
}

// isMissing reports whether there is no ledger at all.
func isMissing(err error) bool {
	var missing *sqlite.MissingError
	var former *sqlite.FormerError
	return errors.As(err, &missing) || errors.As(err, &former)
}

// explainID names the id that was not found as it was written.
func explainID(id string, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return &failure{Exit: exitNotFound, Code: "not_found", Message: fmt.Sprintf("there is no operation %q", id),
			Hint: "see `indoubt list`, or check --ledger / INDOUBT_LEDGER", cause: err}
	}
	return err
}
