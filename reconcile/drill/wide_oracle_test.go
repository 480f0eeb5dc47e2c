package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// whatHappened is the truth about an operation, from the market's journal alone.
type whatHappened struct {
	made, asked int // effects, and those that are what was asked
	ids         []string
}

func (u *wide) truthOf(w *wideWish) (h whatHappened) {
	for _, t := range u.down.of(w.op) {
		h.made++
		if !t.Other && !t.Edited {
			h.asked++
		}
		h.ids = append(h.ids, t.ID)
	}
	return h
}

// anybodys are the effects that are, or once were, what a kind that is safe to repeat
// wants, whichever operation made them.
func (u *wide) anybodys(w *wideWish) (ids []string) {
	u.down.mu.Lock()
	defer u.down.mu.Unlock()
	for _, t := range u.down.things {
		if t.To == w.to && (t.Amount == w.amount || slices.Contains(t.Were, w.amount)) {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// neverWrong compares what is settled, and every verdict, with what really happened.
func (u *wide) neverWrong(when string) {
	u.Helper()
	recs, err := u.store.Records(u.ctx, ledger.Each(u.wishes, func(w *wideWish) string { return w.op }))
	u.must(err, "read all")
	for i, w := range u.wishes {
		rec := recs[i]
		if rec.Operation.Version+int64(len(rec.Reads)) == w.seq {
			continue
		}
		w.seq = rec.Operation.Version + int64(len(rec.Reads))
		if why := u.wrong(w, rec); why != "" {
			u.fail("%s: %s %s (key %q, token %q sent %v, %s %d, word %q, risks %d) is %s %q: %s\n%+v\nread: %s\nmade: %+v", when, w.name, w.op, w.key, w.token, w.sent, w.to, w.amount, w.word, w.risks,
				rec.Operation.State, rec.Operation.Conflict, why, w.form, reasons(rec), u.down.of(w.op))
		}
	}
}

// wrong says what is against the truth; "" when nothing is.
func (u *wide) wrong(w *wideWish, rec ledger.Record) string {
	o, h := rec.Operation, u.truthOf(w)
	there := h.made > 0
	ours := h.ids
	if w.idempotent {
		same := u.anybodys(w)
		there, ours = there || len(same) > 0, append(ours, same...)
	}
	lied := w.idempotent && h.made == 0 || // there, but not by it: its own refusal disagrees
		w.word == ledger.VerbConfirm && h.made == 0 || (w.word == ledger.VerbDeny || w.word == ledger.VerbAbandon) && h.made > 0
	switch {
	case o.State == ledger.Committed && !there && w.word != ledger.VerbConfirm:
		return "it did not happen"
	case o.State == ledger.Committed && !o.ByAnswer && w.same && !w.idempotent && h.made > 0 && h.asked == 0 && !w.touched && w.word != ledger.VerbConfirm && h.made < 2:
		return "something else happened"
	case o.State == ledger.Failed && h.made > 0 && w.word != ledger.VerbDeny && !w.touched:
		return "it happened"
	case o.State == ledger.Abandoned && w.word != ledger.VerbAbandon:
		return "it was not abandoned"
	case o.Conflict == ledger.ConflictTwice && h.made < 2 && !w.idempotent:
		return fmt.Sprintf("it happened %d times", h.made)
	case o.Conflict == ledger.ConflictDifferent && h.asked == h.made && !(w.touched && u.down.reuses):
		return "nothing else happened"
	case o.Conflict == ledger.ConflictDisputed && w.words == 0 && !lied && !w.touched && h.made < 2: // of two, one may have been out of sight
		return "nothing disagrees: " + o.ConflictNote
	case h.made > 1 && !w.twice && w.risks == 0 && !w.idempotent && !w.touched:
		return "it was sent again without need"
	}
	for _, r := range o.Receipts {
		if !slices.Contains(ours, r) {
			return "receipt " + r + " is not of it"
		}
	}
	for _, r := range rec.Reads {
		switch {
		case w.by() == "" && r.Verdict != ledger.CannotTell:
			return "a check that recognises nothing says " + string(r.Verdict) + ": " + r.Reason
		case w.by() == "state" && r.Verdict != ledger.CannotTell && r.Verdict != ledger.Landed:
			return "a state says " + string(r.Verdict) + ": " + r.Reason
		case r.Verdict == ledger.Landed && !there:
			return "a check says that it landed: " + r.Reason
		case r.Verdict == ledger.NotThere && h.made > 0 && !w.touched && len(w.attempts) == 1 && o.AttemptCount == 1:
			return "a check says that it did not land: " + r.Reason
		case r.Verdict == ledger.Twice && h.made < 2 && !w.idempotent:
			return "a check says that it landed twice: " + r.Reason
		case r.Verdict == ledger.Different && h.made == h.asked && !(w.touched && u.down.reuses):
			return "a check says that something else landed: " + r.Reason
		}
	}
	return u.sentWithoutLeave(w, rec)
}

// sentWithoutLeave looks for a transmission that nothing had allowed.
func (u *wide) sentWithoutLeave(w *wideWish, rec ledger.Record) string {
	for i, a := range rec.Attempts {
		switch {
		case i == 0:
		case a.Basis == "":
			return fmt.Sprintf("attempt %d has no basis", a.N)
		case a.Basis != ledger.BasisProof && a.AllowID == "":
			return fmt.Sprintf("attempt %d has no permission", a.N)
		}
	}
	u.down.mu.Lock()
	posts := u.down.posts[w.op]
	u.down.mu.Unlock()
	if posts+len(w.attempts) > len(rec.Attempts) {
		return fmt.Sprintf("%d transmissions, %d attempts", posts+len(w.attempts), len(rec.Attempts))
	}
	return ""
}

// allKnown says, from what really happened and from the design, how what can be
// known must stand after the market was well for long enough.
func (u *wide) allKnown() (settled, open int) {
	u.Helper()
	for _, w := range u.wishes {
		state, conflict, known := u.known(w)
		if !known {
			open++
			continue
		}
		settled++
		rec := u.read(w)
		if o := rec.Operation; o.State != state || o.Conflict != conflict {
			u.fail("%s %s is %s %q; it can be known to be %s %q\n%+v\nread: %s\nmade: %+v", w.name, w.op, o.State, o.Conflict, state, conflict, w.form, reasons(rec), u.down.of(w.op))
		}
	}
	return settled, open
}

// known is what the design promises to find out: what one attempt made that
// carried its token, by a search for this; and that it made nothing, where both
// bounds are stated, the list is whole, and the check finds others, before it and after it.
func (u *wide) known(w *wideWish) (ledger.State, ledger.Conflict, bool) {
	rec, h := u.read(w), u.truthOf(w)
	o := rec.Operation
	switch {
	case o.ByAnswer && h.made == 1:
		return ledger.Committed, ledger.NoConflict, w.words == 0 && !w.touched && h.asked == 1 && o.AttemptCount == 1
	case w.words > 0, w.touched, w.leftover, u.deleted, w.idempotent, o.AttemptCount != 1, o.PersonOnly && o.State == ledger.Uncertain && o.Verdict != ledger.Different:
		return "", "", false
	case w.forgets && u.now().Sub(o.StartedAt) > wideForgets-wideLands-wideVisible:
		return "", "", false
	case w.window == "attempt" && u.down.off < 0:
		return "", "", false // the market's clock puts it before the window
	case w.by() == "", w.by() == "state", u.down.echoes && w.carries():
		return "", "", false
	case u.down.silent && w.search != "blind-ref" && w.by() != "name":
		return "", "", false // nothing shows whose it is
	case w.exact() && (h.made > 1 || u.down.deaf || u.down.match != "exact"):
		return "", "", false // it shows one, and perhaps another's
	case w.by() == "key" || w.by() == "name":
		return ledger.Committed, ledger.NoConflict, h.made == 1 && h.asked == 1 && u.alone(w)
	case w.token == "", w.search == "blind-ref" && (u.down.match == "word" || u.down.deaf):
		return "", "", false
	case h.made == 1 && h.asked == 0 && w.same:
		return ledger.Uncertain, ledger.ConflictDifferent, w.paging != "offset" // there might be more
	case h.made == 1:
		return ledger.Committed, ledger.NoConflict, true
	case h.made > 1:
		return ledger.Committed, ledger.ConflictTwice, true
	case !o.Doubted:
		return ledger.Failed, ledger.NoConflict, true
	case w.carries() && (u.down.deaf || u.down.match != "exact"):
		return "", "", false // it shows others, and perhaps not all
	case w.window == "attempt":
		return "", "", false // it shows nothing that was before it, unless by a clock that is ahead
	case !w.bounded, !w.sent, w.paging == "offset", !u.between(w):
		return "", "", false
	}
	return ledger.Failed, ledger.NoConflict, true
}

// alone reports whether no other operation can have made what has the name or the key.
func (u *wide) alone(w *wideWish) bool {
	if w.by() == "name" && (w.rivalled || u.down.off < 0 || u.stepped) { // to a slow clock its own look older, too
		return false
	}
	for _, other := range u.wishes {
		if other != w && (w.by() == "key" && other.key == w.key || w.by() == "name" && other.to == w.to) {
			return false
		}
	}
	return true
}

// between reports whether others of the kind, before it and after it, are there for its check
// to find.
func (u *wide) between(w *wideWish) bool {
	tokens := []string{w.token}
	settled := map[string]time.Time{}
	for _, other := range u.wishes {
		o := u.read(other).Operation
		if other.name == w.name && o.ByAnswer && o.State == ledger.Committed && o.Conflict == ledger.NoConflict && o.Source.Pipeline != "" &&
			other.sent && other.token != "" && !other.touched && o.AttemptCount == 1 && !w.forgets {
			tokens = append(tokens, other.token)
			settled[other.op] = o.SettledAt
		}
	}
	of, err := u.store.Siblings(u.ctx, ledger.SiblingQuery{Kind: w.name, Tokens: tokens, Limit: len(tokens)})
	u.must(err, "read their places in the history")
	own := of[slices.IndexFunc(of, func(b ledger.Sibling) bool { return b.ID == w.op })]
	asks := w.carries() || w.exact() // for an older one, which it picks by the clock
	began := u.read(w).Operation.StartedAt
	return slices.ContainsFunc(of, func(b ledger.Sibling) bool {
		return b.Ended < own.Began && (!asks || settled[b.ID].Before(began))
	}) &&
		slices.ContainsFunc(of, func(b ledger.Sibling) bool { return b.Began > own.Ended })
}

// shares tells of the operations that never happened what they were found to be, by how many
// there are of their kind in a world of two minutes.
type shares struct {
	mu sync.Mutex
	of map[int]map[string]int
}

func (s *shares) count(u *wide) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := map[string]int{}
	for _, w := range u.wishes {
		kinds[w.name]++
	}
	for _, w := range u.wishes {
		rec := u.read(w)
		o := rec.Operation
		if !o.Doubted || w.words > 0 || o.AttemptCount != 1 || u.truthOf(w).made > 0 || u.deleted {
			continue
		}
		of, found := kinds[w.name], "cannot tell"
		switch {
		case o.State == ledger.Failed:
			found = "not there"
		case len(rec.Reads) > 0 && rec.Reads[0].Verdict == ledger.NotSeen:
			found = "not seen"
		}
		if s.of == nil {
			s.of = map[int]map[string]int{}
		}
		if s.of[of] == nil {
			s.of[of] = map[string]int{}
		}
		s.of[of][found]++
	}
}

func (s *shares) String() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(s.of)) {
		fmt.Fprintf(&b, "\n%3d of the kind: %v", n, s.of[n])
	}
	return b.String()
}
