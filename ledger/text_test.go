package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

func TestFingerprint(t *testing.T) {
	same := [][2]string{
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true, null ], "a" : 1.0 } `},
		{``, `null`},
		{`[1e2,-0.0,0.5,12e-1]`, `[100,0,5e-1,1.2]`},
		{`{"a":{},"b":[]}`, `{"b":[],"a":{}}`},
		{`"\ud83d\uDE00\\ud83d\u0000\ufffd"`, "\"😀\\\\ud83d\\u0000\ufffd\""},
	}
	for _, p := range same {
		a, err := Fingerprint([]byte(p[0]))
		b, err2 := Fingerprint([]byte(p[1]))
		need.That(t, err == nil && err2 == nil && a == b, "%s and %s: %v %v", p[0], p[1], err, err2)
	}
	digests := map[string]string{}
	for _, text := range []string{`1`, `"1"`, `[1]`, `[]`, `{}`, `[[]]`, `null`, `"null"`, `true`, `""`, `[1,2]`, `[2,1]`, `[[1],2]`, `{"a":1}`, `{"a":2}`, `{"b":1}`, `["a",1]`, `9007199254740993`, `9007199254740992`} {
		digest := need.Get(Fingerprint([]byte(text)))(t)
		need.That(t, digests[digest] == "", "%s and %s have one digest", text, digests[digest])
		digests[digest] = text
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `{} {}`, `{`, `nul`, "{\"a\":\"M\xfcller\"}", "{\"M\xfcller\":1}",
		`"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d"`, `"\ud83dude00"`, `"\\\ude00"`, `{"\ud83d":1}`} {
		_, err := Fingerprint([]byte(bad))
		need.That(t, err != nil, "%s was taken", bad)
	}
}

func TestParseFilter(t *testing.T) {
	f, err := ParseFilter(`cus_9 -kind:stripe.* age>1d2h "in quotes: x" source:"the mill"`)
	need.Must(t, err == nil && len(f.Terms) == 5, "%v %v", f, err)
	need.Must(t, f.Terms[2].Age == 26*time.Hour && f.Terms[1].Not && f.Terms[3].Value == "in quotes: x" && f.Terms[4].Value == "the mill", "%+v", f.Terms)
	for _, bad := range []string{"nope:x", "age:3", "age>x", "kind:", "state:gone", "state:uncertain,gone", "state:", "kind>a", "cost>x", "since:x", "until>2d", "since:2026-13-01"} {
		_, err := ParseFilter(bad)
		need.That(t, err != nil, "%s was taken", bad)
	}
}

func TestATermOfNamesTakesSeveralAndAnyText(t *testing.T) {
	for term, c := range map[string]struct{ holds, not []string }{
		"source:pay":        {[]string{"pay"}, []string{"payroll", "Pay", "", "repay"}},
		"source:pay*":       {[]string{"pay", "payroll"}, []string{"repay"}},
		"source:*pay*":      {[]string{"pay", "payroll", "repay"}, []string{"pa"}},
		"source:a*b*c":      {[]string{"abc", "a-b-b-c", "aXbXc"}, []string{"ac", "abcd", "acb", "ab"}},
		"source:a*a":        {[]string{"aa", "aba"}, []string{"a"}},
		"source:pay,mail*":  {[]string{"pay", "mailer"}, []string{"payroll", "pay,mail"}},
		`source:"the mill"`: {[]string{"the mill"}, []string{"the mills"}},
		"source:[ab]?":      {[]string{"[ab]?"}, []string{"a1"}},
		"-source:pay,mail*": {[]string{"payroll"}, []string{"pay", "mailer"}},
	} {
		f := need.Get(ParseFilter(term))(t)
		for want, names := range map[bool][]string{true: c.holds, false: c.not} {
			for _, name := range names {
				need.Equal(t, f.Match(Row{Operation: Operation{Source: Source{Pipeline: name}}}, time.Time{}), want, term, name)
			}
		}
	}
}

func TestAFilterThatIsNone(t *testing.T) {
	for text, offset := range map[string]int{
		"kind:a OR": 7, "or kind:a": 0, "(kind:a": 0, "a -(b": 2, "kind:a NOT kind:b": 7, "kind:a stat:x": 7, strings.Repeat("x ", 101): 200,
	} {
		_, err := ParseFilter(text)
		var at *FilterError
		need.That(t, errors.As(err, &at) && at.Offset == offset && at.Hint != "", "%q: %v", text, err)
	}
	need.Equal(t, len(need.Get(ParseFilter("refund(2) a)"))(t).Terms), 2) // text, where none is open
	_, err := ParseFilter("stat:uncertain")
	var at *FilterError
	need.That(t, errors.As(err, &at) && strings.HasPrefix(at.Hint, "did you mean `state`?"), "%v", at.Hint)
	_, err = ParseFilter("state:uncertian")
	need.That(t, errors.As(err, &at) && strings.HasPrefix(at.Hint, "did you mean `uncertain`?"), "%v", at.Hint)
}

func TestAMomentAsAPersonNamesIt(t *testing.T) {
	berlin := need.Get(time.LoadLocation("Europe/Berlin"))(t)
	now := time.Date(2026, 7, 14, 5, 6, 0, 0, berlin)
	for text, want := range map[string][2]string{ // as past, as to come
		"30m":                               {"2026-07-14T04:36:00+02:00", "2026-07-14T05:36:00+02:00"},
		"1d2h":                              {"2026-07-13T03:06:00+02:00", "2026-07-15T07:06:00+02:00"},
		"today":                             {"2026-07-14T00:00:00+02:00", "2026-07-14T00:00:00+02:00"},
		"Yesterday":                         {"2026-07-13T00:00:00+02:00", "2026-07-13T00:00:00+02:00"},
		"tomorrow":                          {"2026-07-15T00:00:00+02:00", "2026-07-15T00:00:00+02:00"},
		"05:00":                             {"2026-07-14T05:00:00+02:00", "2026-07-15T05:00:00+02:00"},
		"23:00":                             {"2026-07-13T23:00:00+02:00", "2026-07-14T23:00:00+02:00"},
		"2026-07-14":                        {"2026-07-14T00:00:00+02:00"},
		"2026-01-14 05:00":                  {"2026-01-14T05:00:00+01:00"},
		"2026-07-14 05:00:30 CEST":          {"2026-07-14T05:00:30+02:00"},
		"2026-07-14T03:00Z":                 {"2026-07-14T03:00:00Z"},
		"2026-07-14 03:00:00+09:00":         {"2026-07-14T03:00:00+09:00"},
		"2026-07-14 03:00 UTC":              {"2026-07-14T03:00:00Z"},
		"2026-07-14 03:00 America/New_York": {"2026-07-14T03:00:00-04:00"},
		"2026-01-14 05:00 CEST":             {""}, "2026-07-14 05:00 PST": {""}, "2026-07-14 05:00 Nowhere/At": {""}, "2026-13-01": {""}, "soon": {""}, "": {""}, "-5m": {""}, "25:00": {""},
	} {
		w, err := ParseWhen(text, berlin)
		if want[0] == "" {
			need.That(t, err != nil && strings.Contains(err.Error(), "yesterday"), "%q: %v %v", text, w, err)
			continue
		}
		need.OK(t, err)
		need.Equal(t, w.Past(now).Format(time.RFC3339), want[0], text)
		if want[1] == "" {
			want[1] = want[0]
		}
		need.Equal(t, w.Future(now).Format(time.RFC3339), want[1], text)
	}
}

func TestAWordOfAFilterIsCompleted(t *testing.T) {
	known := func(field string) []string {
		return map[string][]string{"kind": {"card.charge", "card.refund", "two words", "mail"}, "outage": {"7f3a"}}[field]
	}
	for word, want := range map[string]string{
		"st": "state:", "-st": "-state:", "state:u": "state:uncertain", "state:failed,u": "state:failed,uncertain", "-kind:card": "-kind:card.charge -kind:card.refund",
		"kind:": "kind:card.charge kind:card.refund kind:mail", "cos": "cost> cost<", "outage:": "outage:any outage:7f3a", "since:y": "since:yesterday", "parked:": "parked:yes parked:no", "nope:": "",
	} {
		need.Equal(t, strings.Join(CompleteFilter(word, known), " "), want, word)
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{`a:b`, `-"x`, `(a OR -(b) ) |`, `age>1d`, "\x00:", `-`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := ParseFilter(s); err != nil {
			_ = err.Error()
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add([]byte(`{"a":[1,2e400]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fp, err := Fingerprint(b)
		need.Must(t, err != nil || len(fp) == 64, "%v", fp)
	})
}

// As much may be missing as is said, or less.
func TestUpToSoMuchMayBeMissing(t *testing.T) {
	said := Failover{At: time.Date(2026, 7, 14, 1, 12, 0, 0, time.UTC), Missing: 2200 * time.Millisecond}.String()
	need.That(t, strings.Contains(said, "up to 3s of"), "%s", said)
}
