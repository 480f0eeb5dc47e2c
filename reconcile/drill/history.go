package drill

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"time"

	"indoubt/ledger"
)

// ordinaryDays fills the day before: writes that went well, and enough settled
// doubts that the odds of later ones rest on something.
func (s *script) ordinaryDays() {
	for i := range 12 {
		at := -26*time.Hour + time.Duration(i)*2*time.Hour
		var charges []wish
		for j := range 5 {
			charges = append(charges, s.wish("stripe.charge", at, chargeInput(customer(s.random), 100*(10+s.random.IntN(500)), fmt.Sprintf("INV-%d", 1000+10*i+j))))
		}
		s.write(at, time.Second, "billing", charges...)
		var welcomes []wish
		for j := range 4 {
			welcomes = append(welcomes, s.wish("mail.send", at, encode(fields{"to": fmt.Sprintf("user%d@example.com", 100+4*i+j), "subject": "Welcome"})))
		}
		s.write(at+time.Minute, time.Second, "signup", welcomes...)
	}
	for i := range 6 {
		at := -25*time.Hour + time.Duration(i)*4*time.Hour
		s.write(at, 3*time.Second, "billing", s.wish("bank.payout", at, encode(fields{"amount": 100 * (100 + s.random.IntN(900)),
			"destination": "acct_" + customer(s.random)[4:], "invoice": fmt.Sprintf("PO-%d", 40+i)})))
		at += time.Hour
		s.write(at, 20*time.Second, "release", s.wish("deploy", at, encode(fields{"service": "web", "version": fmt.Sprintf("4.17.%d", i), "to": "prod"})))
	}
	s.lostPosts()
	s.lostLegacyCharges()
	w := s.wish("mail.send", -9*time.Hour, encode(fields{"to": "old@example.com", "subject": "Your trial ends"}))
	s.lose(-9*time.Hour, 10*time.Second, "signup", HangBefore, w)
	s.decide(-9*time.Hour+5*time.Minute, "maya", ledger.VerbAbandon, w, ledger.Decision{Reason: "the account was closed meanwhile"})
}

// lostPosts are 37 posts whose answer was lost; 31 were out there.
func (s *script) lostPosts() {
	const posts, atOnce = 37, 6 // every sixth was not
	for first := 0; first < posts; first += atOnce {
		at := -24*time.Hour + time.Duration(first/atOnce)*3*time.Hour
		var landed, missed []wish
		for i := first; i < min(first+atOnce, posts); i++ {
			w := s.wish("x.post", at, encode(fields{"text": fmt.Sprintf("Changelog, entry %d", 200+i)}))
			if i%atOnce == 3 {
				missed = append(missed, w)
			} else {
				landed = append(landed, w)
			}
		}
		s.lose(at, 20*time.Second, "news", CommitAndHang, landed...)
		s.lose(at+time.Second, 20*time.Second, "news", HangBefore, missed...)
		s.check(at + 30*time.Minute)
		for _, w := range missed {
			s.decide(at+40*time.Minute, "kim", ledger.VerbDeny, w, ledger.Decision{Reason: "not on the timeline"})
			s.decide(at+41*time.Minute, "kim", ledger.VerbAbandon, w, ledger.Decision{Reason: "old news by now"})
		}
	}
}

// lostLegacyCharges are the four settled cases behind "50 %, n4".
func (s *script) lostLegacyCharges() {
	for i, amount := range []int{84000, 19900, 250000, 43000} {
		at := -23*time.Hour + time.Duration(i)*5*time.Hour
		w := s.wish("legacy.charge", at, chargeInput(customer(s.random), amount, fmt.Sprintf("INV-%d", 2100+i)))
		if i%2 == 0 {
			s.lose(at, 30*time.Second, "billing", CommitAndHang, w)
			s.decide(at+35*time.Minute, "sam", ledger.VerbConfirm, w, ledger.Decision{Reason: "their support sent the reference"})
			continue
		}
		s.lose(at, 30*time.Second, "billing", HangBefore, w)
		s.decide(at+50*time.Minute, "maya", ledger.VerbDeny, w, ledger.Decision{Reason: "their support says: never arrived"})
		s.decide(at+52*time.Minute, "maya", ledger.VerbAbandon, w, ledger.Decision{Reason: "billed by hand"})
	}
}

// The outage: six minutes in which 214 charges got no answer or a bad one.
const (
	outageLanded   = 131
	outageAbsent   = 68
	outageCut      = 5 // among more charges than the list shows
	outageAgain    = 1
	outageDeclined = 9
	outageBegin    = -53 * time.Minute
	outageTimeout  = 30 * time.Second
)

// shape is how many of the outage's errors fall into each half minute.
var shape = []int{3, 5, 8, 20, 28, 31, 31, 28, 22, 16, 12, 10}

func (s *script) outage() {
	faults := make([]Fault, 0, 214)
	for range outageLanded {
		faults = append(faults, CommitAndHang)
	}
	for range outageAbsent {
		faults = append(faults, HangBefore)
	}
	for range outageDeclined {
		faults = append(faults, "")
	}
	s.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })

	n, worst, least := 0, false, math.MaxInt
	for slot, size := range shape {
		at := outageBegin + time.Duration(slot)*30*time.Second
		some := map[Fault][]wish{}
		for range size {
			if n == len(faults) {
				break
			}
			who, cents := customer(s.random), 100*(20+s.random.IntN(800))
			switch {
			case faults[n] == "":
				who = "cus_declined" + who[4:]
			case faults[n] == HangBefore && !worst && n > 90:
				who, cents, worst = "cus_4Tz", 290000, true
			}
			w := s.wish("stripe.charge", at, chargeInput(who, cents, fmt.Sprintf("INV-%d", 1200+n)))
			if faults[n] == HangBefore && cents < least {
				least, s.w.unclear = cents, w
			}
			some[faults[n]] = append(some[faults[n]], w)
			n++
		}
		s.lose(at, outageTimeout, "billing", CommitAndHang, some[CommitAndHang]...)
		s.lose(at+time.Second, outageTimeout, "billing", HangBefore, some[HangBefore]...)
		if len(some[""]) > 0 {
			s.write(at+2*time.Second, time.Second, "billing", some[""]...)
		}
	}
	s.wholesale()
	s.again()
	s.check(outageBegin + 8*time.Minute)
	s.check(outageBegin + 9*time.Minute)
	s.check(outageBegin + 11*time.Minute)
}

// wholesale is a batch of charges whose list breaks off before it shows what is looked
// for: nothing can be told of them.
func (s *script) wholesale() {
	const whole, at = "cus_Whole", outageBegin + 3*time.Minute + 7*time.Second // alone in its second
	var some []wish
	for i := range outageCut {
		some = append(some, s.wish("stripe.charge", at, chargeInput(whole, 42000, fmt.Sprintf("INV-%d", 1190+i))))
	}
	s.lose(at, outageTimeout, "billing", HangBefore, some...)
	since := url.Values{"created[gte]": {fmt.Sprint(s.w.start.Add(at).Unix() - 600)}}.Encode()
	s.stay = append(s.stay, Trouble{Fault: Truncate, Path: "/v1/payment_intents", Match: since, Limit: 20})
	s.at(outageBegin, func(context.Context) error {
		s.w.Downstream.Meet(s.stay...)
		return nil
	})
}

// again is a charge of the outage that its pipeline, restarted without memory,
// wanted again under a new key.
func (s *script) again() {
	input := chargeInput("cus_9f2", 42000, "INV-1187")
	s.lose(outageBegin+2*time.Minute, outageTimeout, "billing", HangBefore, s.wish("stripe.charge", outageBegin+2*time.Minute, input))
	again := s.wish("stripe.charge", -8*time.Minute, input)
	again.Run = "batch-3"
	s.write(-8*time.Minute, time.Second, "billing", again)
}

func chargeInput(customer string, cents int, invoice string) []byte {
	return encode(fields{"amount": cents, "currency": "usd", "customer": customer, "invoice": invoice})
}

func customer(random *rand.Rand) string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	b := []byte("cus_")
	for range 5 {
		b = append(b, letters[random.IntN(len(letters))])
	}
	return string(b)
}
