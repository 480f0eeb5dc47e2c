//go:build soak

package cli_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// A prune is killed at any point while others write, and given again: the history of each
// operation is in one file, whole, and its key is answered as before.
func TestI3_E2E_APruneIsKilled(t *testing.T) {
	const settled, enough = 2000, 60
	s := bareSite(t)
	s.writePolicy("version: 1\n")
	store := need.Get(open.Create(t.Context(), s.ledger, open.Options{}))(t)
	defer store.Close()
	actor := ledger.Actor{Name: "nightly", Machine: true}
	begin := func(key string) ledger.BeginResult {
		return need.Get(ledger.Begin(t.Context(), store, ledger.BeginRequest{
			ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Token: ledger.NewToken(),
			Kind: "note", Key: key, Fingerprint: key, Input: []byte(`{"to":"ada"}`), Deadline: time.Minute,
			Actor: actor, Sender: "pipeline"}))(t)
	}
	write := func(key string) {
		need.Get(ledger.Settle(t.Context(), store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: begin(key).Attempt.ID,
			Outcome: ledger.OutcomeCommitted, Receipt: "r-" + key, Status: -1, Actor: actor}))(t)
	}
	for n := range settled {
		write(fmt.Sprint("k", n))
	}
	time.Sleep(1100 * time.Millisecond) // --before is a second ago at the latest
	to, luck := filepath.Join(s.dir, "archive"), rand.New(rand.NewPCG(3, 6))
	need.OK(t, os.Mkdir(to, 0o700))
	kills := 0
	for n, more := 0, true; more; n++ {
		p := s.start("prune", "--before", "1s", "--to", to)
		ended := make(chan struct{})
		go func() { p.cmd.Wait(); close(ended) }()
		select {
		case <-ended:
			more = false
		case <-time.After(time.Duration(10+luck.IntN(60)) * time.Millisecond):
			if kills < enough {
				p.cmd.Process.Kill()
				kills++
			}
			<-ended
			write(fmt.Sprint("late", n))
		}
	}
	s.must(0, "prune", "--before", "1s", "--to", to)

	in := map[string]string{}
	for _, path := range need.Get(filepath.Glob(filepath.Join(to, "*")))(t) {
		if !strings.HasSuffix(path, ".jsonl.gz") {
			t.Errorf("%s is left", path)
			continue
		}
		file := need.Get(os.Open(path))(t)
		lines := bufio.NewScanner(need.Get(gzip.NewReader(file))(t))
		for lines.Scan() {
			var line struct {
				Op struct{ ID string }
				Ev []struct{ Verb string }
			}
			need.OK(t, json.Unmarshal(lines.Bytes(), &line))
			need.That(t, in[line.Op.ID] == "", "%s is in two files", line.Op.ID)
			need.That(t, len(line.Ev) == 2 && line.Ev[0].Verb == "begin" && line.Ev[1].Verb == "settle", "%s", lines.Text())
			in[line.Op.ID] = filepath.Base(path)
		}
		need.OK(t, lines.Err())
		file.Close()
	}
	need.That(t, len(in) >= settled, "%d of %d were moved", len(in), settled)
	for _, row := range s.rows(`SELECT o.id, substr(f.about, 6), (SELECT count(*) FROM ev e WHERE e.op = o.seq)
		FROM op o JOIN ev f ON f.seq = o.moved`) {
		need.That(t, in[row[0]] == row[1] && row[2] == "1", "%s is said to be in %s, and is in %q", row[0], row[1], in[row[0]])
		delete(in, row[0])
	}
	need.Equal(t, len(in), 0)
	for n := range settled {
		res := begin(fmt.Sprint("k", n))
		need.That(t, res.Answer == ledger.AnswerFinished && res.Operation.Moved != "", "%+v", res)
		need.Equal(t, res.Operation.Receipt(), fmt.Sprint("r-k", n))
	}
	t.Logf("%d kills", kills)
}
