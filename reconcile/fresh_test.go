package reconcile

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const emptyList = `{"object":"list","data":[],"more":false,"next":0}`

// Whatever tells that an answer was kept somewhere on the way makes "none found"
// no proof.
func TestI6_EverySignOfACacheIsHeeded(t *testing.T) {
	for name, headers := range map[string][][2]string{
		"second Age":            {{"Age", "0"}, {"Age", "600"}},
		"stale":                 {{"Warning", `110 - "Response is Stale"`}},
		"revalidation failed":   {{"Warning", `111 cache.example "Revalidation Failed"`}},
		"dated an hour ago":     {{"Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}},
		"RFC 9211":              {{"Cache-Status", `edge; fwd=miss`}, {"Cache-Status", `origin; hit; ttl=30`}},
		"X-Cache":               {{"X-Cache", "HIT from edge-7"}},
		"X-Cache of two layers": {{"X-Cache", "MISS, HIT"}},
		"a vendor's own":        {{"Cf-Cache-Status", "HIT"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, payPolicy)
			w.known("pay")
			o := w.doubt("pay", 420)
			w.pass(pastProof)
			first := true
			w.side.onList = func(_ *side, rw http.ResponseWriter, _ *http.Request) bool {
				if !first {
					return false // the control is answered freshly
				}
				first = false
				for _, h := range headers {
					if h[0] == "Date" {
						rw.Header().Set(h[0], h[1])
					} else {
						rw.Header().Add(h[0], h[1])
					}
				}
				fmt.Fprint(rw, emptyList)
				return true
			}
			r := w.read(o.ID)
			if r.Read.Verdict != ledger.CannotTell || r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "cache") {
				t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// An answer that is not from a cache stays one, whatever else its headers say.
func TestFreshAnswersStayFresh(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	w.side.onList = func(_ *side, rw http.ResponseWriter, _ *http.Request) bool {
		for name, v := range map[string]string{"Age": "0", "X-Cache": "MISS", "Cf-Cache-Status": "DYNAMIC", "Cache-Status": "edge; fwd=bypass", "Warning": `299 - "deprecated"`} {
			rw.Header().Set(name, v)
		}
		return false
	}
	r := w.read(o.ID)
	need.That(t, r.Read.Verdict == ledger.NotThere, "%s: %s", r.Read.Verdict, r.Read.Reason)
}

// Only a mark that is compared with the token looks for it: a name, a state or
// nothing at all never proves that nothing is there.
func TestI6_WhatDoesNotLookForTheTokenProvesNothing(t *testing.T) {
	for name, mark := range map[string]string{
		"a name":  "      list: body.data\n      name:\n        it.amount: ${input.amount}\n      unique: true\n",
		"nothing": "      list: body.data\n",
		"a state": "      state: body.data.exists(x, x.amount == input.amount)\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(payPolicy, "      list: body.data\n      mark: it.ref\n", mark, 1)
			if name == "a state" {
				text = strings.NewReplacer("    token: {", "    effect: safe\n    token: {", "      same: it.amount == input.amount\n      receipt: it.id\n", "").Replace(text)
			}
			w := newWorld(t, text)
			w.known("pay")
			o := w.doubt("pay", 419, 421) // it landed, and its amount was changed on the way
			w.pass(pastProof)
			r := w.read(o.ID)
			need.That(t, r.Read.Verdict == ledger.CannotTell && r.Operation.State == ledger.Uncertain, "%s: %s", r.Read.Verdict, r.Read.Reason)
		})
	}
}

// A read that began while effects were still shown may have ended when they no
// longer were.
func TestI6_ReadThatOutlastsVisibleFor(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "visible_within: 10s", "visible_within: 10s\n    visible_for: 2m", 1))
	o := w.doubt("pay", 420)
	w.pass(80 * time.Second)
	w.known("pay")
	w.pass(pastProof)
	first := true
	w.side.onList = func(_ *side, _ http.ResponseWriter, _ *http.Request) bool {
		if first {
			first = false
			w.pass(30 * time.Second)
		}
		return false
	}
	r := w.read(o.ID)
	need.That(t, r.Read.Verdict == ledger.CannotTell && strings.Contains(r.Read.Reason, "too late"), "%s: %s", r.Read.Verdict, r.Read.Reason)
}
