package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// A host that is renamed, a container that is made anew and a machine that starts
// again have the same file; a copy has another one.
func TestHomeIsToldByWhatACopyCannotHave(t *testing.T) {
	at := home{device: "1", inode: "7", born: "100", boot: "b1", machine: "m1"}
	with := func(change func(*home)) home {
		h := at
		change(&h)
		return h
	}
	declared := with(func(h *home) { h.name = "pay" })
	for name, c := range map[string]struct {
		was, is home
		copied  string // part of why, "" for home
	}{
		"the same":                      {at, at, ""},
		"after a restart, other device": {at, with(func(h *home) { h.boot, h.device = "b2", "5" }), ""},
		"in a container":                {at, with(func(h *home) { h.machine = "" }), ""},
		"no birth times here":           {with(func(h *home) { h.born = "" }), at, ""},
		"a plain copy":                  {at, with(func(h *home) { h.inode = "8" }), "copied"},
		"a copy with a reused inode":    {at, with(func(h *home) { h.born = "200" }), "copied"},
		"a copy on a restarted host":    {at, with(func(h *home) { h.boot, h.born = "b2", "200" }), "copied"},
		"a snapshot mounted beside it":  {at, with(func(h *home) { h.device = "5" }), "copied"},
		"a disk on another machine":     {at, with(func(h *home) { h.boot, h.machine = "b2", "m2" }), "another machine"},
		"declared, on another volume":   {declared, with(func(h *home) { h.name, h.device, h.inode, h.boot, h.machine = "pay", "5", "9", "b2", "m2" }), ""},
		"declared, and said otherwise":  {declared, with(func(h *home) { h.name = "other" }), "declared"},
		"declared, and nothing said":    {declared, at, ""},
		"declared, nothing said, moved": {declared, with(func(h *home) { h.inode, h.boot = "9", "b2" }), "INDOUBT_LEDGER_HOME"},
		"a plain copy of a declared":    {declared, with(func(h *home) { h.name, h.inode = "pay", "8" }), "copied"},
	} {
		if why := c.is.differs(c.was); (why == "") != (c.copied == "") || !strings.Contains(why, c.copied) {
			t.Errorf("%s: %q, want %q", name, why, c.copied)
		}
	}
}

func TestDeclaredHomeStays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	need.OK(t, need.Get(Create(ctx, path, Options{Home: "pay"}))(t).Close())
	for home, copied := range map[string]bool{"pay": false, "": false, "other": true} {
		s := need.Get(Open(ctx, path, Options{Home: home}))(t)
		if i := need.Get(s.Info(ctx))(t); (i.Copied != "") != copied || i.Home != "pay" {
			t.Errorf("%q: %+v", home, i)
		}
		need.OK(t, s.Close())
	}
	// The same bytes in another file of this host are a copy, whatever is declared.
	second := filepath.Join(t.TempDir(), "ledger.db")
	need.OK(t, os.WriteFile(second, need.Get(os.ReadFile(path))(t), 0o600))
	s := need.Get(Open(ctx, second, Options{Home: "pay"}))(t)
	if i := need.Get(s.Info(ctx))(t); i.Copied == "" {
		t.Error("a copy is at home")
	}
	need.OK(t, s.Close())
	// An existing ledger is declared from where it is at home, and only there.
	if err := Declare(ctx, second, "x", Options{Actor: ann}); err == nil {
		t.Error("a copy was declared to be at home")
	}
	need.OK(t, Declare(ctx, path, "shop", Options{Actor: ann}))
	s = need.Get(Open(ctx, path, Options{Home: "shop"}))(t)
	defer s.Close()
	if i := need.Get(s.Info(ctx))(t); i.Copied != "" || i.Home != "shop" {
		t.Errorf("%+v", i)
	}
}
