package sqlite

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// holdRead keeps a read open as any program may, until its input ends.
func holdRead(path string) error {
	s, err := Open(ctx, path, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	tx, err := s.read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM op`).Scan(&n); err != nil {
		return err
	}
	fmt.Println("held")
	fmt.Scanln()
	return nil
}

func init() { roles["read"] = holdRead }

// The process that keeps the log from being emptied, or holds the lock, is named.
func TestWhoHoldsTheLedgerIsNamed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	s, _ := openTest(t)
	begin(t, s)
	if st := need.Get(StorageAt(s.path))(t); len(st.Readers)+len(st.Writers) > 0 || st.Short() || !strings.Contains(st.Room(), "ledger.db ") || st.Others() <= 0 {
		t.Errorf("at rest: %+v, %s", st, st.Room())
	}
	reader, out, end := other(t, "read", s.path)
	out.Scan()
	named := func(found []string, pid int) bool {
		return len(found) == 1 && strings.Contains(found[0], fmt.Sprintf("(process %d of ", pid))
	}
	if st := need.Get(StorageAt(s.path))(t); !named(st.Readers, reader.Process.Pid) || !strings.Contains(st.Kept(), "keeps a read open") {
		t.Errorf("a reader: %+v", st)
	}
	end.Close()
	reader.Wait()
	writer, out, end := other(t, "hold", s.path)
	out.Scan()
	if st := need.Get(StorageAt(s.path))(t); !named(st.Writers, writer.Process.Pid) {
		t.Errorf("a writer: %+v", st)
	}
	look := func() (said string) {
		for range strainLooks + 2 {
			s.strain.at = time.Unix(1, 0) // a second has passed
			said = need.Get(s.Info(ctx))(t).Strained
		}
		return said
	}
	said := look()
	need.That(t, strings.HasPrefix(said, "LOCKED: ") && strings.Contains(said, fmt.Sprint(writer.Process.Pid)),
		"a reader is told %q", said)
	s.strain.at = time.Unix(1, 0)
	if said := s.strained(1 << 40); said != "" || s.strain.holders != nil { // recorded since
		t.Errorf("where someone records, said is %q of %q", said, s.strain.holders)
	}
	end.Close()
	writer.Wait()
	said = look()
	need.That(t, said == "", "it is free, and said is %q", said)
}
