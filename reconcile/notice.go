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
	noticeScope   = "notify" // of the keys of notices
)

// Notice is what people are told. Its key is the same in every engine, so that the
// ledger lets each be told once.
type Notice struct {
	Event string
	Key   string
	Title string
	Kinds []string // that it is about; none: all
	Input NoticeInput
}

// NoticeInput is what a notifier's templates see of a notice.
type NoticeInput struct {
	Event     string  `json:"event"`
	Notifier  string  `json:"notifier"`
	Text      string  `json:"text"`
	Open      string  `json:"open"` // the command that opens the console there
	Ledger    string  `json:"ledger"`
	Outage    string  `json:"outage"`
	Operation string  `json:"operation"`
	Where     string  `json:"where"`
	Phase     string  `json:"phase"`
	Errors    int     `json:"errors"`
	Landed    int     `json:"landed"`
	NotLanded int     `json:"not_landed"`
	ToLookAt  int     `json:"to_look_at"`
	Refused   int     `json:"refused"`
	Left      int     `json:"left"`
	Miss      float64 `json:"miss"`
	MissWords int     `json:"miss_words"`
	Unpriced  int     `json:"unpriced"`
	Currency  string  `json:"currency"`
	N         int     `json:"n"`
	Since     string  `json:"since"` // RFC 3339, or ""
}

// Record is the operation that tells it through a notifier, as it would begin.
func (n Notice) Record(notifier string, now time.Time) ledger.Record {
	n.Input.Notifier = notifier
	input, _ := json.Marshal(n.Input)
	return ledger.Record{Now: now, Operation: ledger.Operation{
		ID: ledger.NewID(), Kind: ledger.NoticeKind(notifier), Scope: noticeScope, Key: n.Key, Token: ledger.NewToken(),
		Title: "tell " + notifier + ": " + n.Title, Input: input, Source: ledger.Source{Pipeline: ledger.ActorNotify}, CreatedAt: now,
	}}
}

// writer puts notices into words.
type noticeWriter struct {
	pol  *policy.Policy
	path string // of the ledger
	now  time.Time
}

// notice begins one. filter is what the console is to be opened with.
func (w noticeWriter) notice(event, key, filter string, since time.Time) Notice {
	open := "indoubt --ledger " + shellWord(w.path)
	if filter != "" {
		open += " " + filter
	}
	n := Notice{Event: event, Key: key + " " + event, Input: NoticeInput{Event: event, Open: open, Ledger: w.path, Currency: w.pol.Currency()}}
	if !since.IsZero() {
		n.Input.Since = since.UTC().Format(time.RFC3339)
	}
	return n
}

// say completes a notice by its sentence.
func (w noticeWriter) say(n Notice, format string, args ...any) Notice {
	n.Title = fmt.Sprintf(format, args...)
	n.Input.Text = n.Title
	if n.Input.Outage != "" {
		n.Input.Text += ". " + w.account(n.Input)
	}
	n.Input.Text += ". " + n.Input.Open
	return n
}

// account is the sum of an outage, and what may be lost.
func (w noticeWriter) account(i NoticeInput) string {
	parts := []string{}
	for _, p := range []struct {
		n    int
		what string
	}{{i.Landed, "landed"}, {i.NotLanded, "did not land"}, {i.ToLookAt, "to look at"}, {i.Refused, "refused"}, {i.Left, "left"}} {
		if p.n > 0 {
			parts = append(parts, ledger.Count(p.n)+" "+p.what)
		}
	}
	text := fmt.Sprintf("%s errors: %s", ledger.Count(i.Errors), strings.Join(parts, ", "))
	out := ledger.LeftOut(i.MissWords, i.Unpriced)
	switch {
	case i.Miss > 0 && out != "":
		out = w.pol.Money(i.Miss) + " without " + out
	case i.Miss > 0:
		out = w.pol.Money(i.Miss)
	}
	if out != "" {
		text += ". Not known to have landed: " + out
	}
	return text
}

// outage is a notice about one, without its sentence.
func (w noticeWriter) outage(event, detail string, in ledger.Outage) Notice {
	n := w.notice(event, in.ID+detail, "outage:"+in.ID, in.FirstAt)
	f := in.Fates
	open := f[ledger.FateNotLanded].Add(f[ledger.FateOpen])
	n.Kinds = in.Kinds
	n.Input.Outage, n.Input.Where, n.Input.Phase, n.Input.Errors = in.ID, harmless(in.Where()), string(in.PhaseAt(w.now)), in.Errors()
	n.Input.Landed, n.Input.NotLanded, n.Input.ToLookAt = f[ledger.FateLanded].N, f[ledger.FateNotLanded].N, f[ledger.FateOpen].N
	n.Input.Refused, n.Input.Left, n.Input.Miss, n.Input.MissWords, n.Input.Unpriced = f[ledger.FateRefused].N, f[ledger.FateLeft].N, open.Miss, open.MissWords, open.Unpriced
	return n
}

// Outage is the notice of an event of an outage: opened, tenfold or over.
func (w noticeWriter) Outage(event string, in ledger.Outage) Notice {
	at := in.FirstAt.UTC().Format("15:04 UTC")
	switch event {
	case policy.NotifyOpened:
		n := w.outage(event, "", in)
		return w.say(n, "%s: an outage since %s", n.Input.Where, at)
	case policy.NotifyTenfold:
		n := w.outage(event, fmt.Sprint(" ", w.level(in, in.Errors())), in)
		return w.say(n, "%s: the outage since %s has grown tenfold", n.Input.Where, at)
	}
	n := w.outage(policy.NotifyOver, " "+stamp(in.LastAt), in)
	return w.say(n, "%s: the outage since %s is over", n.Input.Where, at)
}

// Untaken is the notice of an outage that needs a person, which no one has taken since
// then.
func (w noticeWriter) Untaken(in ledger.Outage, since time.Time) Notice {
	detail := ""
	if !in.TakenUntil.IsZero() { // once more, after the one who had it
		detail = " " + stamp(in.TakenUntil)
	}
	n := w.outage(policy.NotifyUntaken, detail, in)
	return w.say(n, "%s: the outage since %s needs a person, and no one has taken it for %s", n.Input.Where, in.FirstAt.UTC().Format("15:04 UTC"), policy.Brief(w.now.Sub(since)))
}

// level is how often errors are ten times as many as open an outage.
func (w noticeWriter) level(in ledger.Outage, errors int) (level int) {
	kind := ""
	if len(in.Kinds) > 0 {
		kind = in.Kinds[0]
	}
	for at := 10 * w.pol.Kind(kind).Burst().Errors; errors >= at; at *= 10 {
		level++
	}
	return level
}

// twice are the notices of what happened twice, or may have: one for each operation,
// and of an outage one for one, ten, a hundred of them.
func (w noticeWriter) twice(rows []ledger.Row) (out []Notice) {
	in := map[string][]ledger.Row{}
	for _, r := range rows {
		if r.Conflict != ledger.Duplicate && r.Conflict != ledger.PossibleDuplicate || ledger.IsNotice(r.Kind) {
			continue
		}
		if id := r.Outage(); id != "" {
			in[id] = append(in[id], r)
			continue
		}
		n := w.notice(policy.NotifyTwice, r.ID+" "+string(r.Conflict), "id:"+r.ID, r.UpdatedAt)
		n.Kinds, n.Input.Operation, n.Input.N, n.Input.Where = []string{r.Kind}, r.ID, 1, harmless(r.Kind)
		out = append(out, w.say(n, "%s: one operation %s", n.Input.Where, happened(r.Conflict, 1)))
	}
	for _, id := range slices.Sorted(maps.Keys(in)) {
		rows := in[id]
		worst := ledger.PossibleDuplicate
		kinds := []string{}
		for _, r := range rows {
			if r.Conflict == ledger.Duplicate {
				worst = r.Conflict
			}
			if !slices.Contains(kinds, r.Kind) {
				kinds = append(kinds, r.Kind)
			}
		}
		n := w.notice(policy.NotifyTwice, fmt.Sprint(id, " ", worst, " ", len(strconv.Itoa(len(rows)))), "outage:"+id, time.Time{})
		n.Kinds, n.Input.N, n.Input.Where = kinds, len(rows), harmless(strings.Join(kinds, ", "))
		if len(rows) == 1 {
			n.Input.Operation = rows[0].ID
		}
		out = append(out, w.say(n, "%s: %s of an outage %s", n.Input.Where, ledger.Count(len(rows)), happened(worst, len(rows))))
	}
	return out
}

func happened(c ledger.Conflict, n int) string {
	switch {
	case c == ledger.Duplicate:
		return "happened twice"
	case n == 1:
		return "may have happened twice"
	}
	return "happened twice, or may have"
}

// untaken is the notice of operations outside of outages that no one has touched.
// It is told again when another one has waited as long.
func (w noticeWriter) untaken(rows []ledger.Row) (Notice, bool) {
	var newest ledger.Row
	count, since := 0, time.Time{}
	kinds := []string{}
	for _, r := range rows {
		from := waitsSince(r, w.now)
		if w.now.Before(from.Add(policy.UntakenAfter)) {
			continue
		}
		count++
		if from.After(waitsSince(newest, w.now)) {
			newest = r
		}
		if since.IsZero() || from.Before(since) {
			since = from
		}
		if !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	n := w.notice(policy.NotifyUntaken, newest.ID+" "+stamp(waitsSince(newest, w.now)), "", since)
	n.Kinds, n.Input.N = kinds, count
	return w.say(n, "%s need a person, and no one has taken them for %s", ledger.Count(count), policy.Brief(w.now.Sub(since))), count > 0
}

// waitsSince is from when a row needs a person, as it does now, and no one has touched it.
func waitsSince(r ledger.Row, now time.Time) time.Time {
	since := r.UpdatedAt
	for _, at := range []time.Time{r.Pricing.DecideAt, r.ParkedUntil, r.GrantedAt.Add(ledger.FetchPatience)} {
		if at.After(since) && !at.After(now) {
			since = at
		}
	}
	return since
}

// Unchecked is the notice that no engine has checked since then; zero: never.
func (w noticeWriter) Unchecked(since time.Time, doubts int) Notice {
	if since.IsZero() {
		n := w.notice(policy.NotifyUnchecked, "never", "", since)
		n.Input.N = doubts
		return w.say(n, "no engine has ever checked this ledger; %s in doubt", ledger.Count(doubts))
	}
	n := w.notice(policy.NotifyUnchecked, stamp(since), "", since)
	n.Input.N = doubts
	return w.say(n, "no engine has checked for %s; %s in doubt", policy.Brief(w.now.Sub(since)), ledger.Count(doubts))
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
	own := ledger.Term{Field: "kind", Value: ledger.NoticeKind("*"), Not: true}
	page := func(term ledger.Term) ([]ledger.Row, error) {
		p, err := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Order: ledger.OrderOldest, Now: now, Limit: noticeRows, Within: noticeSearch,
			Filter: ledger.Filter{Terms: []ledger.Term{own, term}}})
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

// notices are what a notifier is to be told, the gravest first. grew says whether an
// outage grew tenfold since it was told of it.
func (f facts) notices(n *policy.Notifier, grew func(in ledger.Outage) bool) (out []Notice) {
	add := func(notice Notice) {
		if n.Wants(notice.Event, notice.Kinds...) {
			out = append(out, notice)
		}
	}
	for _, notice := range f.twice(f.conflicts) {
		add(notice)
	}
	recent := func(at time.Time) bool { return f.now.Sub(at) < freshFor }
	for _, in := range f.outages {
		phase := in.PhaseAt(f.now)
		growing := phase == ledger.PhaseGrowing
		if growing || recent(in.OpenedAt) {
			add(f.Outage(policy.NotifyOpened, in))
		}
		if f.level(in, in.Errors()) > 0 && (growing || recent(in.LastAt)) {
			if notice := f.Outage(policy.NotifyTenfold, in); grew(in) {
				add(notice)
			}
		}
		if phase == ledger.PhaseOver && recent(in.OverAt) {
			add(f.Outage(policy.NotifyOver, in))
		}
		since, needs := f.needs[in.ID]
		if in.TakenUntil.After(since) {
			since = in.TakenUntil
		}
		if needs && !f.now.Before(since.Add(policy.UntakenAfter)) {
			add(f.Untaken(in, since))
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

// shellWord is a path as a shell reads it.
func shellWord(path string) string {
	if path != "" && !strings.ContainsFunc(path, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@%=", r))
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
