package sqlite

import (
	"fmt"
	"os/user"
	"strconv"
)

// odd refuses a file beside the ledger that is not what it is to be.
func odd(path, why string) error {
	return &Refusal{Code: "damaged", Path: path, After: " " + why, Do: "remove it, and see who may write to that directory"}
}

// groupless says why the ledger cannot be given to a group.
func groupless(group, why string) error {
	return &Refusal{Code: "permission", Before: "the ledger cannot be shared with the group " + group + ": " + why, Do: "make a directory of the group's for it first"}
}

// Share gives a ledger that is there to a group. Errors: *Refusal.
func Share(path, group string) error { return share(path, group, false) }

func groupID(name string) (int, error) {
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, groupless(name, "there is no such group")
	}
	return strconv.Atoi(g.Gid)
}

func userName(id uint32) string {
	if u, err := user.LookupId(fmt.Sprint(id)); err == nil {
		return u.Username
	}
	return fmt.Sprint("number ", id)
}
