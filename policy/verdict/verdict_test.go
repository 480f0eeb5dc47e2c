package verdict

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

var (
	noon = time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC)

	identities = []Identity{ByNothing, ByToken, ByName, ByAsking, ByState}

	mine    = Effect{Receipt: "r1", Same: true}
	another = Effect{Receipt: "r2", Same: true}
	differs = Effect{Receipt: "r1"}
	old     = Effect{Receipt: "r0", Same: true, Doubt: "it looks older", Cause: ledger.CauseOlder}
	open    = Effect{Receipt: "r1", Same: true, Doubt: "it is not finished", Cause: ledger.CauseUnfinished}
)

// shows is a read that showed everything, long after everything could show.
func shows(effects ...Effect) Findings {
	return Findings{Began: noon, Ended: noon.Add(time.Second), Effects: effects}
}

// holding is where everything that absence needs holds.
func holding() Proof {
	holds := func() (ledger.Cause, string) { return "", "" }
	return Proof{Bounded: true, Provable: true, At: noon.Add(-time.Minute), Visible: ledger.Never, TokenKnown: true,
		Negative: holds, Shared: func([]Effect) (ledger.Cause, string) { return "", "" }, Stranger: func() string { return "" },
		Siblings: func() Siblings { return Siblings{Older: "r8", Younger: "r9"} }}
}

// The verdict is a pure function of identity, findings and proof.
func TestJudge(t *testing.T) {
	fails := func(cause ledger.Cause) func() (ledger.Cause, string) {
		return func() (ledger.Cause, string) { return cause, "because of it" }
	}
	finding := func(f Findings, change func(*Findings)) Findings { change(&f); return f }
	unlike := func(change func(*Proof)) Proof { p := holding(); change(&p); return p }
	sees := func(b Siblings) func() Siblings { return func() Siblings { return b } }
	seeing := func(b Siblings) Proof { return unlike(func(p *Proof) { p.Ended, p.Siblings = noon, sees(b) }) }
	trouble := func(f *Findings) { f.Trouble = "downstream answered 503" }
	incomplete := func(f *Findings) { f.Incomplete = "the list goes on" }
	stale := func(f *Findings) { f.Stale = "answer came from a cache" }
	unasked := func(f *Findings) { f.Trouble, f.Unasked = "environment variable KEY is not set", true }
	const (
		cannotTell  = ledger.CannotTell
		token, name = ByToken, ByName
	)
	for _, c := range []struct {
		what  string
		by    Identity
		f     Findings
		p     Proof
		want  ledger.Verdict
		cause ledger.Cause
		says  string
	}{
		// What is found is found.
		{"one", token, shows(mine), holding(), ledger.Landed, "", "found r1"},
		{"one, by name", name, shows(mine), holding(), ledger.Landed, "", "found r1"},
		{"one, asked for", ByAsking, shows(mine), holding(), ledger.Landed, "", "found r1"},
		{"one without a receipt", token, shows(Effect{Same: true}), holding(), ledger.Landed, "", "found one without a receipt"},
		{"one beside others", token, finding(shows(mine), func(f *Findings) { f.Others, f.Unmarked = 3, 2 }), holding(), ledger.Landed, "", "found r1"},
		{"one, and nothing else is known", token, shows(mine), Proof{}, ledger.Landed, "", "found r1"},
		{"one, and the rest is cut", token, finding(shows(mine), trouble), holding(), ledger.Landed, ledger.CauseNoAnswer, "out of sight: downstream answered 503"},
		{"one, and there are more pages", token, finding(shows(mine), incomplete), holding(), ledger.Landed, ledger.CauseIncomplete, "out of sight: the list goes on"},
		{"one, in an old answer", token, finding(shows(mine), stale), holding(), ledger.Landed, ledger.CauseStale, "out of sight: answer came from a cache"},
		{"two", token, shows(mine, another), holding(), ledger.Twice, "", "2 matched; expected 1: r1, r2"},
		{"two that differ", token, shows(differs, another), holding(), ledger.Twice, "", "2 matched"},
		{"two and an older one", name, shows(mine, old, another), holding(), ledger.Twice, "", "2 matched; expected 1: r1, r2"},
		{"two, and the rest is cut", token, finding(shows(mine, another), trouble), holding(), ledger.Twice, "", "2 matched"},
		{"one that differs", token, shows(differs), holding(), ledger.Different, "", "not what was asked: r1"},
		{"one that differs, and the rest is cut", token, finding(shows(differs), trouble), holding(), cannotTell, ledger.CauseNoAnswer, "there may be more"},
		{"one that differs, and there are more pages", token, finding(shows(differs), incomplete), holding(), cannotTell, ledger.CauseIncomplete, "there may be more"},
		{"one that differs, in an old answer", token, finding(shows(differs), stale), holding(), cannotTell, ledger.CauseStale, "there may be more"},
		// What may not be the operation's settles nothing.
		{"an older one", name, shows(old), holding(), cannotTell, ledger.CauseOlder, "found r0, but it looks older"},
		{"an unfinished one", token, shows(open), holding(), cannotTell, ledger.CauseUnfinished, "not finished"},
		{"one and an older one", name, shows(mine, old), holding(), cannotTell, ledger.CauseOlder, "found r1, r0, but it looks older"},
		{"one and an unfinished one", token, shows(open, another), holding(), cannotTell, ledger.CauseUnfinished, ""},
		{"an older one, and the rest is cut", name, finding(shows(old), trouble), holding(), cannotTell, ledger.CauseOlder, ""},
		{"another has the name", name, shows(mine), unlike(func(p *Proof) {
			p.Shared = func([]Effect) (ledger.Cause, string) { return ledger.CauseShared, "op-2 has it" }
		}), cannotTell, ledger.CauseShared, "found r1, but op-2 has it"},
		{"another has the name of two", name, shows(mine, another), unlike(func(p *Proof) {
			p.Shared = func([]Effect) (ledger.Cause, string) { return ledger.CauseShared, "op-2 has it" }
		}), cannotTell, ledger.CauseShared, "2 matched"},
		{"an echo", token, shows(mine), unlike(func(p *Proof) { p.Negative = fails(ledger.CauseEcho) }), cannotTell, ledger.CauseEcho, "found r1, but because of it"},
		{"an echo that differs", token, shows(differs), unlike(func(p *Proof) { p.Negative = fails(ledger.CauseEcho) }), cannotTell, ledger.CauseEcho, ""},
		{"two echoes", token, shows(mine, another), unlike(func(p *Proof) { p.Negative = fails(ledger.CauseEcho) }), cannotTell, ledger.CauseEcho, ""},
		{"perhaps an echo", ByAsking, shows(mine), unlike(func(p *Proof) { p.Negative = fails(ledger.CauseUnchecked) }), cannotTell, ledger.CauseUnchecked, ""},
		// A state is so, whichever write made it so, and not so is no proof.
		{"it is so", ByState, shows(Effect{Same: true}), holding(), ledger.Landed, "", "whichever write made it so"},
		{"it is always so", ByState, shows(Effect{Same: true}), unlike(func(p *Proof) { p.Negative = fails(ledger.CauseEcho) }), cannotTell, ledger.CauseEcho, ""},
		{"it is not so", ByState, shows(), holding(), cannotTell, ledger.CauseNotSo, "not so now"},
		{"not known whether it is so", ByState, finding(shows(), trouble), holding(), cannotTell, ledger.CauseNoAnswer, ""},
		{"it was not so a while ago", ByState, finding(shows(), stale), holding(), cannotTell, ledger.CauseStale, ""},
		// Where nothing identifies it, it is evidence.
		{"evidence", ByNothing, shows(mine), holding(), cannotTell, ledger.CauseUnidentified, "found r1, which may be it"},
		{"evidence that differs", ByNothing, shows(differs), holding(), cannotTell, ledger.CauseUnidentified, ""},
		{"much evidence", ByNothing, shows(mine, another), holding(), cannotTell, ledger.CauseUnidentified, "found 2 that may be it"},
		{"evidence, and the rest is cut", ByNothing, finding(shows(mine), trouble), holding(), cannotTell, ledger.CauseUnidentified, ""},
		{"no evidence", ByNothing, shows(), holding(), cannotTell, ledger.CauseNone, "this check does not show which operation"},
		{"no evidence, and no answer", ByNothing, finding(shows(), trouble), holding(), cannotTell, ledger.CauseNoAnswer, "downstream answered 503"},
		{"no evidence, and not asked", ByNothing, finding(shows(), unasked), holding(), cannotTell, ledger.CauseNotAsked, "KEY"},
		// None is proven, never observed (I6).
		{"none", token, shows(), holding(), ledger.NotThere, "", "none found, and it would have shown"},
		{"none, asked for", ByAsking, shows(), holding(), ledger.NotThere, "", "none found"},
		{"none, and strangers'", token, finding(shows(), func(f *Findings) { f.Others, f.Unmarked = 3, 2 }), holding(), ledger.NotThere, "", "none found"},
		{"none, though it was settled as landed", token, shows(), unlike(func(p *Proof) { p.Landed = true }), ledger.NotThere, ledger.CauseGone, "not there now"},
		{"none, by a search that shows strangers'", token, finding(shows(), func(f *Findings) { f.Others = 1 }), unlike(func(p *Proof) { p.Asked = true }), cannotTell, ledger.CauseIncomplete, "another (1)"},
		{"none, by a search that shows what has no mark", token, finding(shows(), func(f *Findings) { f.Unmarked = 2 }), unlike(func(p *Proof) { p.Asked = true }), cannotTell, ledger.CauseIncomplete, "another (2)"},
		{"none, by a search", token, shows(), unlike(func(p *Proof) { p.Asked = true }), ledger.NotThere, "", ""},
		{"none, and it was redirected", token, shows(), unlike(func(p *Proof) { p.Redirected = true }), cannotTell, ledger.CauseNone, "was redirected"},
		{"one, and it was redirected", token, shows(mine), unlike(func(p *Proof) { p.Redirected = true }), ledger.Landed, "", "found r1"},
		{"none, by name", name, shows(), holding(), cannotTell, ledger.CauseNone, "looks for a name"},
		{"no answer", token, finding(shows(), trouble), holding(), cannotTell, ledger.CauseNoAnswer, "downstream answered 503"},
		{"not asked", token, finding(shows(), unasked), holding(), cannotTell, ledger.CauseNotAsked, "KEY"},
		{"none, in an old answer", token, finding(shows(), stale), holding(), cannotTell, ledger.CauseStale, "cache"},
		{"none on these pages", token, finding(shows(), incomplete), holding(), cannotTell, ledger.CauseIncomplete, "goes on"},
		{"none, and it was said to have landed", token, shows(), unlike(func(p *Proof) { p.SaidLanded = "its own answer said so" }), cannotTell, ledger.CauseGone, "its own answer said so"},
		{"none, and a process may still write", token, shows(), unlike(func(p *Proof) { p.Running = "process 7 on host h is there" }), cannotTell, ledger.CauseRunning, "process 7"},
		{"one, and a process may still write", token, shows(mine), unlike(func(p *Proof) { p.Running = "process 7" }), ledger.Landed, "", "found r1"},
		{"none, and its token was perhaps not sent", token, shows(), unlike(func(p *Proof) { p.TokenKnown = false }), cannotTell, ledger.CauseNone, "not known to have been sent"},
		{"none, without a bound", token, shows(), unlike(func(p *Proof) { p.Bounded, p.Provable = false, false }), cannotTell, ledger.CauseNone, "states no bound"},
		{"none, of which there is no proof", token, shows(), unlike(func(p *Proof) { p.Provable = false }), cannotTell, ledger.CauseNone, "what would be needed"},
		{"none, too early", token, shows(), unlike(func(p *Proof) { p.At = noon.Add(time.Minute) }), cannotTell, ledger.CauseNone, "proof possible in 1m00s"},
		{"none, begun just then", token, shows(), unlike(func(p *Proof) { p.At = noon }), cannotTell, ledger.CauseNone, "proof possible in 1 s"},
		{"none, begun just then, as the ledger keeps it", token, finding(shows(), func(f *Findings) { f.Began = noon.Add(time.Microsecond) }), unlike(func(p *Proof) { p.At = noon }), cannotTell, ledger.CauseNone, "too early"},
		{"none, just after", token, finding(shows(), func(f *Findings) { f.Began = noon.Add(time.Millisecond) }), unlike(func(p *Proof) { p.At = noon }), ledger.NotThere, "", ""},
		{"none, too late", token, shows(), unlike(func(p *Proof) { p.Visible = noon }), cannotTell, ledger.CauseNone, "too late"},
		{"none, ended too late", token, shows(), unlike(func(p *Proof) { p.Visible = noon.Add(time.Second) }), cannotTell, ledger.CauseNone, "too late"},
		{"none, in time", token, shows(), unlike(func(p *Proof) { p.Visible = noon.Add(time.Second + 1) }), ledger.NotThere, "", ""},
		{"none, and it sees none at all", token, shows(), seeing(Siblings{}), cannotTell, ledger.CauseBlind, "may be blind: it finds no other"},
		{"none, and it does not find what landed", token, shows(), seeing(Siblings{Cause: ledger.CauseBlind, Why: "it does not find r8 either"}), cannotTell, ledger.CauseBlind, "r8 either"},
		{"none, by a check that was not tried", token, shows(), seeing(Siblings{Cause: ledger.CauseUnchecked, Why: "no answer"}), cannotTell, ledger.CauseUnchecked, "no answer"},
		{"none, and it sees an older one", token, shows(), seeing(Siblings{Older: "r8"}), ledger.NotSeen, "", "finds r8, sent before"},
		{"none, and it sees a younger one", token, shows(), seeing(Siblings{Younger: "r9"}), ledger.NotSeen, "", "finds r9, sent after"},
		{"none, and it sees both", token, shows(), seeing(Siblings{Older: "r8", Younger: "r9"}), ledger.NotThere, "", "r8, sent before, and r9, sent after"},
		{"none, and it sees what is later by ten minutes", token, finding(shows(), func(f *Findings) { f.Latest = noon.Add(10*time.Minute + 1) }), seeing(Siblings{Older: "r8"}), ledger.NotThere, "", "what was made"},
		{"none, and it sees what is later by less", token, finding(shows(), func(f *Findings) { f.Latest = noon.Add(10 * time.Minute) }), seeing(Siblings{Older: "r8"}), ledger.NotSeen, "", "sent before"},
		{"none, and it sees a stranger's alone", token, finding(shows(), func(f *Findings) { f.Latest = noon.Add(time.Hour) }), seeing(Siblings{}), cannotTell, ledger.CauseBlind, ""},
		{"none, and it reads its own writes", token, shows(), unlike(func(p *Proof) { p.Consistent, p.Siblings = true, sees(Siblings{Older: "r8"}) }), ledger.NotThere, "", "finds r8, sent before"},
		{"none, and it reads its own writes, not far back", token, shows(), unlike(func(p *Proof) { p.Consistent, p.Siblings = true, sees(Siblings{Younger: "r9"}) }), ledger.NotSeen, "", "sent after"},
		{"none, for another caller", token, shows(), unlike(func(p *Proof) { p.Stranger = func() string { return "it asks as another" } }), cannotTell, ledger.CauseUnchecked, "asks as another"},
		{"none, and the negative control does not matter", token, shows(), unlike(func(p *Proof) { p.Negative = fails(ledger.CauseEcho) }), ledger.NotThere, "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := Judge(c.by, c.f, c.p)
			if got.Verdict != c.want || got.Cause != c.cause || !strings.Contains(got.Reason, c.says) || got.Reason == "" {
				t.Errorf("%s, %q (%s); want %s, %q (%s)", got.Verdict, got.Cause, got.Reason, c.want, c.cause, c.says)
			}
		})
	}
}

// Controls cost reads: none is asked for that cannot change the verdict.
func TestJudgeAsksForNoControlInVain(t *testing.T) {
	asked := ""
	p := holding()
	p.Negative = func() (ledger.Cause, string) { asked += "negative "; return "", "" }
	p.Shared = func([]Effect) (ledger.Cause, string) { asked += "shared "; return "", "" }
	p.Siblings = func() Siblings { asked += "siblings "; return Siblings{} }
	early := p
	early.At = noon.Add(time.Hour)
	for _, c := range []struct {
		by   Identity
		f    Findings
		p    Proof
		want string
	}{
		{ByToken, shows(), p, "siblings "}, {ByToken, shows(), early, ""}, {ByToken, shows(mine), p, "shared negative "}, {ByToken, shows(old), p, ""},
		{ByName, shows(), p, ""}, {ByState, shows(), p, ""}, {ByNothing, shows(mine), p, ""},
	} {
		asked = ""
		Judge(c.by, c.f, c.p)
		need.Equal(t, asked, c.want, c.by, c.f.Effects, "asked")
	}
}

// Findings and proof settle an operation only by the rules.
func TestI6_JudgeSettlesOnlyByTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		moment := func(name string) time.Time {
			return noon.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, name)) * time.Millisecond)
		}
		text := func(name string) string {
			return map[bool]string{true: name}[rapid.IntRange(0, 3).Draw(t, name) == 0]
		}
		control := func(name string) (ledger.Cause, func() (ledger.Cause, string)) {
			cause := rapid.SampledFrom([]ledger.Cause{"", "", ledger.CauseEcho, ledger.CauseUnchecked, ledger.CauseBlind, ledger.CauseShared}).Draw(t, name)
			return cause, func() (ledger.Cause, string) { return cause, name }
		}
		by := rapid.SampledFrom(identities).Draw(t, "identity")
		f := Findings{Began: moment("began"), Trouble: text("trouble"), Incomplete: text("incomplete"), Stale: text("stale"), Others: 1}
		f.Ended = f.Began.Add(time.Millisecond)
		f.Unasked = f.Trouble != "" && flag("unasked")
		f.Effects = rapid.SliceOfN(rapid.SampledFrom([]Effect{mine, another, differs, old, open}), 0, 3).Draw(t, "effects")
		p := Proof{Bounded: flag("bounded"), At: moment("at"), Visible: moment("visible"), TokenKnown: flag("token"), SaidLanded: text("landed"), Running: text("running"), Landed: flag("committed")}
		p.Provable = p.Bounded && flag("provable")
		if flag("for ever") {
			p.Visible = ledger.Never
		}
		var negative, shared ledger.Cause
		negative, p.Negative = control("negative")
		stranger, seen := text("stranger"), Siblings{Older: text("older"), Younger: text("younger")}
		p.Stranger, p.Siblings, p.Consistent = func() string { return stranger }, func() Siblings { return seen }, flag("consistent")
		seen.Cause, _ = control("asked")
		shared, why := control("shared")
		p.Shared = func([]Effect) (ledger.Cause, string) { return why() }
		sure, doubtful := 0, 0
		for _, e := range f.Effects {
			if e.Doubt == "" {
				sure++
			} else {
				doubtful++
			}
		}
		j := Judge(by, f, p)
		shown := f.Trouble == "" && f.Incomplete == "" && f.Stale == ""
		switch j.Verdict {
		case ledger.NotThere:
			if len(f.Effects) > 0 || !shown || by != ByToken && by != ByAsking || !p.TokenKnown || !p.Provable || p.SaidLanded != "" || p.Running != "" || stranger != "" || seen.Older == "" || seen.Younger == "" && !p.Consistent ||
				!f.Began.After(p.At) || !f.Ended.Before(p.Visible) || (j.Cause == ledger.CauseGone) != p.Landed || j.Cause != "" && j.Cause != ledger.CauseGone {
				t.Fatalf("none: %+v", j)
			}
		case ledger.NotSeen:
			if len(f.Effects) > 0 || !shown || !p.TokenKnown || !p.Provable || stranger != "" || seen.Older+seen.Younger == "" || seen.Older != "" && (seen.Younger != "" || p.Consistent) {
				t.Fatalf("not seen: %+v", j)
			}
		case ledger.Landed, ledger.Different, ledger.Twice:
			if by == ByNothing || negative != "" || shared != "" || sure == 0 || j.Cause != "" && (j.Verdict != ledger.Landed || shown) || (j.Verdict == ledger.Twice) != (sure > 1) || sure == 1 && doubtful > 0 {
				t.Fatalf("%+v", j)
			}
			if j.Verdict == ledger.Different && !shown || j.Verdict == ledger.Landed && by != ByState && !f.Effects[0].Same {
				t.Fatalf("%+v", j)
			}
		case ledger.CannotTell:
			need.Must(t, j.Cause != "", "no cause: %+v", j)
			if !shown && len(f.Effects) == 0 && (j.Cause == ledger.CauseNone || j.Cause == ledger.CauseBlind || j.Cause == ledger.CauseGone) {
				t.Fatalf("what was not seen is called none: %+v", j)
			}
		default:
			t.Fatalf("%+v", j)
		}
		need.Must(t, j.Reason != "" && !strings.Contains(j.Reason, "\n"), "%q is not one sentence", j.Reason)
	})
}
