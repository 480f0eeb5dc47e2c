//go:build soak

package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// bulk is what the tests look at of a bulk run.
type bulk struct {
	ID, State, Why string
	Size, Left     int
	Tally          map[string]int
	Items          []struct{ Operation, Came, By string }
}

func (s *site) bulks() []bulk {
	s.Helper()
	var data struct{ Runs []bulk }
	r := s.must(0, "runs", "--all", "--json")
	if err := json.Unmarshal(r.Status.Data, &data); err != nil {
		s.Fatalf("runs: %v\n%s", err, r.Out)
	}
	return data.Runs
}

func (s *site) bulk(id string) (b bulk) {
	s.Helper()
	r := s.must(0, "runs", id, "--json")
	if err := json.Unmarshal(r.Status.Data, &b); err != nil {
		s.Fatalf("runs: %v\n%s", err, r.Out)
	}
	return b
}

// rows are operations in doubt whose first attempt had no effect.
func (s *site) doubts(n int) (ops []operation) {
	for i := range n {
		ops = append(ops, s.doubtful("charge", fmt.Sprint("k", i), strings.Replace(chargeInput, "cus_9", fmt.Sprint("cus_", i), 1), "--token-sent"))
	}
	return ops
}

// killedAt waits until a run of the ledger has done so many, and kills its driver.
func (s *site) killedAt(done int, cmd *exec.Cmd) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d items are done", done), func() bool {
		all := s.bulks()
		return len(all) == 1 && (all[0].Size-all[0].Left >= done || all[0].State != "running")
	})
	cmd.Process.Kill()
	cmd.Wait()
}

// accounted: every row is sent at most once and accounted for exactly once.
func (s *site) accounted(ops []operation) {
	s.Helper()
	all := s.bulks()
	need.Must(s, len(all) == 1, "%d runs", len(all))
	id := all[0].ID
	for turn := 0; s.bulk(id).State != "done"; turn++ {
		if turn > 2*len(ops) {
			s.Fatalf("it never ends: %+v", s.bulk(id))
		}
		s.do("runs", "resume", id, "--as", "sam")
	}
	run, sum, of := s.bulk(id), 0, map[string]string{}
	for _, it := range run.Items {
		of[it.Operation] = it.Came
	}
	for _, n := range run.Tally {
		sum += n
	}
	need.Must(s, run.Size == len(ops) && len(of) == len(ops) && sum == len(ops) && run.Left == 0,
		"not accounted for: %+v", run)
	for _, op := range ops {
		came, effects, attempts := of[op.ID], s.effects(op.Token), len(s.show(op.ID).Attempts)
		switch {
		case attempts > 2:
			s.Errorf("%s: %d attempts", op.Key, attempts)
		case came == "landed" && effects != 1, came == "unclear" && effects > 1:
			s.Errorf("%s is %s with %d effects", op.Key, came, effects)
		case came == "moved" && (effects != 0 || attempts != 1): // a check has proven something meanwhile
			s.Errorf("%s is left out with %d effects, %d attempts", op.Key, effects, attempts)
		case came == "failed" && effects == 0: // killed between its intent and its send; a check has proven that nothing is there
		case came != "landed" && came != "unclear" && came != "already" && came != "moved":
			s.Errorf("%s came to %s with %d effects\n%s\n%s", op.Key, came, effects, s.must(0, "show", op.ID).Out, s.must(0, "log", op.ID).Out)
		}
	}
}

// A command that sends is killed, and so is the one that goes on with its run.
func TestI10_E2E_ARunWhoseDriverIsKilledGoesOnElsewhere(t *testing.T) {
	s := newSite(t)
	ops, args := s.doubts(12), []string{"retry", "--reason", "outage over", "--yes"}
	for _, op := range ops {
		args = append(args, seen(op))
	}
	early, late := 1+rand.IntN(4), 5+rand.IntN(3)
	t.Logf("killed when %d are done, and when %d are", early, late)
	first := s.start(args...)
	s.killedAt(early, first.cmd)
	id := s.bulks()[0].ID
	second := s.start("runs", "resume", id, "--as", "sam")
	s.killedAt(late, second.cmd)
	s.accounted(ops)
	out := s.must(0, "log", "--json", "--limit", "1000").Out
	need.Contains(t, out, `"verb":"run"`, id)
}

// tty is the program on a terminal that a test types on.
type tty struct {
	*testing.T
	cmd  *exec.Cmd
	keys func(string)
	mu   sync.Mutex
	seen strings.Builder
}

func (s *site) tty(args ...string) *tty {
	s.Helper()
	c := &tty{T: s.T, cmd: s.command(args...)}
	c.cmd.Env, c.cmd.Dir = append(s.env, "TERM=xterm-256color"), s.dir
	f := need.Get(pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 40, Cols: 120}))(s)
	s.Cleanup(func() { c.cmd.Process.Kill(); f.Close() })
	c.keys = func(text string) { f.WriteString(text) }
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			c.mu.Lock()
			c.seen.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

// shows waits until the terminal was sent a text, and a person has read it.
func (c *tty) shows(text string) {
	c.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		c.mu.Lock()
		seen := c.seen.String()
		c.mu.Unlock()
		if strings.Contains(seen, text) {
			break
		}
		if time.Now().After(until) {
			c.Fatalf("it never showed %q:\n%s", text, ansi.Strip(seen))
		}
	}
	time.Sleep(700 * time.Millisecond)
	c.mu.Lock()
	c.seen.Reset()
	c.mu.Unlock()
}

// A console is killed in the middle of a run that was begun on the page of an outage;
// another one, of another person, shows the run and goes on with it.
func TestI10_E2E_AConsoleKilledInTheMiddleOfARun(t *testing.T) {
	s := newSite(t)
	there := s.doubtful("charge", "there", chargeInput, "--token-sent") // a check of the same customer that finds it sees
	(&arena{site: s}).send(s.down.URL()+"/v1/payment_intents", "there", strings.TrimSuffix(chargeInput, "}")+`,"metadata":{"indoubt":"`+there.Token+`"}}`)
	s.must(0, "check", there.ID)
	var ops []operation
	for i := range 9 { // they are one outage
		ops = append(ops, s.doubtful("charge", fmt.Sprint("k", i), strings.Replace(chargeInput, "42000", fmt.Sprint(42001+i), 1), "--token-sent"))
	}
	s.eventually("they are proven not to have landed", func() bool {
		s.do("check") // looks for outages, too
		return strings.Contains(s.must(0, "outage", "list", "--json").Out, `"not_landed":{"n":9,`)
	})
	vera := s.tty("--as", "vera", "downstream:stripe")
	vera.shows("WHAT TO DO")
	vera.keys("R")
	vera.shows("Type 9")
	for _, text := range []string{"9", "\t", "\r"} {
		vera.keys(text)
		time.Sleep(100 * time.Millisecond)
	}
	vera.shows("G go on with 6")
	vera.keys("G")
	s.killedAt(4, vera.cmd)
	left := s.bulks()[0]
	if left.Left == 0 { // it was quicker than the kill
		s.accounted(ops)
		return
	}
	sam := s.tty("--as", "sam")
	if left.State == "running" {
		sam.shows("broken off")
	} else {
		sam.shows("p look")
	}
	sam.keys("p")
	sam.shows("G go on with")
	sam.keys("G")
	s.eventually("the other console has driven it", func() bool { return s.bulks()[0].Left <= 3 || s.bulks()[0].State != "running" })
	sam.cmd.Process.Kill()
	s.accounted(ops)
}
