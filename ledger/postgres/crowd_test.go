//go:build soak

package postgres

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// players is how many processes play on one ledger, each on eight connections.
const (
	players = 4
	seats   = 8
)

// turn is what a player is asked to play, and played what came of it.
type (
	turn struct {
		Player, Round, Moves int
		Seed                 uint64 // 0: one key for each two seats
	}
	played struct {
		Calls        []ledgertest.Call
		Acknowledged []string
		Error        string
	}
)

// play plays each turn that it is given on eight connections at once.
func play(url string) error {
	s, err := Open(ctx, with(url, fmt.Sprint("pool_max_conns=", seats)), Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	out := json.NewEncoder(os.Stdout)
	for in := json.NewDecoder(os.Stdin); ; {
		var t turn
		switch err := in.Decode(&t); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		var p played
		for seat := range seats {
			all.Go(func() {
				calls, made, err := t.take(s, seat)
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

func (t turn) take(s *Store, seat int) (calls []ledgertest.Call, made []string, err error) {
	client := t.Player*seats + seat
	if t.Seed == 0 {
		calls, err = ledgertest.PlayKey(s, fmt.Sprintf("round-%d-%d", t.Round, seat/2), client, func() int64 { return int64(hostclock.Steady().At) })
		return calls, nil, err
	}
	made, err = ledgertest.Mill(s, fmt.Sprintf("client-%d-%d", t.Round, client), t.Moves, rand.New(rand.NewPCG(t.Seed, uint64(client))))
	return nil, made, err
}

// crowdOf starts the players, and returns how one turn of all of them is taken.
func crowdOf(t *testing.T, url string) func(turn) played {
	t.Helper()
	var ins []*json.Encoder
	var outs []*json.Decoder
	for range players {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), "INDOUBT_TEST_PLAYS="+url), os.Stderr
		out, in := need.Get(cmd.StdoutPipe())(t), need.Get(cmd.StdinPipe())(t)
		need.OK(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("a player: %v", err)
			}
		})
		ins, outs = append(ins, json.NewEncoder(in)), append(outs, json.NewDecoder(bufio.NewReader(out)))
	}
	return func(round turn) (all played) {
		t.Helper()
		for i, in := range ins {
			round.Player = i
			need.OK(t, in.Encode(round))
		}
		for _, out := range outs {
			var p played
			need.OK(t, out.Decode(&p))
			need.That(t, p.Error == "", "round %d: %s", round.Round, p.Error)
			all.Calls, all.Acknowledged = append(all.Calls, p.Calls...), append(all.Acknowledged, p.Acknowledged...)
		}
		return all
	}
}

// I3, I8: 32 connections of four processes begin and settle the same keys; some order of
// their calls explains every answer. Then they make random changes of the same
// operations; no acknowledged one is lost or made twice, and all that is counted adds up.
// INDOUBT_CROWD_ROUNDS says how long.
func TestI3_FourProcessesPlay(t *testing.T) {
	rounds := need.Get(strconv.Atoi(cmp.Or(os.Getenv("INDOUBT_CROWD_ROUNDS"), "3")))(t)
	url := made(t)
	crowd := crowdOf(t, url)
	for round := range rounds {
		keys := map[string][]ledgertest.Call{}
		for _, c := range crowd(turn{Round: round}).Calls {
			keys[c.Key] = append(keys[c.Key], c)
		}
		need.Equal(t, len(keys), seats/2)
		for _, calls := range keys {
			need.OK(t, ledgertest.Explained(calls))
		}
	}
	seed := rand.Uint64() | 1
	var acknowledged []string
	for round := range rounds {
		acknowledged = append(acknowledged, crowd(turn{Round: round, Seed: seed + 2*uint64(round), Moves: 20}).Acknowledged...)
	}
	s := opened(t, url, Options{})
	if err := ledgertest.Milled(s, acknowledged); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if found := need.Get(s.Deviations(ctx))(t); len(found) > 0 {
		t.Errorf("seed %d: %+v", seed, found)
	}
	need.That(t, len(acknowledged) >= rounds*players*seats, "seed %d: only %d changes", seed, len(acknowledged))
	t.Logf("seed %d: %d changes: %s", seed, len(acknowledged), strings.TrimSpace(strings.ReplaceAll(psql(t, url, `SELECT verb, count(*) FROM indoubt.events GROUP BY 1 ORDER BY 1`), "\n", ", ")))
}
