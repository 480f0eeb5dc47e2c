//go:build soak && unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

const (
	nobody  = 65534
	someone = 61235
	team    = 61236
)

// asAccount gives up root in a role.
func asAccount(uid, gid int, groups ...int) error {
	syscall.Umask(0o007)
	return errors.Join(syscall.Setgroups(groups), syscall.Setgid(gid), syscall.Setuid(uid))
}

func accountRole(uid, gid int, groups ...int) func(string) error {
	return func(path string) error {
		if err := asAccount(uid, gid, groups...); err != nil {
			return err
		}
		return once(path)
	}
}

func lookRole(path string) error {
	if err := asAccount(someone, someone); err != nil {
		return err
	}
	s, err := Open(ctx, path, Options{ReadOnly: true})
	if err != nil {
		fmt.Println("refused:", err)
		return nil
	}
	defer s.Close()
	c, err := s.Counts(ctx, s.now())
	fmt.Println(c.All, err)
	return err
}

func init() {
	roles["as nobody"] = accountRole(nobody, nobody)
	roles["as a member"] = accountRole(someone, someone, team)
	roles["as another member"] = accountRole(someone+1, someone+1, team)
	roles["as somebody who looks"] = lookRole
}

// forAccounts is a directory that other accounts reach; only root can be them.
func forAccounts(t *testing.T, uid int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be two accounts")
	}
	dir := t.TempDir()
	need.OK(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711)))
	own := filepath.Join(dir, "own")
	need.OK(t, errors.Join(os.Mkdir(own, 0o700), os.Chown(own, uid, uid)))
	return own
}

func saidBy(t *testing.T, role, path, key string) string {
	t.Helper()
	cmd, out, _ := other(t, role, path, "INDOUBT_TEST_KEY="+key)
	out.Scan()
	cmd.Wait()
	return out.Text()
}

func TestRootLocksNobodyOut(t *testing.T) {
	path := filepath.Join(forAccounts(t, nobody), "ledger.db")
	if said := saidBy(t, "as nobody", path, "a"); said != "begun" {
		t.Fatal(said)
	}
	need.OK(t, errors.Join(os.Remove(path+".lock"), os.Remove(path+".bell")))
	s := need.Get(Open(ctx, path, Options{}))(t)
	begin(t, s)
	for _, side := range []string{"", "-wal", "-shm", ".lock", ".bell"} {
		if info := need.Get(os.Stat(path + side))(t); info.Sys().(*syscall.Stat_t).Uid != nobody {
			t.Errorf("%s is root's", side)
		}
	}
	need.OK(t, s.Close())
	if said := saidBy(t, "as nobody", path, "b"); said != "begun" {
		t.Error(said)
	}
}

func TestAGroupSharesALedger(t *testing.T) {
	dir := filepath.Join(filepath.Dir(forAccounts(t, 0)), "team")
	path := filepath.Join(dir, "ledger.db")
	need.OK(t, need.Get(Create(ctx, path, Options{Group: fmt.Sprint(team)}))(t).Close())
	for n, who := range []string{"as a member", "as another member", "as a member"} {
		if said := saidBy(t, who, path, fmt.Sprint(n)); said != "begun" {
			t.Errorf("%s: %s", who, said)
		}
	}
	if said := saidBy(t, "as nobody", path, "x"); said == "begun" {
		t.Error("a stranger records")
	}
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	if mode := need.Get(os.Stat(path))(t).Mode().Perm(); mode != 0o660 {
		t.Errorf("mode %#o", mode)
	}
	// A directory that is there is not opened to a group behind somebody's back.
	private := filepath.Join(forAccounts(t, 0), "ledger.db")
	if _, err := Create(ctx, private, Options{Group: fmt.Sprint(team)}); !refused(err, "permission") {
		t.Errorf("shared in a private directory: %v", err)
	}
	if _, err := os.Stat(private); err == nil {
		t.Error("it left a file behind")
	}
}

// A ledger is shared later as well, with the files beside it.
func TestALedgerIsSharedLater(t *testing.T) {
	dir := filepath.Join(filepath.Dir(forAccounts(t, 0)), "team")
	path := filepath.Join(dir, "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	_, err := s.DigestKey(ctx)
	need.OK(t, errors.Join(err, s.Close()))
	if err := Share(path, fmt.Sprint(team)); !refused(err, "permission") || !strings.Contains(err.Error(), "chmod 2770") {
		t.Fatalf("shared in a private directory: %v", err)
	}
	need.OK(t, errors.Join(os.Chown(dir, -1, team), os.Chmod(dir, 0o770|fs.ModeSetgid), Share(path, fmt.Sprint(team))))
	for n, who := range []string{"as a member", "as another member"} {
		if said := saidBy(t, who, path, fmt.Sprint(n)); said != "begun" {
			t.Errorf("%s: %s", who, said)
		}
	}
	need.OK(t, errors.Join(os.RemoveAll(path+"-shm"), os.Symlink("/etc/hostname", path+"-shm")))
	if err := Share(path, fmt.Sprint(team)); !refused(err, "damaged") {
		t.Errorf("a link beside the ledger: %v", err)
	}
}

// Who may not write can look, and leaves nothing behind that locks the owner out.
func TestLookingTakesNoRightToWrite(t *testing.T) {
	for name, mode := range map[string]fs.FileMode{"read-only directory": 0o555, "directory of everybody": 0o777} {
		t.Run(name, func(t *testing.T) {
			dir := forAccounts(t, nobody)
			path := filepath.Join(dir, "ledger.db")
			if said := saidBy(t, "as nobody", path, "a"); said != "begun" {
				t.Fatal(said)
			}
			need.OK(t, errors.Join(os.Chmod(path, 0o644), os.Chmod(dir, mode)))
			if said := saidBy(t, "as somebody who looks", path, ""); said != "1 <nil>" {
				t.Error(said)
			}
			if said := saidBy(t, "as a member", path, "b"); !strings.Contains(said, "cannot be written by this account") {
				t.Errorf("a writer is told: %s", said)
			}
			need.OK(t, os.Chmod(dir, 0o755))
			if said := saidBy(t, "as nobody", path, "c"); said != "begun" {
				t.Error(said)
			}
			need.OK(t, os.Chmod(path, 0))
			if said := saidBy(t, "as somebody who looks", path, ""); !strings.Contains(said, "cannot be read by this account") {
				t.Errorf("an unreadable file: %s", said)
			}
		})
	}
}
