package sqlite

import (
	"fmt"
	"os/user"
	"strconv"

	"indoubt/ledger"
)

// SideFileError: a file beside the ledger is not what it is to be.
type SideFileError struct{ Path, Why string }

func (e *SideFileError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says who may have made it.
func (e *SideFileError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "damaged", Message: name(e.Path) + " " + e.Why, Do: "remove it, and see who may write to that directory"}
}

// PermissionError: this account may not do that with the file. One that may not be
// written can be looked at: then it matches ledger.ErrReadOnly.
type PermissionError struct {
	Path, Done string
	Whose      string // to whom it belongs, and its mode
	Shut       bool   // not even they may
}

func (e *PermissionError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says who may.
func (e *PermissionError) Trouble(name func(string) string) ledger.Trouble {
	do := "use the account it belongs to, or share it with a group (indoubt init --group)"
	if e.Shut {
		do = "give it its mode back: chmod 600, or 660 where a group shares it"
	}
	if e.Done == "written" {
		do += ", or look at it with --read-only"
	}
	return ledger.Trouble{Code: "permission", Message: name(e.Path) + " cannot be " + e.Done + " by this account: " + e.Whose, Do: do}
}

// Is makes errors.Is(err, ledger.ErrReadOnly) true.
func (e *PermissionError) Is(target error) bool {
	return target == ledger.ErrReadOnly && e.Done == "written"
}

// GroupError: the ledger cannot be given to the group.
type GroupError struct{ Group, Why string }

func (e *GroupError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says what comes first.
func (e *GroupError) Trouble(func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "permission", Message: "the ledger cannot be shared with the group " + e.Group + ": " + e.Why, Do: "make a directory of the group's for it first"}
}

// Share gives a ledger that is there to a group. Errors: *GroupError.
func Share(path, group string) error { return share(path, group, false) }

func groupID(name string) (int, error) {
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, &GroupError{name, "there is no such group"}
	}
	return strconv.Atoi(g.Gid)
}

func userName(id uint32) string {
	if u, err := user.LookupId(fmt.Sprint(id)); err == nil {
		return u.Username
	}
	return fmt.Sprint("number ", id)
}
