package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

func TestExitCodesOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		exit int
		code string
	}{
		{errors.New("anything"), 1, "error"},
		{base.Usage("no", ""), 2, "usage"},
		{&ledger.FilterError{Text: "x:", Message: "m", Hint: "h"}, 2, "usage"},
		{&ledger.AmbiguousError{Prefix: "0198"}, 2, "usage"},
		{fmt.Errorf("read: %w", ledger.ErrNotFound), 3, "not_found"},
		{&ledger.MissingError{Ledger: "/x"}, 3, "no_ledger"},
		{&ledger.MovedError{ID: "i", State: ledger.Failed}, 4, "moved"},
		{&ledger.MovedError{NotFromThisOne: true}, 4, "moved"},
		{&ledger.RefusedError{Code: "hold", Why: "w"}, 5, "hold"},
		{&ledger.RefusedError{Why: "w"}, 5, "refused"},
		{ledger.ErrReadOnly, 5, "read_only"},
		{ledger.ErrCopied, 5, "copied"},
		{ledger.ErrKeyReused, 8, "key_reused"},
		{fmt.Errorf("%w: /x", ledger.ErrGone), 1, "gone"},
		{ledger.ErrBusy, 1, "locked"},
		{fmt.Errorf("%w: /x", ledger.ErrFull), 1, "disk_full"},
		{&ledger.SchemaError{Ledger: "/x", Has: 9, Knows: 1}, 1, "other_schema"},
		{&ledger.GuardError{Message: "m"}, 1, "guard"},
		{&ledger.GuardError{Moving: true, Message: "m"}, 1, "moving"},
		{context.Canceled, 1, "stopped"},
		{syscall.EROFS, 1, "permission"},
		{syscall.ENOSPC, 1, "disk_full"},
		{syscall.EIO, 1, "io_error"},
		{syscall.EMFILE, 1, "io_error"},
		{fs.ErrPermission, 1, "permission"},
		{ledger.Trouble{Code: "former", Message: "m", Do: "d"}, 3, "former"},
		{ledger.Trouble{Code: "usage", Message: "m", Do: "d"}, 2, "usage"},
	} {
		f := base.AsFailure(fmt.Errorf("outside: %w", c.err))
		need.That(t, f.Exit() == c.exit && f.Code == c.code && f.Message != "", "%T %v: exit %d, code %s, want %d, %s", c.err, c.err, f.Exit(), f.Code, c.exit, c.code)
		need.That(t, f.Code == "error" || f.Code == "usage" || strings.HasPrefix(f.Code, "h") || f.Code == "refused" || f.Hint != "", "%s has no hint", f.Code)
	}
}

// What else went wrong is said, too, where a command was interrupted.
func TestAnInterruptHidesNothing(t *testing.T) {
	f := base.AsFailure(errors.Join(context.Canceled, errors.New("the mark stays")))
	need.Equal(t, f.Code+": "+f.Message, "stopped: interrupted\nthe mark stays")
}

// failing gives the error of a command line and checks that text says the same.
func (b *bench) failing(exit int, code string, args ...string) *base.ErrorJSON {
	b.Helper()
	a := b.json(exit, args...)
	if a.Error.Code != code {
		b.Errorf("indoubt %s: code %s, want %s", strings.Join(args, " "), a.Error.Code, code)
	}
	if out := b.want(exit, args...); !strings.Contains(out, base.FirstLine(a.Error.Message)) {
		b.Errorf("indoubt %s: text and JSON differ\n%s\n%s", strings.Join(args, " "), out, a.Error.Message)
	}
	return a.Error
}

func TestNoLedgerIsNoAllClear(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{nil, {"list"}, {"show", id(1)}, {"log"}, {"confirm", id(1) + "@1", "--reason", "r"}, {"check"}, {"adopt"}, {"hold", "--all", "--reason", "r"}, {"0198c1de"}, {"source:billing since:30m"}} {
		e := b.failing(3, "no_ledger", args...)
		need.That(t, strings.HasPrefix(e.Message, "No ledger at ") && strings.HasSuffix(e.Message, " This is not an all-clear."), "%v", e.Message)
		for _, way := range []string{"indoubt demo", "indoubt run --kind post", "indoubt init", "--ledger PATH / INDOUBT_LEDGER"} {
			need.That(t, strings.Contains(e.Hint, way), "the way %q is missing:\n%s", way, e.Hint)
		}
		if _, err := os.Stat(b.ledger); err == nil {
			t.Fatalf("%v made a ledger", args)
		}
	}
	golden(t, "no_ledger.txt", []byte(strings.ReplaceAll(b.want(3), b.dir, "DIR")))
}

func TestWhatIsNoLedgerIsRefused(t *testing.T) {
	b := newBench(t)
	text := filepath.Join(b.dir, "notes.txt")
	need.OK(t, os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600))
	foreign := filepath.Join(b.dir, "foreign.db")
	execSQL(t, foreign, "CREATE TABLE t (x)")
	for path, code := range map[string]string{text: "not_a_ledger", foreign: "not_a_ledger", b.dir: "not_a_ledger"} {
		before, _ := os.ReadFile(path)
		for _, args := range [][]string{{"list"}, {"confirm", id(1) + "@1", "--reason", "r"}, {"init"}} {
			e := b.failing(1, code, append([]string{"--ledger", path}, args...)...)
			need.That(t, e.Hint != "", "%s: no hint", code)
		}
		if after, _ := os.ReadFile(path); string(before) != string(after) {
			t.Errorf("%s was changed", path)
		}
	}
	need.Contains(t, b.failing(1, "lost", "--ledger", "postgres://127.0.0.1:1/db", "list").Message, "does not answer")
	b.failing(2, "usage", "--ledger", "", "list")
}

func execSQL(t *testing.T, path, query string) {
	t.Helper()
	db := need.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	need.Get(db.Exec(query))(t)
}

func TestALedgerOfAnotherVersionIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	at, schema := b.at(1), need.Get(b.open().Info(t.Context()))(t).Schema
	b.open().Close()
	sent := filepath.Join(b.dir, "sent")
	for version, made := range map[int]string{schema + 1: "a newer", schema - 1: "an older"} {
		execSQL(t, b.ledger, fmt.Sprint("PRAGMA user_version = ", version))
		for _, args := range [][]string{{"list"}, {"confirm", at, "--reason", "r"}, {"init"}, {"begin", "--kind", "pay", "--key", "k"},
			{"backup", filepath.Join(b.dir, "copy")}, {"adopt", "--yes"}, {"engine"}, {"http", "--upstream", "http://127.0.0.1:1"}} {
			e := b.failing(1, "other_schema", args...)
			need.That(t, strings.Contains(e.Message, fmt.Sprintf("by %s version of indoubt: it has schema %d,", made, version)) &&
				e.Hint == "use the version that made it; nothing was changed", "%+v", e)
		}
		b.want(101, "run", "--kind", "pay", "--", "touch", sent)
		need.Contains(t, b.want(1, "doctor"), made+" version")
	}
	_, err := os.Stat(sent)
	need.That(t, errors.Is(err, fs.ErrNotExist), "it is sent: %v", err)
	execSQL(t, b.ledger, fmt.Sprint("PRAGMA user_version = ", schema))
	b.want(0, "confirm", at, "--reason", "the former program is back") // with what it left
}

// copied has the bench work on a copy of its ledger, which is not adopted yet.
func (b *bench) copied(name string) {
	b.Helper()
	b.open().Close()
	b.store = nil
	was, content := b.ledger, need.Get(os.ReadFile(b.ledger))(b)
	b.ledger = filepath.Join(b.dir, name)
	need.OK(b, os.WriteFile(b.ledger, content, 0o600))
	if wal, err := os.ReadFile(was + "-wal"); err == nil {
		need.OK(b, os.WriteFile(b.ledger+"-wal", wal, 0o600))
	}
}

// A policy that was in force before an adoption is applied anew before anything is checked or released.
func anAdoptionWantsThePolicy(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.copied("without.db")
	need.Contains(t, b.want(0, "adopt", "--yes"), "no policy was in force in it, so none has to be applied")
	b.want(0, "release", "--all", "--reason", "looked")

	b.want(0, "policy", "apply", "--reason", "the first")
	b.copied("with.db")
	b.failing(1, "no_file", "adopt", "--yes", "--policy", filepath.Join(b.dir, "none.yaml"))
	need.Contains(t, b.want(0, "adopt", "--yes"), "nothing is checked or released before its policy is applied anew: indoubt policy apply --reason")
	for _, args := range [][]string{{"check"}, {"check", id(1)}, {"release", "--all", "--reason", "looked"}, {"release", "stripe.charge", "--look-first", "0", "--reason", "looked"}} {
		e := b.failing(5, "refused", args...)
		need.Contains(t, e.Message+" "+e.Hint, "its policy has to be applied anew", "indoubt policy apply")
	}
	need.Contains(t, b.want(0, "doctor"), "warn  policy       the ledger was adopted, and its policy has to be applied anew", "→ indoubt policy apply --reason")
	b.copied("again.db") // what a second adoption finds is as old
	need.Contains(t, b.want(0, "adopt", "--yes"), "applied anew")
	need.Contains(t, b.want(0, "policy", "apply", "--reason", "it is as before"), "is in force as number 2")
	need.Contains(t, b.want(0, "policy", "apply", "--reason", "again"), "in force already as number 2")
	b.want(0, "release", "--all", "--look-first", "2h", "--reason", "looked")
	for _, args := range [][]string{{"stripe.chrage", "--look-first", "0"}, {"stripe.charge", "--look-first", "1h"}, {"--downstream", "stripe", "--look-first", "0"}} {
		b.failing(2, "usage", append([]string{"release", "--reason", "looked"}, args...)...)
	}
	need.Contains(t, b.failing(7, "held", "begin", "--kind", "stripe.charge", "--key", "lost", "--dry-run").Message, "its token is not in what is sent")
	b.want(6, "check", id(1))
	text := need.Get(os.ReadFile(b.policy))(t)
	for what, edit := range map[string][2]string{
		"a kind that was not named": {"stripe.charge:", "stripe.late: { deadline: 1s }\n  stripe.charge:"},
		"another token":             {"into: metadata.indoubt", "into: metadata.other"},
		"another match":             {"stripe.charge:", "stripe.charge:\n    match: POST api.stripe.com/v1/charges"},
		"a rename":                  {"stripe.charge:", "stripe.pay:"},
	} {
		need.OK(t, os.WriteFile(b.policy, []byte(strings.Replace(string(text), edit[0], edit[1], 1)), 0o600))
		e := b.failing(5, "refused", "policy", "apply", "--reason", what)
		need.Contains(t, e.Message, "as the last policy names it", "stripe.")
	}
	need.OK(t, os.WriteFile(b.policy, []byte(strings.Replace(string(text), "stripe.charge:", "stripe.pay:", 1)), 0o600))
	b.now = b.now.Add(2 * time.Hour)
	b.want(0, "policy", "apply", "--reason", "a rename")
	need.OK(t, os.WriteFile(b.policy, text, 0o600))
	b.want(0, "policy", "apply", "--reason", "back again")

	b.want(0, "hold", "--all", "--begins", "--reason", "a move")
	newest := need.Get(b.open().History(t.Context(), ledger.HistoryQuery{Newest: true, Limit: 1}))(t)[0].ID
	b.copied("moved.db")
	need.Lacks(t, b.want(0, "adopt", "--yes", "--at", newest), "anew") // nothing is missing
	b.want(0, "release", "--all", "--reason", "moved")

	b.copied("named.db")
	need.Contains(t, b.want(0, "adopt", "--yes", "--policy", b.policy), "is in force as number 5")
	need.Contains(t, b.want(0, "log"), "adopted here: its file was copied from another one")
	b.want(0, "release", "--all", "--reason", "looked")
}

func TestACopyIsOnlyLookedAtUntilItIsAdopted(t *testing.T) {
	t.Run("I13 and its policy is applied anew", anAdoptionWantsThePolicy)
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	at := b.at(1)
	b.copied("copy.db")
	b.want(0, "list")
	for _, args := range [][]string{{"confirm", at, "--reason", "r"}, {"confirm", at, "--dry-run"}, {"hold", "--all", "--reason", "r"}, {"check"}, {"note", id(1), "--reason", "r"}} {
		b.failing(5, "copied", args...)
	}
	b.failing(2, "usage", "adopt")
	need.Equal(t, b.json(0, "adopt", "--dry-run").Effect, "would_update")
	need.Contains(t, b.want(0, "adopt", "--dry-run"), "Its newest entry is", "can be sent again")
	b.failing(3, "not_found", "adopt", "--yes", "--at", ledger.NewID())
	need.Contains(t, b.want(0, "adopt", "--yes"), "begins are held until you have looked: indoubt release --all --reason")
	need.Equal(t, b.json(0, "adopt", "--yes").Effect, "noop")
	b.want(0, "confirm", at, "--reason", "r")
}

func TestABadFilterPointsAtTheMistake(t *testing.T) {
	b := newBench(t)
	b.open()
	for filter, want := range map[string]string{
		"state:committed lane:nowhere": "                       ^",
		"foo:bar":                      "  ^",
		"age>soon":                     "      ^",
		"risk:1":                       "       ^",
	} {
		e := b.failing(2, "usage", "list", filter)
		lines := strings.Split(e.Message, "\n")
		need.That(t, len(lines) == 3 && strings.HasPrefix(lines[2], want[:len(want)-1]) && strings.TrimSpace(lines[2]) == "^", "%s:\n%s", filter, e.Message)
		need.That(t, e.Hint != "", "%s: no hint", filter)
	}
	b.failing(2, "usage", "lane:nowhere")
	b.failing(2, "usage", "list", "since:gestern")
	b.want(0, "list", "--", "-state:committed")
	need.Contains(t, b.failing(2, "usage", "list", "-state:committed").Hint, "indoubt list -- -state:committed")
}

// A key that is given and says nothing would protect nothing: it begins nothing.
func TestAKeyIsGivenOrLeftOut(t *testing.T) {
	b := newBench(t)
	b.open()
	for _, key := range []string{"", " ", "\t\n"} {
		need.Contains(t, b.failing(2, "usage", "begin", "--kind", "post", "--input", "{}", "--key", key).Message, "--key is empty")
		b.want(102, "run", "--kind", "post", "--key", key, "--", "true")
	}
	need.Equal(t, b.lastEvent(), 0, "events")
}

func TestABadPolicySaysWhere(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	bad := strings.Replace(benchPolicy, "receipt: it.id", "receit: it.id", 1)
	need.OK(t, os.WriteFile(b.policy, []byte(bad), 0o600))
	a := b.json(1, "policy", "check")
	need.That(t, a.Error.Code == "bad_policy" && strings.Contains(a.Error.Message, "receit") && strings.Contains(string(a.Data), `"line":25`), "%+v %s", a.Error, a.Data)
	out := b.want(1, "policy", "check")
	need.Contains(t, out, "policy.yaml:25:", "^", "did you mean `receipt`?")
	b.failing(1, "bad_policy", "retry", b.at(1))
	b.failing(1, "bad_policy", "check")
	exit, stdout, stderr := b.run("list") // the reader is warned, and still sees
	need.That(t, exit == 0 && strings.Contains(stdout, id(1)) && strings.Contains(stderr, "warning: the policy cannot be used"), "%d\n%s%s", exit, stdout, stderr)
	b.failing(1, "no_file", "--policy", filepath.Join(b.dir, "none.yaml"), "policy", "check")
}

func TestMistypedCommands(t *testing.T) {
	b := newBench(t)
	b.open()
	for _, args := range [][]string{{"confrim", id(1)}, {"lst"}, {"shwo", "0198"}} {
		need.Contains(t, b.failing(2, "usage", args...).Message, "did you mean")
	}
	for _, args := range [][]string{{`"mail"`}, {`"post"`, "news"}, {`"lst"`}, {"stripe.charge"}, {"kind:mail"}} {
		b.want(0, args...)
	}
	b.failing(2, "usage", "mail")
	b.failing(2, "usage", "post", "news")
	b.failing(2, "usage", "list", "--nonsense")
}
