package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// logCuts are ways in which the log of a ledger loses what its index tells of, each in place.
var logCuts = map[string]func(t *testing.T, log string){
	"all of it":      func(t *testing.T, log string) { need.OK(t, os.Truncate(log, 0)) },
	"half of it":     func(t *testing.T, log string) { cutTo(func(n int64) int64 { return n / 2 })(t, log) },
	"its last byte":  func(t *testing.T, log string) { cutTo(func(n int64) int64 { return n - 1 })(t, log) },
	"its last frame": func(t *testing.T, log string) { cutTo(func(n int64) int64 { return n - 4096 - 24 })(t, log) },
	"written over": func(t *testing.T, log string) {
		info := need.Get(os.Stat(log))(t)
		need.OK(t, os.WriteFile(log, bytes.Repeat([]byte("Z"), int(info.Size())), 0o600))
	},
	"cut, and written to by another program": func(t *testing.T, log string) {
		need.OK(t, os.Truncate(log, 0))
		path := strings.TrimSuffix(log, "-wal")
		db := rawDB(t, path) // it has the log's index, and does not compare
		_, err := db.Exec(`PRAGMA user_version = 1`)
		t.Logf("the other program: %v", err)
	},
}

// A log that is cut under an open ledger takes the newest commits away, and SQLite goes on
// writing behind the gap. Nothing more is recorded, so nothing more is sent, and everyone is
// told the same.
func TestI1_ACutLogTakesNoMore(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a log that was cut cannot be left as it is")
	}
	for name, cut := range logCuts {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := need.Get(Create(ctx, path, Options{}))(t)
			defer s.Close()
			reader := need.Get(Open(ctx, path, Options{ReadOnly: true}))(t)
			defer reader.Close()
			for range 5 {
				begin(t, s)
			}
			flying := begin(t, s)
			file := need.Get(os.ReadFile(path))(t)
			cut(t, path+"-wal")
			after := need.Get(os.ReadFile(path + "-wal"))(t)

			told := func(who string, err error) {
				t.Helper()
				var damaged *DamagedError
				need.That(t, errors.As(err, &damaged) && strings.Contains(err.Error(), "damaged: its log was cut"), "%s: %v", who, err)
			}
			for range 3 {
				_, err := ledger.Begin(ctx, s, request())
				told("a begin", err)
			}
			_, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: flying.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: billing})
			told("a settle", err)
			_, err = s.Expire(ctx, 1)
			told("an engine", err)
			for who, of := range map[string]*Store{"a writer": s, "a reader": reader} {
				_, err := of.Info(ctx)
				told(who+" that looks", err)
			}
			_, err = s.Scrub(ctx)
			told("a redaction", err)
			for who, o := range map[string]Options{"writes": {}, "looks": {ReadOnly: true}} {
				_, err := Open(ctx, path, o)
				told("one who opens it and "+who, err)
			}
			need.OK(t, errors.Join(reader.Close(), s.Close()))
			need.That(t, bytes.Equal(file, need.Get(os.ReadFile(path))(t)), "something of a cut log was copied into the ledger")
			need.That(t, bytes.Equal(after, need.Get(os.ReadFile(path+"-wal"))(t)), "something was written to the cut log")
		})
	}
}

// A log that was cut, and then removed or replaced, is not folded into the ledger.
func TestI1_ACutLogIsNotFoldedIntoTheLedger(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a log that was cut cannot be left as it is")
	}
	for _, how := range []string{"removed", "replaced"} {
		t.Run(how, func(t *testing.T) {
			s, _ := openTest(t)
			for range 5 {
				begin(t, s)
			}
			file, log := need.Get(os.ReadFile(s.path))(t), s.path+"-wal"
			cutTo(func(n int64) int64 { return n / 2 })(t, log)
			cut := need.Get(os.ReadFile(log))(t)
			need.OK(t, os.Remove(log))
			if how == "replaced" {
				need.OK(t, os.WriteFile(log, cut, 0o600))
			}
			for range 2 {
				_, err := ledger.Begin(ctx, s, request())
				need.That(t, err != nil, "begun")
			}
			need.OK(t, s.Close())
			need.That(t, how == "replaced" || bytes.Equal(file, need.Get(os.ReadFile(s.path))(t)), "something of it was copied into the ledger")
		})
	}
}

// A log that is cut between the last look and the commit is seen after the commit: what is
// written behind the gap is not acknowledged.
func TestI1_ALogThatIsCutWhileItIsWrittenToIsSeen(t *testing.T) {
	s, _ := openTest(t)
	for range 3 {
		begin(t, s)
	}
	need.OK(t, s.anchored())
	need.OK(t, os.Truncate(s.path+"-wal", 0))
	need.OK(t, s.writer.exec(`PRAGMA user_version = 1`))
	var damaged *DamagedError
	err := s.anchored()
	need.That(t, errors.As(err, &damaged), "%v", err)
}

// SQLite empties a log and begins it anew, also while others have it open.
func TestALogThatIsBegunAnewIsWhole(t *testing.T) {
	s, _ := openTest(t)
	other := need.Get(Create(ctx, s.path, Options{}))(t)
	defer other.Close()
	for i, how := range []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE", "TRUNCATE"} {
		begin(t, s)
		begin(t, other)
		need.Get(rawDB(t, s.path).Exec(`PRAGMA wal_checkpoint(` + how + `)`))(t)
		if i%2 == 0 {
			need.Get(s.Info(ctx))(t)
		}
	}
	begin(t, s)
	need.Get(other.Info(ctx))(t)
}
