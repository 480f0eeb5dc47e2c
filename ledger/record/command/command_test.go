//go:build unix

package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/record/command/standby"
)

// TestMain is also the guard process and the wrapped runs of the tests.
func TestMain(m *testing.M) {
	if does := roles[os.Getenv("INDOUBT_TEST_ROLE")]; does != nil {
		os.Exit(does())
	}
	os.Exit(m.Run())
}

// roles are what this binary does as another process.
var roles = map[string]func() int{"run": runRole, "guard": func() int { Guard(os.Stdin, guardSaw); return 0 }}

func oneRule(rule record.KindRule) record.Rules {
	return record.Rules(func(string) record.KindRule { return rule })
}

// real is a recorder over a ledger in a file.
func real(t *testing.T, rule record.KindRule) (*record.Recorder, ledger.Store) {
	t.Helper()
	store := need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), open.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	return record.New(store, oneRule(rule), record.Options{}), store
}

func begin(t *testing.T, r *record.Recorder, w record.Request) ledger.BeginResult {
	t.Helper()
	res := need.Get(r.Begin(t.Context(), w))(t)
	return res
}

// guardArgv is this binary in the guard's role.
func guardArgv(t *testing.T) []string {
	t.Helper()
	self := need.Get(os.Executable())(t)
	return append([]string{"/usr/bin/env", "INDOUBT_TEST_ROLE=guard", self}, standby.Args...)
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// ran is one run over a store, with its output.
type ran struct {
	Result
	out, err string
	notes    string
}

func runOver(t *testing.T, r *record.Recorder, req Request) ran {
	t.Helper()
	return runUntil(t.Context(), t, r, req)
}

func runUntil(ctx context.Context, t *testing.T, r *record.Recorder, req Request) ran {
	t.Helper()
	var out, errOut, notes bytes.Buffer
	if req.Kind == "" {
		req.Kind = "post"
	}
	req.Stdout, req.Stderr = &out, &errOut
	req.Note = func(line string) { notes.WriteString(line + "\n") }
	res := need.Get(Run(ctx, r, req))(t)
	return ran{res, out.String(), errOut.String(), notes.String()}
}

func TestRunPassesThroughAndKeepsTheResult(t *testing.T) {
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	request := record.Request{Key: "k"}
	req := Request{Request: request, Argv: sh(`printf '{"id": "%s", "said":"%s"}\n' "$INDOUBT_KEY" "$(cat)"; echo noise >&2`), Stdin: strings.NewReader("hello")}
	first := runOver(t, r, req)
	if first.ExitCode != 0 || first.out != "{\"id\": \"k\", \"said\":\"hello\"}\n" || first.err != "noise\n" || first.Operation.State != ledger.Committed {
		t.Fatalf("%d %q %q %s", first.ExitCode, first.out, first.err, first.Operation.State)
	}
	req.Stdin = strings.NewReader("again")
	second := runOver(t, r, req)
	if second.ExitCode != 0 || second.Ran || string(second.Stored) != first.out || second.Answer != ledger.AnswerFinished {
		t.Errorf("%d %v %q", second.ExitCode, second.Ran, second.Stored)
	}
	bare := runOver(t, r, Request{Request: record.Request{Key: "b"}, Argv: sh(`printf '{"id":1}'`)})
	if said, whole := outcome.Output(bare.Operation.Result); string(said) != bare.out || !whole {
		t.Errorf("%q became %q", bare.out, said)
	}
	text := runOver(t, r, Request{Request: record.Request{Key: "t"}, Argv: sh(`printf 'two\nlines'`)})
	if said, whole := outcome.Output(text.Operation.Result); string(text.Operation.Result) != `"two\nlines"` || string(said) != "two\nlines" || !whole {
		t.Errorf("%s", text.Operation.Result)
	}
	long := runOver(t, r, Request{Request: record.Request{Key: "l"}, Argv: sh(`i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done`)})
	if len(long.out) < 200_000 || len(long.Operation.Result) > 2*outcome.MaxResult || !strings.Contains(string(long.Operation.Result), "line 19999") {
		t.Errorf("%d bytes out, %d kept", len(long.out), len(long.Operation.Result))
	}
	quiet := runOver(t, r, Request{Request: record.Request{Key: "q"}, Argv: sh(`:`)})
	need.That(t, quiet.Operation.State == ledger.Committed && quiet.Operation.Result == nil, "%s %s", quiet.Operation.State, quiet.Operation.Result)
}

// TestRunNeverTakesAPartForTheWhole: what reads the output of a second start gets
// what the first one said, byte for byte, or an exit code that is not 0.
func TestRunNeverTakesAPartForTheWhole(t *testing.T) {
	t.Setenv("DEPLOY_KEY", "hush-hush-77")
	for name, c := range map[string]struct {
		script string
		whole  bool
	}{
		"a text":                   {`printf 'a\n\tb'`, true},
		"white space":              {`printf ' \n\n'`, true},
		"JSON":                     {`printf '{"b": 1, "a" : 2.50}\n'`, true},
		"as much as is kept":       {`head -c 65536 /dev/zero | tr '\0' x`, true},
		"more":                     {`head -c 65537 /dev/zero | tr '\0' x`, false},
		"much more":                {`head -c 1000000 /dev/zero | tr '\0' x`, false},
		"JSON that is long":        {`printf '['; i=0; while [ $i -lt 9000 ]; do printf '{"id":1},'; i=$((i+1)); done; printf '0]'`, false},
		"bytes that are no text":   {`printf 'a\377b'`, false},
		"what takes much room":     {`head -c 60000 /dev/zero | tr '\0' '\001'`, false},
		"a secret":                 {`echo "with $DEPLOY_KEY"`, false},
		"a secret in JSON":         {`echo "{\"key\":\"$DEPLOY_KEY\",\"n\":1}"`, false},
		"JSON with a member twice": {`printf '{"a":1,"a":2}'`, true},
		"what looks like a part":   {`printf '{"kept":"part","text":"x"}'`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
			req := Request{Request: record.Request{Key: "k"}, Argv: sh(c.script + ` # ${DEPLOY_KEY}`), Expand: []string{"DEPLOY_KEY"}}
			first, again := runOver(t, r, req), runOver(t, r, req)
			need.Must(t, first.ExitCode == 0 && !again.Ran && again.Answer == ledger.AnswerFinished,
				"exit %d, then ran %v, %s", first.ExitCode, again.Ran, again.Answer)
			same := string(again.Stored) == first.out
			switch {
			case c.whole && (again.ExitCode != 0 || again.Part || !same):
				t.Errorf("exit %d, part %v, %d bytes of %d", again.ExitCode, again.Part, len(again.Stored), len(first.out))
			case !c.whole && (again.ExitCode != 109 || !again.Part):
				t.Errorf("exit %d, part %v, %d bytes of %d", again.ExitCode, again.Part, len(again.Stored), len(first.out))
			case len(again.Operation.Result) > 2*outcome.MaxResult || strings.Contains(string(again.Stored), "hush"):
				t.Errorf("%d bytes are kept: %.100s", len(again.Operation.Result), again.Stored)
			}
		})
	}
}

func TestRunTellsTheCommandWhoItIs(t *testing.T) {
	t.Setenv("SECRET_PLACE", "s3cret-place")
	store := ledgertest.NewBreakable(nil)
	r := record.New(store, nil, record.Options{})
	argv := append(sh(`echo "$INDOUBT_ID|$INDOUBT_KEY|$INDOUBT_TOKEN|$INDOUBT_ATTEMPT|$1|$2|$3"`), "x", "k={{key}}", "t={{token}}", "${SECRET_PLACE}")
	res := runOver(t, r, Request{Request: record.Request{Key: "k 1"}, Argv: argv, Expand: []string{"SECRET_PLACE"}})
	o := res.Operation
	want := fmt.Sprintf("%s|k 1|%s|%s|k=k 1|t=%s|s3cret-place\n", o.ID, o.Token, res.Attempt.ID, o.Token)
	need.Equal(t, res.out, want)
	need.That(t, o.TokenSent && res.Attempt.TokenSent, "{{token}} occurred, and the token does not count as sent")
	kept, err := json.Marshal(store.Only(t).Operation.Command)
	need.That(t, err == nil && !strings.Contains(string(kept), "s3cret") && strings.Contains(string(kept), "${SECRET_PLACE}") && strings.Contains(string(kept), "{{key}}"), "%s", kept)
	loud := runOver(t, r, Request{Request: record.Request{Key: "loud"}, Argv: append(sh(`echo "using $1" >&2; echo "$1"; exit 9`), "x", "${SECRET_PLACE}"), Expand: []string{"SECRET_PLACE"}})
	if text := string(loud.Attempt.Result) + loud.Attempt.Error + loud.Outcome.Error; strings.Contains(text, "s3cret") || !strings.Contains(text, "using") {
		t.Errorf("%s", text)
	}
	plain := runOver(t, r, Request{Request: record.Request{Key: "k2"}, Argv: sh(":")})
	need.That(t, !plain.Operation.TokenSent, "the token counts as sent")
	by := record.New(ledgertest.NewBreakable(nil), oneRule(record.KindRule{TokenArgument: true}), record.Options{})
	if res := runOver(t, by, Request{Request: record.Request{Key: "k", TokenSent: true}, Argv: sh(`: "$INDOUBT_TOKEN"`)}); res.Operation.TokenSent || !strings.Contains(res.notes, "{{token}}") {
		t.Errorf("a policy's word counts as the token's being sent: %q", res.notes)
	}
	if res := runOver(t, by, Request{Request: record.Request{Key: "part"}, Argv: append(sh(":"), "id_{{token}}")}); res.Operation.TokenSent {
		t.Error("a part of a longer name counts as the token")
	}
	if res := runOver(t, by, Request{Request: record.Request{Key: "whole"}, Argv: append(sh(":"), "id={{token}}")}); !res.Operation.TokenSent || res.notes != "" {
		t.Errorf("%t %q", res.Operation.TokenSent, res.notes)
	}
	for name, req := range map[string]Request{
		"no command":            {Request: record.Request{Kind: "post", Key: "k"}},
		"an unset variable":     {Request: record.Request{Kind: "post", Key: "k"}, Argv: sh(":"), Expand: []string{"NOT_SET_ANYWHERE"}},
		"a key like an option":  {Request: record.Request{Kind: "post", Key: "--force"}, Argv: []string{"x", "{{key}}"}},
		"a key as input":        {Request: record.Request{Kind: "post", Key: "k", Input: json.RawMessage(`{`)}, Argv: sh(":")},
		"a value like a option": {Request: record.Request{Kind: "post", Key: "k"}, Argv: []string{"x", "${DASH}"}, Expand: []string{"DASH"}},
	} {
		t.Setenv("DASH", "-rf")
		if res, err := Run(t.Context(), r, req); err == nil {
			t.Errorf("%s: %+v", name, res.ExitCode)
		}
	}
}

// TestI1_NothingRunsUnrecorded: a ledger that cannot take the intent stops it.
func TestI1_NothingRunsUnrecorded(t *testing.T) {
	store := ledgertest.NewBreakable(nil)
	store.Break(errors.New("disk I/O error"))
	r := record.New(store, nil, record.Options{})
	mark := filepath.Join(t.TempDir(), "ran")
	if _, err := Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: "k"}, Argv: []string{"touch", mark}}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// TestI1_BytesThatCannotBeRecorded: JSON would make one command of two.
func TestI1_BytesThatCannotBeRecorded(t *testing.T) {
	r, store := real(t, record.KindRule{})
	for _, argv := range [][]string{{"true", "M\xfcller"}, {"true", "M\xf6ller"}} {
		_, err := Run(t.Context(), r, Request{Request: record.Request{Kind: "post"}, Argv: argv})
		need.That(t, err != nil && strings.Contains(err.Error(), `"M\x`) && strings.Contains(err.Error(), "not UTF-8"), "%v", err)
	}
	need.Equal(t, len(need.Get(store.StateCounts(t.Context(), time.Now()))(t)), 0, "recorded")
}

// TestI2_AWrappedFailureIsNoProof covers how a command may end.
func TestI2_AWrappedFailureIsNoProof(t *testing.T) {
	refusing := record.KindRule{Judge: func(_ context.Context, _ ledger.Record, a ledger.Answer) (ledger.Ruling, error) {
		switch a.Exit {
		case 3:
			return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed}, nil
		case 4:
			return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted, Receipt: "r-4"}, nil
		case 5:
			return ledger.Ruling{}, fmt.Errorf("no such member")
		}
		return ledger.Ruling{}, nil
	}}
	text := filepath.Join(t.TempDir(), "text")
	need.OK(t, os.WriteFile(text, nil, 0o600))
	cases := []struct {
		name  string
		argv  []string
		code  int
		state ledger.State
		class ledger.ErrorClass
	}{
		{"exit 0", sh("exit 0"), 0, ledger.Committed, ""},
		{"exit 1", sh("exit 1"), 106, ledger.Uncertain, ledger.ClassExit},
		{"exit 127 inside", sh("nonexistent-command-xyz"), 106, ledger.Uncertain, ledger.ClassExit},
		{"killed", sh("kill -9 $$"), 106, ledger.Uncertain, ledger.ClassKilled},
		{"refused by rule", sh("exit 3"), 3, ledger.Failed, ""},
		{"committed by rule", sh("exit 4"), 0, ledger.Committed, ""},
		{"rule errs", sh("exit 5"), 106, ledger.Uncertain, ledger.ClassExit},
		{"not found", []string{"nonexistent-command-xyz"}, 127, ledger.Failed, ""},
		{"not executable", []string{text}, 126, ledger.Failed, ""},
		{"no such path", []string{"/nonexistent/x"}, 127, ledger.Failed, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := record.New(ledgertest.NewBreakable(nil), oneRule(refusing), record.Options{})
			res := runOver(t, r, Request{Request: record.Request{Key: "k"}, Argv: c.argv})
			if res.ExitCode != c.code || res.Operation.State != c.state || res.Operation.ErrorClass != c.class {
				t.Errorf("exit %d, %s, class %q (%s)", res.ExitCode, res.Operation.State, res.Operation.ErrorClass, res.Outcome.Error)
			}
			again := runOver(t, r, Request{Request: record.Request{Key: "k"}, Argv: c.argv})
			need.That(t, !again.Ran || c.state == ledger.Failed, "it ran again")
			need.That(t, c.state != ledger.Uncertain || again.ExitCode == 106, "in doubt, and the second run exits %d", again.ExitCode)
		})
	}
}

func TestRunOwnVerdicts(t *testing.T) {
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	in := json.RawMessage(`{"a":1}`)
	begin(t, r, record.Request{Kind: "post", Key: "flying", Input: in})
	if res := runOver(t, r, Request{Request: record.Request{Key: "flying", Input: in}, Argv: sh(":")}); res.ExitCode != 107 || res.Ran {
		t.Errorf("in flight: %d", res.ExitCode)
	}
	if res := runOver(t, r, Request{Request: record.Request{Key: "flying", Input: json.RawMessage(`{"a":2}`)}, Argv: sh(":")}); res.ExitCode != 108 || res.Ran {
		t.Errorf("another input: %d", res.ExitCode)
	}
	store := ledgertest.NewBreakable(nil)
	reading := record.New(store, oneRule(record.KindRule{Access: "read"}), record.Options{})
	if res := runOver(t, reading, Request{Argv: sh("echo x; exit 7")}); res.ExitCode != 7 || res.out != "x\n" || len(store.Changed()) != 0 {
		t.Errorf("a read: %d %q, %d recorded", res.ExitCode, res.out, len(store.Changed()))
	}
}

// TestItsEndIsThatOfTheGroup: the command is ended with all it has started.
func TestItsEndIsThatOfTheGroup(t *testing.T) {
	for name, script := range map[string]string{
		"hears TERM":   `sleep 60 & echo $! > "$1"; wait`,
		"ignores TERM": `trap '' TERM; (trap '' TERM; sleep 60; sleep 60) & echo $! > "$1"; wait; wait; wait`,
		"exits 0":      `trap 'exit 0' TERM; sleep 60 & echo $! > "$1"; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			for timeout := 100 * time.Millisecond; ; timeout *= 2 { // until it has come so far
				r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				res := runUntil(ctx, t, r, Request{Request: record.Request{Key: "k"}, Argv: append(sh(script), "x", file), Grace: 50 * time.Millisecond})
				cancel()
				if res.ExitCode != 106 || res.Operation.ErrorClass != ledger.ClassKilled {
					t.Errorf("exit %d, class %q", res.ExitCode, res.Operation.ErrorClass)
				}
				if lines(file) == 1 || t.Failed() {
					break
				}
			}
			gone(t, file)
		})
	}
}

// gone fails unless the process whose id is in the file has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text := need.Get(os.ReadFile(file))(t)
	pid := need.Get(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	for range 1000 { // a guard first starts, which takes seconds on a busy machine
		if !alive(pid) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d lives on", pid)
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// notIgnored: what this test was started to ignore (nohup, or a job in the background),
// the command would ignore too.
func notIgnored(t *testing.T, signals ...os.Signal) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, signals...)
	t.Cleanup(func() { signal.Stop(heard) })
}

// onWrite does something when a command says a word.
type onWrite func()

func (do onWrite) Write(p []byte) (int, error) { do(); return len(p), nil }

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	res, err := Run(ctx, r, Request{Request: record.Request{Kind: "post", Key: "k"}, Argv: sh("echo up; exec sleep 600"), Stdout: onWrite(cancel)})
	need.That(t, err == nil && res.ExitCode == 106 && res.Operation.ErrorClass == ledger.ClassKilled, "%d %s %v", res.ExitCode, res.Operation.ErrorClass, err)
}

// TestOutputOutlivesItsReader: a reader of our output that goes away does not
// end the command, nor the keeping of its result.
func TestOutputOutlivesItsReader(t *testing.T) {
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	res, err := Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: "k"}, Argv: sh("for i in 1 2 3 4; do echo $i; sleep 0.02; done"), Stdout: deaf{}})
	need.That(t, err == nil && res.ExitCode == 0 && string(res.Operation.Result) == `"1\n2\n3\n4\n"`, "%d %s %v", res.ExitCode, res.Operation.Result, err)
}

type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestManyRunsOfOneKey: one runs, the others are told.
func TestManyRunsOfOneKey(t *testing.T) {
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	file := filepath.Join(t.TempDir(), "effects")
	var mu sync.Mutex
	codes := map[int]int{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			res, err := Run(context.Background(), r, Request{Request: record.Request{Kind: "post", Key: "k"}, Argv: append(sh(`echo x >> "$1"; sleep 0.1`), "x", file)})
			need.That(t, err == nil, "%v", err)
			mu.Lock()
			defer mu.Unlock()
			codes[res.ExitCode]++
		})
	}
	wg.Wait()
	text, _ := os.ReadFile(file)
	need.That(t, string(text) == "x\n" && codes[0]+codes[107] == 16, "%q, exit codes %v", text, codes)
}

// A cron line has the same words every night, a webhook line at every event: what was asked for
// without a key is over with its answer, and one event holds no other. Nothing needs to run.
func TestTheSameWordsAnotherTime(t *testing.T) {
	fed := func(text string) *os.File {
		path := filepath.Join(t.TempDir(), "in")
		need.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return need.Get(os.Open(path))(t)
	}
	type ask struct {
		kind, key, words, dir, in string
		want                      ledger.BeginAnswer
		ends                      ledger.Outcome // "" stays in flight
	}
	const begun, committed, uncertain = ledger.AnswerBegun, ledger.OutcomeCommitted, ledger.OutcomeUncertain
	for name, c := range map[string]struct {
		rule record.KindRule
		asks []ask
	}{
		"a nightly job":        {asks: []ask{{want: begun, ends: committed}, {want: begun, ends: committed}, {want: begun, ends: uncertain}, {want: ledger.AnswerInDoubt}}},
		"in another place":     {asks: []ask{{dir: "/", want: begun, ends: uncertain}, {dir: "/tmp", want: begun}}},
		"of another file":      {asks: []ask{{in: "a", want: begun, ends: uncertain}, {in: "b", want: begun}, {in: "a", want: ledger.AnswerInDoubt}}},
		"events in flight":     {asks: []ask{{key: "evt_1", want: begun}, {key: "evt_2", want: begun}, {key: "evt_1", want: ledger.AnswerInProgress}}},
		"events in doubt":      {asks: []ask{{key: "evt_1", want: begun, ends: uncertain}, {key: "evt_2", want: begun, ends: committed}, {key: "evt_1", want: ledger.AnswerInDoubt}, {want: begun}}},
		"events that landed":   {asks: []ask{{key: "evt_1", want: begun, ends: committed}, {key: "evt_2", want: begun, ends: committed}, {key: "evt_1", want: ledger.AnswerFinished}}},
		"an event that failed": {asks: []ask{{key: "evt_1", want: begun, ends: ledger.OutcomeFailed}, {key: "evt_2", want: begun, ends: committed}, {key: "evt_1", want: begun}}},
		"of another checkout":  {asks: []ask{{key: "a1b2", dir: "/", want: begun, ends: committed}, {key: "a1b2", dir: "/tmp", want: ledger.AnswerFinished}}},
		"so, in doubt":         {asks: []ask{{key: "a1b2", dir: "/", want: begun, ends: uncertain}, {key: "a1b2", dir: "/tmp", want: ledger.AnswerInDoubt}}},
		"one key, two kinds":   {asks: []ask{{kind: "deploy", words: "deploy", key: "v7", want: begun, ends: uncertain}, {kind: "notify", words: "notify", key: "v7", want: begun}}},
		"a safe deploy":        {rule: safeDeploy, asks: []ask{{words: "7", want: begun, ends: uncertain}, {words: "7", want: begun, ends: uncertain}, {words: "7", want: begun, ends: committed}}},
		"a safe one by key":    {rule: safeDeploy, asks: []ask{{key: "v7", words: "7", want: begun, ends: uncertain}, {key: "v7", words: "7", want: begun, ends: committed}}},
		"a rollback":           {rule: safeDeploy, asks: []ask{{key: "v6", words: "6", want: begun, ends: committed}, {key: "v7", words: "7", want: begun, ends: committed}, {key: "v6", words: "6", want: begun, ends: committed}, {key: "v6", words: "6", want: ledger.AnswerFinished}}},
		"after it was tried again": {rule: safeDeploy, asks: []ask{{key: "v6", words: "6", want: begun, ends: uncertain}, {key: "v6", words: "6", want: begun, ends: committed},
			{key: "v7", words: "7", want: begun, ends: committed}, {key: "v6", words: "6", want: begun, ends: committed}}},
		"a rollback to what had failed": {rule: safeDeploy, asks: []ask{{words: "6", want: begun, ends: ledger.OutcomeFailed}, {words: "7", want: begun, ends: committed}, {words: "6", want: begun, ends: committed}}},
		"beside a doubt":                {rule: safeDeploy, asks: []ask{{key: "v6", words: "6", want: begun, ends: committed}, {key: "v7", words: "7", want: begun, ends: uncertain}, {key: "v6", words: "6", want: begun, ends: committed}}},
	} {
		clock := ledgertest.NewClock()
		r := record.New(ledgertest.NewBreakable(clock), oneRule(c.rule), record.Options{Clock: clock.Now})
		for i, a := range c.asks {
			clock.Advance(time.Second)
			req := Request{Request: record.Request{Kind: cmp.Or(a.kind, "post"), Key: a.key}, Argv: []string{"do", cmp.Or(a.words, "it")}, Dir: cmp.Or(a.dir, "/")}
			if a.in != "" {
				req.Stdin = fed(a.in)
			}
			need.Get(prepare(r, &req))(t)
			res := need.Get(r.Begin(t.Context(), req.Request))(t)
			need.Must(t, res.Answer == a.want, "%s, %d: %s (%s), want %s", name, i, res.Answer, res.Why, a.want)
			if a.ends != "" {
				o := need.Get(r.Settle(t.Context(), settlement(res.Attempt.ID, a.ends)))(t).After
				need.Equal(t, o.Conflict, ledger.NoConflict, name)
			}
		}
	}
}

// safeDeploy is a kind that sets the state of one target.
var safeDeploy = record.KindRule{Named: true, Safe: true, Supersedes: true, Target: func(ledger.Operation) string { return "web" }}

func settlement(attempt string, outcome ledger.Outcome) ledger.SettleRequest {
	req := ledger.SettleRequest{AttemptID: attempt, Outcome: outcome}
	if outcome == ledger.OutcomeFailed {
		req.Proof = ledger.NeverSent
	}
	return req
}

// I4: a curl is held by what it asks for: in another spelling of its address it is the same one.
func TestI4_TheSameAddressInAnotherSpelling(t *testing.T) {
	curl := func(words ...string) []string {
		return append([]string{"/usr/bin/curl", "-d", "@a", "-H", "A: /pa%74h"}, words...)
	}
	for name, c := range map[string]struct{ first, same, other []string }{
		"a letter":           {curl("https://h/path"), curl("https://h/pa%74h"), curl("https://h/pa%2574h")},
		"behind an option":   {curl("--url", "https://h/path"), curl("--url", "https://H:443/path"), curl("--url", "http://h:443/path")},
		"joined to it":       {curl("--url=https://h/a%2Fb"), curl("--url=https://h/a%2Fb"), curl("--url=https://h/a%2fb")},
		"no scheme":          {curl("h.example/a"), curl("h.example/a"), curl("h.example/./a")},
		"what may be none":   {curl("--variable", "http://h/A", "https://h"), curl("--variable", "http://h/A", "https://h"), curl("--variable", "http://h/%41", "https://h")},
		"two of them":        {curl("https://h/a", "https://h/b"), curl("https://h/a", "https://h/b"), curl("https://h/a", "https://h/%62")},
		"a query":            {curl("https://h/?a=1&b=2"), curl("https://h?b=2&a=1"), curl("https://h/?a=2&b=1")},
		"no address":         {curl("https://h/%zz", "--url"), curl("https://h/%zz", "--url"), curl("https://h/%zZ", "--url")},
		"another's words":    {[]string{"do", "https://h/path"}, []string{"do", "https://h/path"}, []string{"do", "https://h/pa%74h"}},
		"what is no address": {curl("--data", "/path", "https://h"), curl("--data", "/path", "https://h/"), curl("--data", "/pa%74h", "https://h/")},
		"what run fills in":  {curl("https://h/{{key}}"), curl("https://h/{{key}}"), curl("https://h/%7B%7Bkey%7D%7D")},
		"several at once":    {curl("https://h/[1-2]"), curl("https://h/[1-2]"), curl("https://h/%5B1-2%5D")},
	} {
		for _, key := range []string{"", "k-1"} {
			clock := ledgertest.NewClock()
			r := record.New(ledgertest.NewBreakable(clock), oneRule(record.KindRule{}), record.Options{Clock: clock.Now})
			ask := func(argv []string, key string) ledger.BeginResult {
				req := Request{Request: record.Request{Kind: "post", Key: key}, Argv: argv, Dir: "/"}
				need.Get(prepare(r, &req))(t)
				need.That(t, slices.Equal(req.Argv, argv) && slices.Equal(req.Command.Argv, argv), "%s: it would run %q", name, req.Argv)
				return need.Get(r.Begin(t.Context(), req.Request))(t)
			}
			first := ask(c.first, key)
			need.Get(r.Settle(t.Context(), settlement(first.Attempt.ID, ledger.OutcomeUncertain)))(t)
			need.Equal(t, ask(c.same, key).Answer, ledger.AnswerInDoubt, name+", the same")
			if key != "" {
				key = "k-2"
			}
			need.Equal(t, ask(c.other, key).Answer, ledger.AnswerBegun, name+", another one")
		}
	}
}
