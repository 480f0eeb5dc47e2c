package ticket

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/ui/safe"
)

// Done is advised where nothing is to be done.
const Done = "done"

// Advice is the advised act, one of the policy's or Done, and why.
func (t Ticket) Advice() (verb string, why safe.Text) {
	o, a := &t.Record.Operation, t.Facts.Advice
	switch state := t.State(); {
	case state == ledger.Pending:
		return advice.Wait, safe.Say("its attempt ends by %s", t.at(o.DeadlineAt))
	case o.Conflict != ledger.NoConflict:
		return advice.Look, t.putRight()
	case state == ledger.Abandoned:
		return Done, safe.Say("nothing to do: it will not be sent. U restores what it was")
	case o.Moved != "":
		return Done, safe.Say("nothing to do")
	case state == ledger.Committed:
		return Done, safe.Say("nothing to do. U undoes it")
	}
	verb, why = cmp.Or(a.Verb, advice.Look), safe.Exact(a.Reason)
	if a.Verb == advice.Leave && t.State() == ledger.Uncertain {
		why = safe.Say("%s. %s", why, t.leaveEnds())
	}
	return verb, why
}

// SameAgain says what its caller is told that asks again, once a person denied or abandoned it.
func (t Ticket) SameAgain() safe.Text {
	said, o := safe.Say("the same again is refused for good"), &t.Record.Operation
	switch {
	case o.NamedByInput():
		said = safe.Say("the same again is refused for a day after it was sent")
	case o.TTL > 0:
		said = safe.Say("the same again is refused for %s", Age(o.TTL))
	}
	if t.Facts.Replaces {
		return safe.Say("%s, or until another one has its target", said)
	}
	return said
}

// HowTo says with which keys the advice is taken, line by line.
func (t Ticket) HowTo() []safe.Text {
	say, o := safe.Say, &t.Record.Operation
	verb, _ := t.Advice()
	switch verb {
	case advice.Look:
		if o.Conflict != ledger.NoConflict {
			return nil
		}
		return []safe.Text{t.WhereToLook(), say("one    C, paste its receipt"), say("none   X asks how you know; a look is no proof"), say("two    C, paste both: it becomes HAPPENED TWICE")}
	case advice.Retry:
		return []safe.Text{say("R shows exactly what would be sent, and asks")}
	case advice.Confirm:
		return []safe.Text{say("C records that it landed; nothing is sent")}
	case advice.Abandon:
		if (later{t}).came() {
			return []safe.Text{say("A ends it: no one sends it any more. What landed instead stays")}
		}
		return []safe.Text{say("A records that it stays undone; nothing is sent")}
	case advice.Wait:
		switch {
		case t.State() == ledger.Pending:
			return nil
		case t.Record.OpenAllowed() != nil:
			return []safe.Text{say("it may send once when it asks next; a decision here before takes that back")}
		}
		return []safe.Text{say("checks go on by themselves; deciding now would be a guess")}
	}
	return nil
}

// leaveEnds says what ends an operation that is left as it is.
func (t Ticket) leaveEnds() safe.Text {
	if t.Facts.HasRead && t.Facts.Unasked == "" && t.Record.Pricing.ReadAt.Before(ledger.Never) {
		return safe.Say("A ends it, or a check that finds it; P parks it")
	}
	return safe.Say("Only you end it: A, or C and X if you learn more; P parks it")
}

// WhereToLook says where to look it up, what to search for and from which time on.
func (t Ticket) WhereToLook() safe.Text {
	w, o := t.Facts.Advice.Where, &t.Record.Operation
	text := safe.Say("Search %s", cmp.Or(o.Title, o.Kind))
	if n := len(w.Search); n > 0 {
		text = safe.Say("Search %s", w.Search[0])
		if n > 1 {
			text = safe.Say("%s, or %s", text, w.Search[n-1])
		}
	}
	from := cmp.Or(w.From, o.StartedAt)
	switch {
	case from.IsZero():
	case w.To.IsZero():
		text = safe.Say("%s, since %s", text, t.at(from))
	default:
		text = safe.Say("%s, from %s to %s", text, t.at(from), t.at(w.To))
	}
	if link := cmp.Or(w.Link, t.Facts.Link); link != "" {
		text = safe.Say("o opens %s. %s", link, text)
	}
	return text
}

// Clocks are all moments that change something, and whether one of them is so
// near that its countdown changes every second.
func (t Ticket) Clocks() (texts []safe.Text, ticks bool) {
	o := &t.Record.Operation
	in := func(at time.Time) string {
		d := at.Sub(t.Now)
		ticks = ticks || d < 10*time.Minute
		return Span(d)
	}
	switch t.State() {
	case ledger.Committed, ledger.Abandoned:
		return nil, false // no clock runs
	case ledger.Pending:
		return []safe.Text{safe.Say("its attempt ends by %s, in %s", t.at(o.DeadlineAt), Span(o.DeadlineAt.Sub(t.Now)))}, true
	}
	switch c := (clocks{t, in}); {
	case later{t}.came():
		texts = append(texts, safe.Say("none: %s", later{t}.instead()))
	case t.State() == ledger.Uncertain:
		texts = append(append(texts, c.key()), c.checks()...)
	default:
		texts = append(texts, c.key())
	}
	if g := t.Record.OpenAllowed(); g != nil {
		texts = append(texts, safe.Say("one send allowed, waiting for %s, %s left", t.Pipeline(), in(g.ExpiresAt)))
	}
	return texts, ticks
}

// clocks are those of a doubt. in counts the time down to a moment.
type clocks struct {
	Ticket
	in func(time.Time) string
}

// key says until when the other side remembers the key.
func (c clocks) key() safe.Text {
	f := c.Facts
	switch {
	case !f.SafeUntil.Before(ledger.Never):
		return safe.Say("key: repeatable, a second send cannot act twice")
	case f.SafeUntil.After(c.Now):
		return safe.Say("key remembered until %s (%s): a second send cannot act twice", c.at(f.SafeUntil), c.in(f.SafeUntil))
	case f.Remembers > 0:
		return safe.Say("key: no longer remembered")
	}
	return safe.Say("key: never remembered")
}

// checks say when checks can tell something, and when a person must.
func (c clocks) checks() (out []safe.Text) {
	f, price := c.Facts, c.Record.Pricing
	switch {
	case !f.HasRead:
		out = append(out, safe.Say("proof: impossible, no check"))
	case f.ProofPossible && f.ProofAt.After(c.Now):
		out = append(out, safe.Say("proof in %s", c.in(f.ProofAt)))
	case f.ProofPossible:
		out = append(out, safe.Say("proof: from the next check on"))
	case c.Row.PersonOnly:
		out = append(out, safe.Say("proof: none, only a person settles it"))
	case c.Record.LostCommand():
		out = append(out, safe.Say("proof: none, a command that was lost may still write"))
	default:
		out = append(out, safe.Say("proof: impossible, the policy states no times"))
	}
	doubted := c.Record.Operation.DoubtedAt
	if d := price.DecideAt; d.After(c.Now) && d.Before(ledger.Never) {
		out = append(out, safe.Say("needs you in %s", c.in(d)))
	} else if d.Before(ledger.Never) && !doubted.IsZero() {
		out = append(out, safe.Say("needs you for %s", Age(c.Now.Sub(cmp.Or(d, doubted)))))
	}
	if r := price.ReadAt; f.HasRead && r.Before(ledger.Never) && !r.IsZero() {
		if r.After(c.Now) {
			out = append(out, safe.Say("next check in %s", c.in(r)))
		} else {
			out = append(out, safe.Say("next check now"))
		}
	}
	return out
}

// Policy says where the policy names the kind, whether it is checked and who sends it.
func (t Ticket) Policy() safe.Text {
	f := t.Facts
	where := safe.Say("no entry, defaults apply")
	if f.Pattern != "" {
		where = safe.Say("%s, %s:%d", f.Pattern, filepath.Base(f.File), f.Line)
	}
	check := "no check"
	if f.HasRead {
		check = "checked"
	}
	sends := safe.Say("sent by its pipeline")
	if f.Via != "" && f.Via != "pipeline" {
		sends = safe.Say("sent by %s", f.Via)
	}
	return safe.Say("%s · %s · %s · retry max %d", where, check, sends, f.RetryMax)
}

// Became says how an operation left a list: what it is now, since when, by whom.
func (t Ticket) Became() safe.Text {
	o, r := &t.Record.Operation, t.Row
	words := State(t.State())
	switch {
	case r.Parked(t.Now):
		words = "parked"
	case r.Conflict != ledger.NoConflict:
		words = strings.ToLower(Conflict(r.Conflict))
	case t.Lane() == ledger.LaneUnfetched:
		words = "send allowed"
	case t.Lane() == ledger.LaneReading:
		words = "checking"
	case t.Lane() == ledger.LaneDecide:
		words = "needs you"
	}
	if since := t.turned(); since.After(o.UpdatedAt) {
		return safe.Say("%s %s", words, since.In(t.Zone).Format("15:04")) // a clock did it
	}
	return safe.Say("%s %s, by %s", words, o.UpdatedAt.In(t.Zone).Format("15:04"), Who(ledger.Signer(o.Actor)))
}

// turned is when a clock last put a row where it stands; zero when none did.
func (t Ticket) turned() time.Time {
	r := t.Row
	switch {
	case r.State == ledger.Pending && t.State() == ledger.Uncertain:
		return r.DeadlineAt
	case !r.ParkedUntil.IsZero() && !r.Parked(t.Now):
		return r.ParkedUntil
	case t.Lane() == ledger.LaneDecide && !r.Pricing.DecideAt.After(t.Now):
		return r.Pricing.DecideAt
	}
	return time.Time{}
}

// What a person can have done besides writing a decision.
const (
	Retry ledger.Verb = "retry" // sent once more
	Check ledger.Verb = "check" // read at the other side
)

// Off says why a verb cannot be done about the operation as it stands; empty where
// it can.
func (t Ticket) Off(verb ledger.Verb) safe.Text {
	state := t.State()
	settles := verb == ledger.VerbConfirm || verb == ledger.VerbDeny
	who, _, _ := Settled(t)
	switch {
	case verb == Check && !t.Facts.unasked(t.Kind()).Empty():
		return t.Facts.unasked(t.Kind())
	case verb == ledger.VerbAck && t.Row.Conflict == ledger.NoConflict:
		return safe.Say("no conflict: nothing to deal with")
	case state == ledger.Pending && verb != ledger.VerbNote:
		return safe.Say("in flight until %s: its own answer comes first", t.at(t.Row.DeadlineAt))
	case state == ledger.Abandoned && (settles || verb == Retry || verb == ledger.VerbAbandon):
		return safe.Say("abandoned by %s. U restores it first", Who(who))
	case settles && state != ledger.Uncertain:
		return safe.Say("settled: %s, by %s. U puts it back in doubt first", State(state), Who(who))
	case verb == ledger.VerbAbandon && state == ledger.Committed:
		return safe.Say("it landed: there is nothing to abandon")
	case verb == ledger.VerbPark && t.Row.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned):
		return safe.Say("settled: it is out of the way already")
	case verb == ledger.VerbUndo && state == ledger.Uncertain:
		return safe.Say("nothing to undo: it is in doubt")
	case verb == ledger.VerbUndo && t.Record.Operation.Moved != "":
		return safe.Say("its history was moved to %s", t.Record.Operation.Moved)
	case verb == Retry:
		return t.offRetry()
	}
	return safe.Text{}
}

// unasked says why no check of this kind can be made; empty where one can.
func (f Facts) unasked(kind safe.Text) safe.Text {
	switch {
	case f.Unasked != "":
		return safe.Say("no check is possible: %s", f.Unasked)
	case !f.HasRead:
		return safe.Say("no check: the policy has no `read` for %s", kind)
	}
	return safe.Text{}
}

func (t Ticket) offRetry() safe.Text {
	if t.State() == ledger.Committed {
		return safe.Say("it landed: sending again would do it twice")
	}
	if gone := t.Record.Operation.Gone(); gone != "" {
		return safe.Say("%s: what it says is not kept", gone)
	}
	if h := t.Record.HeldBy(); h != nil {
		return safe.Say("held by %s: %s. H releases", Who(h.Actor.Name), h.Reason)
	}
	return safe.Text{}
}

func (t Ticket) WouldRetry() safe.Text {
	what := safe.Say("sends once more")
	if t.Facts.Via == "pipeline" {
		what = safe.Say("lets %s send once more", t.Pipeline())
	}
	switch t.Facts.Basis {
	case ledger.BasisProof, ledger.BasisKeySafe, ledger.BasisNotSeen:
		return safe.Say("%s: %s; one y", what, Because(t.Facts.Basis, ""))
	}
	return safe.Say("%s at own risk: a reason, and type %s", what, Quoted(ToType(t.Facts.Advice.Duplicate)))
}

// Candidates are the receipts that the newest check showed without being able to
// tell whose they are, as they are written.
func (t Ticket) Candidates() []string {
	if len(t.Record.Reads) == 0 {
		return nil
	}
	switch r := t.Record.Reads[0]; r.Cause {
	case ledger.CauseUnidentified, ledger.CauseShared, ledger.CauseOlder:
		return r.Receipts
	}
	return nil
}
