package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Tree says whether a process that an attempt has started may still write.
type Tree string

const (
	// TreeNone: the attempt started no process, as far as the ledger knows.
	TreeNone Tree = ""
	// TreeOpen: it started a command, and not all of its processes are known to be
	// gone. Until they are, no read proves absence.
	TreeOpen Tree = "open"
	// TreeEmpty: all of them were seen to be gone.
	TreeEmpty Tree = "empty"
)

// Place is where an attempt's processes run. Only there can it be
// seen whether one of them is still running.
type Place struct {
	BootID       string `json:"boot_id,omitzero"` // of the running kernel; "" where unknown
	PIDNamespace string `json:"pid_ns,omitzero"`  // in which the attempt's PID is one, with its machine; "" where unknown
	UID          int    `json:"uid,omitzero"`     // account whose processes they are; 0 where only root can tell
}

// TreeRequest reports that all processes of an attempt are gone.
type TreeRequest struct {
	ChangeID, AttemptID string
	Reason              string // who saw it, and how
	Actor               Actor
}

// SeeTreeEmpty records that the processes of an attempt were seen to be gone
// now: its last transmission ended no later. It does not move the version,
// because it proves nothing by itself. A tree that is not open is left alone
// (Noop). Errors: ErrNotFound.
func SeeTreeEmpty(ctx context.Context, s Changer, r TreeRequest) (Applied, error) {
	return s.Change(ctx, Locator{AttemptID: r.AttemptID, Skip: AllParts}, r.ChangeID, func(rec *Record) (Change, error) {
		if !rec.Found {
			return Change{}, fmt.Errorf("attempt %s: %w", r.AttemptID, ErrNotFound)
		}
		a := *rec.Attempt(r.AttemptID)
		if a.Tree != TreeOpen {
			return Change{}, nil
		}
		a.emptied(rec)
		return Change{Attempts: []Attempt{a}, Event: treeEvent(r.ChangeID, a, r.Actor, r.Reason)}, nil
	})
}

// emptied notes that nothing of the attempt runs any more.
func (a *Attempt) emptied(rec *Record) {
	if a.Tree == TreeOpen {
		a.Tree, a.TreeAt = TreeEmpty, rec.Now
	}
}

func treeEvent(changeID string, a Attempt, by Actor, reason string) *Event {
	what := "its processes are gone"
	if a.Tree == TreeOpen {
		what = "another account's process of it may be left"
	}
	return &Event{ID: changeID, Verb: "tree", Actor: by, Reason: fmt.Sprintf("attempt %d: %s", a.N, cmp.Or(reason, what)),
		Detail: detail(map[string]any{"attempt": a.ID, "n": a.N, "tree": string(a.Tree)})}
}

// OpenTree is the first attempt that may have had an effect and whose processes
// were not seen to be gone, or nil. While there is one, finding nothing proves
// nothing (I6).
func (r *Record) OpenTree() *Attempt {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Tree == TreeOpen && a.Proof == "" && a.Final() != OutcomeCommitted {
			return a
		}
	}
	return nil
}

// seen takes over what an outcome says of the attempt's processes, and reports
// whether that is new.
func (a *Attempt) seen(rec *Record, req SettleRequest) bool {
	before := *a
	switch {
	case req.Tree == TreeEmpty:
		a.emptied(rec)
	case req.TreeForeign && a.Tree == TreeOpen:
		a.UID = 0
	}
	return a.Tree != before.Tree || a.UID != before.UID
}

// LostEnd is until when an attempt may have gone on that the ledger has lost, of which one
// may take this long, or as long as one that is known; zero where none can be lost. A read
// that began before it proves no absence (I6).
func (r *Record) LostEnd(deadline time.Duration) time.Time {
	if r.Gap.IsZero() || r.Operation.CreatedAt.After(r.Gap) {
		return time.Time{}
	}
	for _, a := range r.Attempts {
		took := a.DeadlineAt.Sub(a.StartedAt)
		if a.Sender == SenderForgotten { // it is the one that may be lost
			took = a.DeadlineAt.Sub(r.Gap)
		}
		deadline = max(deadline, took)
	}
	return r.Gap.Add(deadline)
}

// ProofLost reports whether an attempt may have come after the check that says this of it.
func (r *Record) ProofLost(says Verdict) bool {
	return !r.LostEnd(0).IsZero() && !slices.ContainsFunc(r.Reads, func(read Read) bool {
		return read.Verdict == says && read.BeganAt.After(r.LostEnd(0))
	})
}

// LostCommand reports whether a command may have been started that the ledger has lost: its
// processes cannot be looked for.
func (r *Record) LostCommand() bool { return r.Operation.Command != nil && !r.LostEnd(0).IsZero() }

// lastEnd is when the last transmission that may have had an effect is known to
// have ended. A read that began before it looked too early.
func lastEnd(rec *Record) time.Time {
	end := rec.Operation.EndedAt
	for _, a := range rec.Attempts {
		if a.Proof == "" && a.TreeAt.After(end) {
			end = a.TreeAt
		}
	}
	return end
}
