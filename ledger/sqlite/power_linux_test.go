//go:build soak

package sqlite

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"indoubt/ledger/need"
)

// ext4 stops at once on this, and forgets what no one has synced, its own journal
// included (EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH).
const (
	shutdownRequest = 0x8004587d
	withoutFlush    = 2
)

// loopDisk is a file system of its own whose power can be cut; it takes root.
type loopDisk struct {
	t        *testing.T
	dev, dir string
	off      atomic.Bool
}

func newLoopDisk(t *testing.T) *loopDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	image := filepath.Join(t.TempDir(), "disk")
	need.OK(t, os.WriteFile(image, nil, 0o600))
	need.OK(t, os.Truncate(image, 256<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Skipf("no file system can be made here: %v %s", err, out)
	}
	dev, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device here: %s", dev)
	}
	d := &loopDisk{t: t, dev: strings.TrimSpace(string(dev)), dir: t.TempDir()}
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", d.dev).Run() })
	if out, err := exec.Command("mount", d.dev, d.dir).CombinedOutput(); err != nil {
		t.Skipf("no mount here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", d.dir).Run() })
	return d
}

// cut is a power cut: every write from now on fails, and what was not synced is gone.
// A sync that is under way then may end without an error on this kernel, which it does
// not on a disk without power: what is acknowledged from here on counts for nothing.
func (d *loopDisk) cut() {
	d.off.Store(true)
	f, err := os.Open(d.dir)
	if err == nil {
		defer f.Close()
		err = unix.IoctlSetPointerInt(int(f.Fd()), shutdownRequest, withoutFlush)
	}
	need.That(d.t, err == nil, "the power cannot be cut: %v", err)
}

// restart mounts the file system again, which plays its journal. Where another namespace
// of mounts has a copy of the old mount, it stays as it is until that is gone.
func (d *loopDisk) restart() {
	d.t.Helper()
	d.off.Store(false)
	probe := filepath.Join(d.dir, "probe")
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command("umount", d.dir).CombinedOutput()
		if err == nil {
			out, err = exec.Command("mount", d.dev, d.dir).CombinedOutput()
			need.Must(d.t, err == nil, "%s", out)
			err = os.WriteFile(probe, nil, 0o600)
		}
		if err == nil {
			need.OK(d.t, os.Remove(probe))
			return
		}
		need.Must(d.t, !time.Now().After(end), "%v %s", err, out)
	}
}

// A power cut loses nothing that was acknowledged. What the drive itself keeps in a
// cache and loses is not tried here. INDOUBT_CUTS says how many cuts, by hand.
func TestI10_APowerCutLosesNothing(t *testing.T) {
	cuts := 5
	if text := os.Getenv("INDOUBT_CUTS"); text != "" {
		cuts = need.Get(strconv.Atoi(text))(t)
	}
	d := newLoopDisk(t)
	path := filepath.Join(d.dir, "ledger.db")
	told, luck := acknowledged{}, rand.New(rand.NewPCG(3, 3))
	for range cuts {
		cmd, out, _ := other(t, "write", path)
		wait := time.Duration(20+luck.IntN(250)) * time.Millisecond
		told.hear(out, func() { time.AfterFunc(wait, d.cut) }, d.off.Load)
		cmd.Process.Kill()
		cmd.Wait()
		d.restart()
		told.whole(t, path)
	}
	t.Logf("%d power cuts, %d operations acknowledged, none lost", cuts, len(told))
}
