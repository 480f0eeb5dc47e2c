//go:build soak

package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// smallDisk is a file system of a few megabytes; it takes root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no mount here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// A disk that its own log has filled takes writes again when the reader has gone
// that kept the log from being emptied.
func TestI10_ADiskFullOfItsOwnLogHeals(t *testing.T) {
	path := filepath.Join(smallDisk(t, "40m"), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	defer s.Close()
	flying := begin(t, s)
	reader := need.Get(sql.Open("sqlite", dsn(path, "ro")))(t)
	defer reader.Close()
	tx := need.Get(reader.Begin())(t)
	var n int
	need.OK(t, tx.QueryRow(`SELECT count(*) FROM op`).Scan(&n))
	large := func(r *ledger.BeginRequest) {
		r.Key, r.Input = ledger.NewID(), []byte(`"`+strings.Repeat("x", 200_000)+`"`)
	}
	var err error
	for range 400 {
		if _, err = ledger.Begin(ctx, s, request(large)); err != nil {
			break
		}
	}
	need.Must(t, errors.Is(err, ledger.ErrFull), "the disk did not fill: %v", err)
	if i := need.Get(s.Info(ctx))(t); !strings.HasPrefix(i.Strained, "DISK SHORT: ") {
		t.Errorf("a reader is told %q", i.Strained)
	}
	settleAs(t, s, flying.Attempt.ID, ledger.OutcomeCommitted) // there is room for outcomes
	need.OK(t, tx.Rollback())
	begin(t, s)
	if log := need.Get(os.Stat(path + "-wal"))(t); log.Size() > 16<<20+spare {
		t.Errorf("the log keeps %d bytes", log.Size())
	}
}

// What others fill the disk with leaves room for outcomes, and none for new writes.
func TestI10_AFullDiskTakesOutcomes(t *testing.T) {
	dir := smallDisk(t, "60m")
	path := filepath.Join(dir, "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	defer s.Close()
	flying := begin(t, s)
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if f, err := os.Stat(path + ".reserve"); err == nil && f.Size() == spare {
			break
		} else if time.Now().After(end) {
			t.Fatal("no reserve is made")
		}
	}
	brim := need.Get(os.Create(filepath.Join(dir, "brim")))(t)
	for size := 1 << 20; size > 0; size /= 16 {
		for {
			if _, err := brim.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
	need.OK(t, brim.Close())
	if _, err := ledger.Begin(ctx, s, request()); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("begun on a full disk: %v", err)
	}
	settleAs(t, s, flying.Attempt.ID, ledger.OutcomeCommitted)
	need.OK(t, os.Remove(brim.Name()))
	begin(t, s)
}
