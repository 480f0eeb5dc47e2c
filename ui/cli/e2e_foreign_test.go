//go:build soak

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

// The ledger guards itself, also against a shell with no manners.
func TestI8_E2E_TheDatabaseRefuses(t *testing.T) {
	need.Program(t, "sqlite3")
	s := newSite(t)
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	before := s.show(op.ID)
	for _, attack := range []string{
		`UPDATE op SET state = 'committed'`,
		`UPDATE op SET state = 'pending', version = version + 1, change_id = 'x', actor = 'me', reason = 'again'`,
		`UPDATE op SET state = 'pending', attempt = attempt + 1, version = version + 1, change_id = 'x', actor = 'me', verb = 'retry', reason = 'again', facts = '{}'`,
		`UPDATE op SET state = 'done', version = version + 1, change_id = 'x', actor = 'me', reason = 'done'`,
		`UPDATE op SET name = 'k2'`,
		`UPDATE op SET token = 'mine', payload = '{}'`,
		`UPDATE op SET input = 'x'`,
		`DELETE FROM op`,
		`INSERT OR REPLACE INTO op (id, kind, name, deadline_at, actor) SELECT id, kind, name, created_at + 1000, 'me' FROM op`,
		`INSERT INTO op (id, kind, name, deadline_at, actor) SELECT 'twin', kind, name, created_at + 1000, 'me' FROM op`,
		`INSERT INTO op (id, kind, name, deadline_at, actor) VALUES ('seconds', 'charge', 'k9', 1790000000, 'me')`,
		`UPDATE ev SET reason = 'nothing happened'`,
		`DELETE FROM ev`,
		`INSERT OR REPLACE INTO ev SELECT * FROM ev`,
		`INSERT INTO ev (op, n, id, verb, actor, before, state, outcome) SELECT seq, 1, 'x', 'settle', 'me', state, 'committed', 'committed' FROM op`,
		`INSERT INTO settle (attempt, outcome, reason, actor) SELECT id || '.1', 'committed', 'landed', 'me' FROM op`,
	} {
		out, err := exec.Command("sqlite3", "-batch", s.ledger, attack).CombinedOutput()
		if err == nil {
			t.Errorf("allowed: %s", attack)
			continue
		}
		need.That(t, len(strings.TrimSpace(string(out))) >= 10, "refused without a word: %s: %s", attack, out)
	}
	after := s.show(op.ID)
	need.That(t, after.State == before.State && after.Version == before.Version && len(after.Events) == len(before.Events), "before %+v\nafter %+v", before, after)
}

const pythonWriter = `
import json, os, sqlite3, sys, time, uuid
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
db.execute("PRAGMA synchronous = FULL")
op = str(uuid.uuid4())
db.execute(
    "INSERT INTO intent (id, kind, key, input, deadline_at, source, actor) VALUES (?, ?, ?, ?, ?, ?, ?)",
    (op, "charge", "py-" + sys.argv[2], json.dumps({"customer": "cus_py", "amount": 420}),
     int(time.time() * 1000) + 1500, "nightly.py", "nightly.py"))
if sys.argv[2] == "crash":
    os.kill(os.getpid(), 9)
db.execute("INSERT INTO settle (attempt, outcome, receipt, reason, actor) VALUES (?, 'committed', 'pi_py', 'answered', 'nightly.py')", (op + ".1",))
`

// A pipeline in another language writes plain SQL. When it crashes between its
// two statements, the operation shows up at once and is in doubt at its deadline.
func TestI10_E2E_APythonWriterCrashes(t *testing.T) {
	need.Program(t, "python3")
	s := newSite(t)
	s.must(0, "init")
	script := filepath.Join(s.dir, "writer.py")
	need.OK(t, os.WriteFile(script, []byte(pythonWriter), 0o644))
	if out, err := exec.Command("python3", script, s.ledger, "fine").CombinedOutput(); err != nil {
		t.Fatalf("the writer: %v\n%s", err, out)
	}
	fine := s.only()
	s.wantState(fine, "committed")
	if deref(fine.Receipt) != "pi_py" || len(fine.Attempts) != 1 || len(fine.Events) != 2 {
		t.Errorf("receipt %q, attempts %+v, events %+v", deref(fine.Receipt), fine.Attempts, fine.Events)
	}

	crash := exec.Command("python3", script, s.ledger, "crash")
	if out, err := crash.CombinedOutput(); crash.ProcessState == nil || crash.ProcessState.ExitCode() != -1 {
		t.Fatalf("the writer did not come to its crash: %v\n%s", err, out)
	}
	find := func() operation {
		for _, op := range s.list() {
			if op.Key == "py-crash" {
				return op
			}
		}
		t.Fatal("the crashed write does not show up")
		return operation{}
	}
	if op := find(); op.State != "pending" {
		t.Errorf("state %s right after the crash, want pending", op.State)
	}
	s.eventually("it is in doubt at its deadline", func() bool { return find().State == "uncertain" })
	s.do("check")
	op := s.show(find().ID)
	s.wantState(op, "uncertain")
	need.Equal(t, deref(op.ErrorClass), "deadline", "error class")
}

// asNobody lets a process run as a user that owns nothing here, because root
// may write everywhere.
func asNobody(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

// What cannot be recorded is not sent: a ledger that cannot be written.
func TestI1_E2E_AReadOnlyLedger(t *testing.T) {
	need.Program(t, "curl")
	s := newSite(t)
	s.must(0, "init")
	openToAll(s.dir)
	for _, file := range []string{s.ledger, s.ledger + "-wal", s.ledger + "-shm", s.policy} {
		os.Chmod(file, 0o444)
	}
	os.Chmod(s.dir, 0o555)
	defer os.Chmod(s.dir, 0o755)

	cmd := exec.Command(program, append([]string{"run", "--kind", "post", "--key", "k1"}, s.curl("hello")...)...)
	asNobody(cmd)
	r := s.startAs(cmd).finish()
	need.That(t, r.Exit != 0 && r.Exit != 106 && len(r.Err) >= 20 && !strings.Contains(r.Err, "panic"),
		"exit %d, said %q", r.Exit, r.Err)
	if n := len(s.down.Requests()); n != 0 {
		t.Errorf("I1: %d requests were sent without a record", n)
	}
}

// The same with a disk that is full.
func TestI1_E2E_AFullDisk(t *testing.T) {
	need.Program(t, "curl")
	s := newSite(t)
	disk := filepath.Join(s.dir, "disk")
	need.OK(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("mounting a small file system is not allowed here: %v", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	s.ledger = filepath.Join(disk, "ledger.db")
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger)
	s.must(0, "init")
	if r := s.run("post", "k1", s.curl("fits")); r.Exit != 0 {
		t.Fatalf("while there is room: exit %d\n%s", r.Exit, r.Err)
	}
	filler, err := os.Create(filepath.Join(disk, "filler"))
	need.OK(t, err)
	for block := make([]byte, 4096); err == nil; _, err = filler.Write(block) {
	}
	filler.Close()

	refused := 0
	for i := range 40 { // what room the ledger had in its own files is used up first
		r := s.run("post", fmt.Sprintf("full-%d", i), s.curl(fmt.Sprintf("full-%d-", i)))
		if r.Exit == 0 {
			continue
		}
		refused++
		said := r.Status.Error.Message
		need.That(t, len(said) >= 20 && !strings.Contains(r.Err, "panic"), "exit %d, said %q%s", r.Exit, said, r.Err)
	}
	need.Must(t, refused != 0, "the disk never was full")
	os.Remove(filepath.Join(disk, "filler"))
	recorded := map[string]bool{}
	for _, op := range s.list() {
		recorded[op.Token] = true
	}
	for _, q := range s.down.Requests() {
		known := false
		for token := range recorded {
			known = known || strings.Contains(q.Body, token)
		}
		need.That(t, q.Method != "POST" || known, "I1: sent without a record: %s", q.Body)
	}
	if r := s.run("post", "k1", s.curl("fits")); r.Exit != 0 || s.effects("fits") != 1 {
		t.Errorf("with room again: exit %d, %d effects", r.Exit, s.effects("fits"))
	}
}
