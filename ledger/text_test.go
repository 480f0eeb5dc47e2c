package ledger

import (
	"testing"
	"time"

	"indoubt/ledger/need"
)

func TestFingerprint(t *testing.T) {
	same := [][2]string{
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true, null ], "a" : 1.0 } `},
		{``, `null`},
	}
	for _, p := range same {
		a, err := Fingerprint([]byte(p[0]))
		b, err2 := Fingerprint([]byte(p[1]))
		if err != nil || err2 != nil || a != b {
			t.Errorf("%s and %s: %v %v", p[0], p[1], err, err2)
		}
	}
	a, _ := Fingerprint([]byte(`{"id":9007199254740993}`))
	b, _ := Fingerprint([]byte(`{"id":9007199254740992}`))
	need.That(t, a != b, "integers beyond 2^53 run together")
	for _, bad := range []string{`{"a":1,"a":2}`, `{} {}`, `{`, `nul`} {
		if _, err := Fingerprint([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestParseFilter(t *testing.T) {
	f, err := ParseFilter(`cus_9 -kind:stripe.* age>1d2h "in quotes: x" source:"the mill"`)
	if err != nil || len(f.Terms) != 5 {
		t.Fatal(f, err)
	}
	if f.Terms[2].Age != 26*time.Hour || !f.Terms[1].Not || f.Terms[3].Value != "in quotes: x" || f.Terms[4].Value != "the mill" {
		t.Fatalf("%+v", f.Terms)
	}
	for _, bad := range []string{"nope:x", "age:3", "age>x", "kind:", "state:gone", "state:uncertain,gone", "state:", "kind>a", "cost>x", "since:x", "until>2d", "since:2026-13-01"} {
		if _, err := ParseFilter(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
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
				need.Equal(t, f.Match(Row{Source: Source{Pipeline: name}}, time.Time{}), want, term, name)
			}
		}
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{`a:b`, `-"x`, `age>1d`, "\x00:", `-`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := ParseFilter(s)
		if err != nil {
			_ = err.Error()
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add([]byte(`{"a":[1,2e400]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if fp, err := Fingerprint(b); err == nil && len(fp) != 64 {
			t.Fatal(fp)
		}
	})
}
