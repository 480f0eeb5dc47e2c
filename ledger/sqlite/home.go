package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"indoubt/ledger/boot"
	"indoubt/ledger/store"
)

// home is where a ledger lives. A file that finds itself elsewhere is a copy: two
// files that both take writes would each know half of what was sent.
//
// What a host is called says nothing: containers are made anew and hosts renamed. A
// plain copy has another inode or, where that number was used before, another time
// of birth. Only a copy of a whole disk has both; it is told by the machine's id,
// but for containers, which have none that stays.
type home struct {
	device, inode string
	born          string // in nanoseconds; "" where the file system does not tell
	boot, machine string
}

func homeFrom(m map[string]string) home {
	return home{m["home.device"], m["home.inode"], m["home.born"], m["home.boot"], m["home.machine"]}
}

func homeOf(path string) (home, error) {
	f, err := fileAt(path)
	h := home{device: fmt.Sprint(f.device), inode: fmt.Sprint(f.inode), boot: boot.ID(), machine: boot.Machine()}
	if f.born != 0 {
		h.born = fmt.Sprint(f.born)
	}
	return h, err
}

// differs says why a ledger that calls was its own is not there, or "". Device
// numbers are handed out anew when a host starts, so they count only until then.
func (h home) differs(was home) string {
	sameFile := was.inode == h.inode && (was.born == h.born || was.born == "" || h.born == "")
	sameBoot := was.boot == h.boot
	switch {
	case !sameFile || sameBoot && was.device != h.device:
		return "its file was copied from another one"
	case !sameBoot && was.machine != "" && h.machine != "" && was.machine != h.machine:
		return "its disk is on another machine than before"
	}
	return ""
}

// now is what is written down of a home that is this one.
func (h home) now(was home) home {
	if h.machine == "" && h.boot == was.boot {
		h.machine = was.machine
	}
	return h
}

// meta is the home as the ledger keeps it.
func (h home) meta() [][2]string {
	return [][2]string{{"home.device", h.device}, {"home.inode", h.inode}, {"home.born", h.born}, {"home.boot", h.boot}, {"home.machine", h.machine}}
}

func setHome(tx store.Tx, h home) error {
	for _, kv := range h.meta() {
		if err := store.SetMeta(tx, kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// same refuses a ledger that has become another one while it is open.
func (s *handle) same(id string) error {
	if s.id == "" || s.copied != "" || id == s.id { // it is being made, or adopted
		return nil
	}
	return gone(s.path, "is another ledger now", "bring the old one back, or start again with the one that is there now")
}

// Adopt makes a copy a ledger of its own: this file, here, takes writes from now
// on, under a new id. The original is not told.
func Adopt(ctx context.Context, path string, o Options) error {
	s, err := Open(ctx, path, o)
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := homeOf(s.path)
	if err != nil {
		return fmt.Errorf("look at the ledger's file: %w", err)
	}
	info, err := s.Info(ctx)
	why := cmp.Or(s.copied, info.Lacks)
	if err != nil || why == "" {
		return err
	}
	return s.writer.do(ctx, func(tx store.Tx) error {
		if err := setHome(tx, h); err != nil {
			return err
		}
		return store.Adoption{Actor: o.Actor, Why: "adopted here: " + why, Newest: o.At}.Write(tx)
	})
}
