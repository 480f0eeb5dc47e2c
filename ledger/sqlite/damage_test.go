package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// brokenFiles are the ways in which a file goes bad, each with what is to be said.
var brokenFiles = map[string]struct {
	harm func(t *testing.T, path string)
	said []string
}{
	"no bytes are left":     {cutTo(func(int64) int64 { return 0 }), []string{"is empty, and a ledger was there", "backup", "--anew"}},
	"cut inside the header": {cutTo(func(int64) int64 { return 50 }), []string{"damaged", "cut off after 50 bytes", "move it away", "backup"}},
	"cut behind the header": {cutTo(func(int64) int64 { return 4096 }), []string{"damaged", "cut off: 4096 of ", "move it away", "backup"}},
	"its tail cut":          {cutTo(func(n int64) int64 { return n / 2 }), []string{"damaged", "cut off: ", "move it away", "backup"}},
	"pages of something else": {func(t *testing.T, path string) {
		f := need.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
		_, err := f.WriteAt([]byte(strings.Repeat("Z", 40<<10)), 4096)
		need.OK(t, errors.Join(err, f.Close()))
	}, []string{"damaged", "move it away", "backup"}},
}

func cutTo(keep func(int64) int64) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		info := need.Get(os.Stat(path))(t)
		need.OK(t, os.Truncate(path, keep(info.Size())))
	}
}

// What is wrong with a file is said in words that help, to writers and readers,
// and none is made in its place.
func TestADamagedFileIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range brokenFiles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := need.Get(Create(ctx, path, Options{}))(t)
			for range 5 {
				begin(t, s)
			}
			need.OK(t, s.Close())
			c.harm(t, path)
			before := need.Get(os.ReadFile(path))(t)
			for how, open := range map[string]func() (*Store, error){
				"create": func() (*Store, error) { return Create(ctx, path, Options{}) },
				"open":   func() (*Store, error) { return Open(ctx, path, Options{}) },
				"read":   func() (*Store, error) { return Open(ctx, path, Options{ReadOnly: true}) },
			} {
				s, err := open()
				if err == nil { // the damage lies where opening does not look
					err = Check(ctx, path)
					need.OK(t, s.Close())
				}
				need.Must(t, err != nil, "%s: nothing is said", how)
				for _, word := range c.said {
					need.That(t, strings.Contains(err.Error(), word), "%s: %q is missing in: %v", how, word, err)
				}
			}
			if after := need.Get(os.ReadFile(path))(t); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// A ledger that is being made is empty for a moment; one that was written to is not
// made anew.
func TestAnEmptyFileIsMadeIntoALedgerOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	for _, side := range []string{"", ".lock", ".bell"} { // as a writer leaves it that was killed at its first step
		need.OK(t, os.WriteFile(path+side, nil, 0o600))
	}
	s := need.Get(Create(ctx, path, Options{}))(t)
	begin(t, s)
	need.OK(t, s.Close())
	need.OK(t, os.Truncate(path, 0))
	if _, err := Create(ctx, path, Options{}); !refused(err, "former") || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("made anew: %v", err)
	}
	s = need.Get(Create(ctx, path, Options{Anew: true}))(t)
	need.OK(t, s.Close())
}

// What a check says of a page that the disk did not give is no damage.
func TestAPageThatWasNotReadIsNoDamage(t *testing.T) {
	for said, want := range map[string]bool{
		"*** in database main ***\nTree 1 page 19 cell 1: failed to get page 6":           true,
		"*** in database main ***\nTree 5 page 7: unable to get the page. error code=10":  true,
		"*** in database main ***\nTree 5 page 7: unable to get the page. error code=522": true,
		"*** in database main ***\nTree 5 page 7: unable to get the page. error code=11":  false,
		"*** in database main ***\nTree 5 page 7: btreeInitPage() returns error code 11":  false,
	} {
		need.That(t, unread(said) == want, "%q", said)
	}
}
