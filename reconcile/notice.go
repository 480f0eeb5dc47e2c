package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/policy"
)

const (
	freshFor      = time.Hour // what is longer ago is history, and not told
	noticedAtMost = 50        // outages, those with the newest errors
	noticeRows    = 200       // operations
	noticeSearch  = 200 * time.Millisecond
)

// Notice is what people are told. Its key is the same in every engine, so that the
// ledger lets each be told once.
type Notice struct {
	Key   string
	Title string
	Kinds []string // that it is about; none: all
	Input NoticeInput
}

// NoticeInput is what a notifier's templates see of a notice.
type NoticeInput struct {
	Event     string `json:"event"`
	Notifier  string `json:"notifier"`
	Text      string `json:"text"`
	Open      string `json:"open"` // the command that opens the console there
	Ledger    string `json:"ledger"`
	Outage    string `json:"outage"`
	Operation string `json:"operation"`
	Where     string `json:"where"`
	N         int    `json:"n"` // errors of an outage, or operations
}

// event is how a notifier's being told of it stands in the history.
func (n Notice) event(notifier, host string) ledger.Event {
	n.Input.Notifier = notifier
	input, _ := json.Marshal(n.Input)
	return ledger.Event{ID: ledger.DeriveID(n.Key, "notify."+notifier), Verb: ledger.NoticeTold, Detail: input,
		Actor: ledger.Actor{Name: ledger.ActorNotify, Machine: true, Host: host}, Reason: "tell " + notifier + ": " + n.Title}
}

// noticeWriter puts notices into words.
type noticeWriter struct {
	pol  *policy.Policy
	path string // of the ledger
	now  time.Time
}

// notice begins one. filter is what the console is to be opened with.
func (w noticeWriter) notice(event, key, filter string) Notice {
	open := "indoubt --ledger " + ledger.ShellWord(w.path)
	if filter != "" {
		open += " " + filter
	}
	return Notice{Key: key + " " + event, Input: NoticeInput{Event: event, Open: open, Ledger: w.path}}
}

// say completes a notice by its sentence.
func (n Notice) say(format string, args ...any) Notice {
	n.Title = fmt.Sprintf(format, args...)
	n.Input.Text = n.Title + ". " + n.Input.Open
	return n
}

// account is the sum of an outage, and what may be lost.
func (w noticeWriter) account(in ledger.Outage) string {
	parts := []string{}
	for _, p := range []struct {
		fate ledger.Fate
		what string
	}{
		{ledger.FateLanded, "landed"}, {ledger.FateNotLanded, "did not land"}, {ledger.FateChecking, "being checked"},
		{ledger.FateOpen, "to look at"}, {ledger.FateRefused, "refused"}, {ledger.FateLeft, "left"},
	} {
		if n := in.Fates[p.fate].N; n > 0 {
			parts = append(parts, ledger.Count(n)+" "+p.what)
		}
	}
	text := fmt.Sprintf("%s errors: %s", ledger.Count(in.Errors()), strings.Join(parts, ", "))
	open := in.Unsettled()
	out := ledger.LeftOut(open.MissWords, open.Unpriced)
	switch {
	case open.Miss > 0 && out != "":
		out = w.pol.Money(open.Miss) + " without " + out
	case open.Miss > 0:
		out = w.pol.Money(open.Miss)
	}
	if out != "" {
		text += ". Not known to have landed: " + out
	}
	return text
}

// Outage is the notice of an event of an outage. since is from when no one has taken it.
func (w noticeWriter) Outage(event string, in ledger.Outage, since time.Time) Notice {
	at, detail, happened := in.FirstAt.UTC().Format("15:04 UTC"), "", ""
	switch event {
	case policy.NotifyOpened:
		happened = "an outage since " + at
	case policy.NotifyOver:
		detail, happened = stamp(in.LastAt), "the outage since "+at+" is over"
	case policy.NotifyUntaken: // once more, after the one who had it
		detail = stamp(in.TakenUntil)
		happened = "the outage since " + at + " needs a person, and no one has taken it for " + ledger.Brief(w.now.Sub(since))
	}
	n := w.notice(event, in.ID+" "+detail, "outage:"+in.ID)
	n.Kinds = in.Kinds
	n.Input.Outage, n.Input.Where, n.Input.N = in.ID, harmless(in.Where()), in.Errors()
	n = n.say("%s: %s", n.Input.Where, happened)
	n.Input.Text = n.Title + ". " + w.account(in) + ". " + n.Input.Open
	return n
}

// twice are the notices of what happened twice, or may have: one for each operation,
// and of an outage one for one, ten, a hundred of them.
func (w noticeWriter) twice(rows []ledger.Row) (out []Notice) {
	of := map[string][]ledger.Row{} // by what the console is opened with
	for _, r := range rows {
		if r.Conflict != ledger.ConflictTwice && r.Conflict != ledger.ConflictMaybeTwice {
			continue
		}
		filter := "id:" + r.ID
		if id := r.Outage(); id != "" {
			filter = "outage:" + id
		}
		of[filter] = append(of[filter], r)
	}
	for _, filter := range slices.Sorted(maps.Keys(of)) {
		rows, happened, operations := of[filter], "may have happened twice", "operations"
		if slices.ContainsFunc(rows, func(r ledger.Row) bool { return r.Conflict == ledger.ConflictTwice }) {
			happened = "happened twice"
		}
		n := w.notice(policy.NotifyTwice, fmt.Sprint(filter, " ", happened, " ", len(strconv.Itoa(len(rows)))), filter)
		if n.Kinds, n.Input.N = kindsOf(rows), len(rows); n.Input.N == 1 {
			n.Input.Operation, operations = rows[0].ID, "operation"
		}
		n.Input.Where = harmless(strings.Join(n.Kinds, ", "))
		out = append(out, n.say("%s: %s %s %s", n.Input.Where, ledger.Count(len(rows)), operations, happened))
	}
	return out
}

func kindsOf(rows []ledger.Row) []string {
	kinds := ledger.Each(rows, func(r ledger.Row) string { return r.Kind })
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// untaken is the notice of operations outside of outages that no one has touched.
// It is told again when another one has waited as long.
func (w noticeWriter) untaken(rows []ledger.Row) (Notice, bool) {
	since := func(r ledger.Row) time.Time { return waitsSince(r, w.now) }
	rows = slices.DeleteFunc(slices.Clone(rows), func(r ledger.Row) bool { return w.now.Before(since(r).Add(policy.UntakenAfter)) })
	if len(rows) == 0 {
		return Notice{}, false
	}
	slices.SortFunc(rows, func(a, b ledger.Row) int { return since(a).Compare(since(b)) })
	oldest, newest := since(rows[0]), rows[len(rows)-1]
	n := w.notice(policy.NotifyUntaken, newest.ID+" "+stamp(since(newest)), "")
	n.Kinds, n.Input.N = kindsOf(rows), len(rows)
	return n.say("%s need a person, and no one has taken them for %s", ledger.Count(len(rows)), ledger.Brief(w.now.Sub(oldest))), true
}

// waitsSince is from when a row needs a person, as it does now, and no one has touched it.
func waitsSince(r ledger.Row, now time.Time) time.Time {
	since := r.UpdatedAt
	for _, at := range []time.Time{r.Pricing.DecideAt, r.ParkedUntil, r.AllowedAt.Add(ledger.FetchPatience)} {
		if at.After(since) && !at.After(now) {
			since = at
		}
	}
	return since
}

// Unchecked is the notice that no engine has checked since then; zero: never.
func (w noticeWriter) Unchecked(since time.Time, doubts int) Notice {
	key, happened := "never", "no engine has ever checked this ledger"
	if !since.IsZero() {
		key, happened = stamp(since), "no engine has checked for "+ledger.Brief(w.now.Sub(since))
	}
	n := w.notice(policy.NotifyUnchecked, key, "")
	n.Input.N = doubts
	return n.say("%s; %s in doubt", happened, ledger.Count(doubts))
}

// facts are what the ledger says that people may have to be told.
type facts struct {
	noticeWriter
	outages   []ledger.Outage
	needs     map[string]time.Time // since when something of an outage needs a person
	conflicts []ledger.Row
	loose     []ledger.Row // need a person, and are in no outage
}

// gather reads the facts.
func gather(ctx context.Context, s ledger.Store, pol *policy.Policy, now time.Time) (f facts, err error) {
	info, err := s.Info(ctx)
	if err != nil {
		return f, err
	}
	f = facts{noticeWriter: noticeWriter{pol, info.Path, now}, needs: map[string]time.Time{}}
	counts, err := s.Counts(ctx, now)
	if err != nil {
		return f, err
	}
	if f.outages, err = s.Outages(ctx, now, noticedAtMost); err == nil {
		err = s.Sums(ctx, f.outages, now)
	}
	if err != nil {
		return f, err
	}
	if counts.NeedsYou == 0 {
		return f, nil
	}
	page := func(term ledger.Term) ([]ledger.Row, error) {
		p, err := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Order: ledger.OrderOldest, Now: now, Limit: noticeRows, Within: noticeSearch,
			Filter: ledger.Filter{Terms: []ledger.Term{term}}})
		return p.Rows, err
	}
	for _, in := range f.outages {
		if in.TakenAt(now) != "" || in.Fates[ledger.FateNotLanded].N+in.Fates[ledger.FateOpen].N == 0 {
			continue
		}
		rows, err := page(ledger.Term{Field: "outage", Value: in.ID})
		if err != nil {
			return f, err
		}
		for i, r := range rows {
			if at := waitsSince(r, now); i == 0 || at.Before(f.needs[in.ID]) {
				f.needs[in.ID] = at
			}
		}
	}
	if counts.Conflicts > 0 {
		if f.conflicts, err = page(ledger.Term{Field: "lane", Value: string(ledger.LaneConflict)}); err != nil {
			return f, err
		}
	}
	f.loose, err = page(ledger.Term{Field: "outage", Value: ledger.AnyOutage, Not: true})
	return f, err
}

// notices are what a notifier is to be told, the gravest first.
func (f facts) notices(n *policy.Notifier) (out []Notice) {
	add := func(notice Notice) {
		if n.Wants(notice.Input.Event, notice.Kinds...) {
			out = append(out, notice)
		}
	}
	for _, notice := range f.twice(f.conflicts) {
		add(notice)
	}
	recent := func(at time.Time) bool { return f.now.Sub(at) < freshFor }
	for _, in := range f.outages {
		phase := in.PhaseAt(f.now)
		if phase == ledger.PhaseGrowing || recent(in.OpenedAt) {
			add(f.Outage(policy.NotifyOpened, in, f.now))
		}
		if phase == ledger.PhaseOver && recent(in.OverAt) {
			add(f.Outage(policy.NotifyOver, in, f.now))
		}
		since, needs := f.needs[in.ID]
		if in.TakenUntil.After(since) {
			since = in.TakenUntil
		}
		if needs && !f.now.Before(since.Add(policy.UntakenAfter)) {
			add(f.Outage(policy.NotifyUntaken, in, since))
		}
	}
	if notice, any := f.untaken(f.loose); any {
		add(notice)
	}
	return out
}

func stamp(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// harmless is a name from the ledger as it may stand in a message: short, and of
// letters only that a person sees.
func harmless(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '<' || r == '>' || r == '@' || r == '`' || r == '&': // a chat would act on them
			return '_'
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, name)
	return outcome.Clip(name, 80, false)
}
