package ledgertest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
)

// Turn is what the players of a crowd are asked to play: random changes of a few
// operations (Moves), begins of one request under many keys (Begins), or gates.
type Turn struct {
	Seed                 uint64
	Player, Seats, Round int
	Moves, Begins        int
	Dies                 bool // between a begin and its settle
}

// Played is what came of it.
type Played struct {
	Calls        []Call
	Acknowledged []string
	Error        string
}

// Play is a player, in a process of its own: it plays each turn that it is given, on as many
// connections as it has seats.
func Play(s ledger.Store) error {
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	for in := json.NewDecoder(os.Stdin); ; {
		var t Turn
		switch err := in.Decode(&t); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var all sync.WaitGroup
		var p Played
		for seat := range t.Seats {
			all.Go(func() {
				calls, made, err := t.take(s, seat, func(calls []Call) {
					mu.Lock() // and for good
					p.Calls = append(p.Calls, calls...)
					_ = out.Encode(p)
					self, _ := os.FindProcess(os.Getpid())
					_ = self.Kill()
					select {}
				})
				mu.Lock()
				defer mu.Unlock()
				p.Calls, p.Acknowledged = append(p.Calls, calls...), append(p.Acknowledged, made...)
				if err != nil {
					p.Error = err.Error()
				}
			})
		}
		all.Wait()
		if err := out.Encode(p); err != nil {
			return err
		}
	}
}

func (t Turn) take(s ledger.Store, seat int, die func([]Call)) (calls []Call, made []string, err error) {
	client := t.Player*t.Seats + seat
	r := rand.New(rand.NewPCG(t.Seed, uint64(client)))
	tick := func() int64 { return int64(hostclock.Steady().At) }
	switch {
	case t.Moves > 0:
		made, err = Mill(s, fmt.Sprintf("client-%d-%d", t.Round, client), t.Moves, r)
	case t.Begins > 0:
		calls, err = CrowdGate(s, fmt.Sprintf("of-round-%d", t.Round), client, t.Begins, r, tick)
	default:
		if !t.Dies {
			die = nil
		}
		calls, err = PlayGate(s, fmt.Sprintf("gate-%d-%d", t.Round, client%2), client, r, tick, die)
	}
	return calls, made, err
}

// player is a process that plays.
type player struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end io.Closer
}

func newPlayer(t testing.TB, env []string) *player {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	out, in := need.Get(cmd.StdoutPipe())(t), need.Get(cmd.StdinPipe())(t)
	need.OK(t, cmd.Start())
	return &player{cmd, json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out)), in}
}

// Players starts n processes of the test binary, which call Play, and returns how one turn
// of all of them is taken. Of a turn in which they die, each fourth does, where it was told
// to send; another one takes its place.
func Players(t testing.TB, n int, env ...string) func(Turn) Played {
	t.Helper()
	all := make([]*player, n)
	for i := range all {
		all[i] = newPlayer(t, env)
	}
	t.Cleanup(func() {
		for _, p := range all {
			p.end.Close()
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("a player: %v", err)
			}
		}
	})
	return func(round Turn) (sum Played) {
		t.Helper()
		dies := round.Dies
		for i, p := range all {
			round.Player, round.Dies = i, dies && i%4 == 1
			need.OK(t, p.in.Encode(round))
		}
		for i, p := range all {
			var one Played
			need.OK(t, p.out.Decode(&one))
			need.That(t, one.Error == "", "round %d: %s", round.Round, one.Error)
			sum.Calls, sum.Acknowledged = append(sum.Calls, one.Calls...), append(sum.Acknowledged, one.Acknowledged...)
			if dies && i%4 == 1 { // unless it was never told to send
				p.end.Close()
				_ = p.cmd.Wait()
				all[i] = newPlayer(t, env)
			}
		}
		return sum
	}
}

// PlayedRight plays rounds of gates with n processes, some of which die, and one request
// that each of them begins a number of times under as many keys.
func PlayedRight(t testing.TB, n, rounds, begins int, env ...string) {
	seed := rand.Uint64()
	turns := Players(t, n, env...)
	answers := map[string]int{}
	for round := range rounds {
		gates := map[string][]Call{}
		for _, c := range turns(Turn{Seed: seed + uint64(round), Round: round, Seats: 1, Dies: true}).Calls {
			gates[c.Gate] = append(gates[c.Gate], c)
			answers[strings.TrimSpace(c.Does+" "+c.Answer)]++
		}
		for _, calls := range gates {
			need.OK(t, Explained(calls))
		}
	}
	crowded := time.Now()
	begun, doubts, err := Alone(turns(Turn{Seed: seed, Round: rounds, Seats: 1, Begins: begins}).Calls)
	need.OK(t, err)
	need.That(t, begun > 0 && answers["begin in_doubt"] > 0 && answers["passes"] > 0, "%v, and %d began: too few", answers, begun)
	t.Logf("seed %d, %d processes: %v; of %d begins of one request %d were told to send, %d ended in doubt (%s)",
		seed, n, answers, n*begins, begun, doubts, time.Since(crowded).Round(time.Millisecond))
}

// Crowd is how many processes play how many rounds, and begin one request how often: few in
// the slow lane. INDOUBT_CROWD_ROUNDS=20 is what was promised.
func Crowd(t testing.TB) (n, rounds, begins int) {
	few := "2"
	if Racing {
		few = "1"
	}
	rounds = need.Get(strconv.Atoi(cmp.Or(os.Getenv("INDOUBT_CROWD_ROUNDS"), few)))(t)
	return min(24, 8*rounds), rounds, 10 * rounds
}
