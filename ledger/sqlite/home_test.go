package sqlite

import (
	"strings"
	"testing"
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
	} {
		if why := c.is.differs(c.was); (why == "") != (c.copied == "") || !strings.Contains(why, c.copied) {
			t.Errorf("%s: %q, want %q", name, why, c.copied)
		}
	}
}
