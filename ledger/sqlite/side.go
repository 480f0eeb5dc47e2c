package sqlite

import (
	"fmt"
	"os/user"
	"strconv"

	"indoubt/ledger"
)

// SideFileError: a file beside the ledger is not what it is to be.
type SideFileError struct{ Path, Why string }

func (e *SideFileError) Error() string {
	return fmt.Sprintf("%s %s; another account that may write to the ledger's directory made it: remove it, and see who that is", e.Path, e.Why)
}

// PermissionError: this account may not do that with the file. One that may not be
// written can be looked at: then it matches ledger.ErrReadOnly.
type PermissionError struct {
	Path, Done string
	Whose      string // to whom it belongs, and its mode
	Shut       bool   // not even they may
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("%s cannot be %s by this account: %s; %s", e.Path, e.Done, e.Whose, e.Do())
}

// Do is what helps.
func (e *PermissionError) Do() string {
	if e.Shut {
		return "give it its mode back: chmod 600, or 660 where a group shares it"
	}
	return "use the account it belongs to, or share it with a group (indoubt init --group)"
}

// Is makes errors.Is(err, ledger.ErrReadOnly) true.
func (e *PermissionError) Is(target error) bool {
	return target == ledger.ErrReadOnly && e.Done == "written"
}

// GroupError: the ledger cannot be given to the group.
type GroupError struct{ Group, Why string }

func (e *GroupError) Error() string {
	return fmt.Sprintf("the ledger cannot be shared with the group %s: %s", e.Group, e.Why)
}

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
