package ledger

import (
	"fmt"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// I10: a driver that died before it could say what its last send came to has stopped the run
// with it, or lets it wait for a person, as if it had said so. A person's decision goes on.
func TestI10_WhatADeadDriverHadSentStopsItsRun(t *testing.T) {
	maya, now := Actor{Name: "maya", Terminal: true}, time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		came []Outcome
		want RunState
	}{
		"one landed":             {[]Outcome{OutcomeCommitted}, RunRunning},
		"the first is in doubt":  {[]Outcome{OutcomeUncertain}, RunStopped},
		"the third failed":       {[]Outcome{OutcomeCommitted, OutcomeCommitted, OutcomeFailed}, RunStopped},
		"three landed":           {[]Outcome{OutcomeCommitted, OutcomeCommitted, OutcomeCommitted}, RunWaiting},
		"behind them, one is in": {[]Outcome{OutcomeCommitted, OutcomeCommitted, OutcomeCommitted, OutcomeUncertain}, RunWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			var items []RunItem
			for n := range 6 {
				items = append(items, RunItem{N: n, OperationID: fmt.Sprint("op", n), Version: 2, Kind: "charge"})
			}
			_, e, err := DecisionRun{ID: "run", Verb: "retry", Actor: maya}.Recorded(items, now)
			need.OK(t, err)
			e.Seq, e.At = 1, now
			read := func(about ...Event) (DecisionRun, []RunItem) {
				r, set, err := RunBegun(e)
				need.OK(t, err)
				fates := map[string]RunFate{}
				for n, o := range c.came {
					sent := Event{ID: set[n].Change, Seq: int64(n) + 2, OperationID: set[n].OperationID, Verb: "retry"}
					fates[set[n].Change] = RunFate{Event: sent, Attempt: &Attempt{Outcome: o}}
				}
				r.Account(set, about, fates, now)
				return r, set
			}
			r, set := read()
			need.Equal(t, r.State, c.want)
			need.Equal(t, r.Stands(e).State, c.want)
			drive := RunDrive{Actor: maya, Holder: "c", Seen: now, Next: NextItem(set, -1)}
			change, err := drive.Rule(&RunRecord{Run: r.Stands(e), Now: now})
			need.That(t, err == nil && (change.Run != nil) == (c.want == RunRunning), "carried on by itself: %+v, %v", change.Run, err)
			drive.Decided = true
			change, err = drive.Rule(&RunRecord{Run: r.Stands(e), Now: now})
			need.Must(t, err == nil && change.Event != nil, "%v", err)
			change.Event.Seq, change.Event.At = 10, now.Add(time.Minute)
			r, _ = read(*change.Event)
			need.Equal(t, r.State, RunRunning)
			need.Equal(t, len(c.came), r.Done())
		})
	}
}
