package drill

import (
	"context"
	"encoding/json"
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

// cases are the ones that need a look each, after the outage.
func (s *script) cases() {
	s.bigLegacyCharge()
	s.payoutTwice()
	s.overtakenDeploy()
	s.lostAnnouncement()
	s.missingWelcome()
	s.unfetched()
	s.recent()
	s.inFlight()
}

// bigLegacyCharge: big money, no key, no check.
func (s *script) bigLegacyCharge() {
	const at = -51 * time.Minute
	w := s.wish("legacy.charge", at, chargeInput("cus_1QX", 1200000, "INV-2207"))
	w.Run = "batch-2"
	s.lose(at, outageTimeout, "billing", HangBefore, w)
	s.decide(-6*time.Minute, "sam", ledger.VerbNote, w, ledger.Decision{Reason: "asking their support, ticket 4411"})
}

// payoutTwice: a person said that it did not land, without a check; it had.
func (s *script) payoutTwice() {
	const at = -41*time.Minute - 7*time.Second
	w := s.wish("bank.payout", at, encode(fields{"amount": 42000, "destination": "acct_7Kd", "invoice": "PO-77"}))
	w.Run = "payouts-7"
	s.lose(at, 7*time.Second, "billing", CommitAndHang, w)
	s.decide(-35*time.Minute, "ana", ledger.VerbDeny, w, ledger.Decision{Reason: "not in dashboard"})
	s.allow(-35*time.Minute+6*time.Second, "ana", w, ledger.BasisRiskAccepted, "supplier is waiting")
	s.write(-35*time.Minute+11*time.Second, time.Second, "billing", w)
	s.at(-26*time.Minute, func(ctx context.Context) error {
		_, err := s.w.engine.ReadNow(ctx, w.ID)
		return err
	})
}

// overtakenDeploy: its pipeline was killed in the middle, and a newer version
// went to the same place since.
func (s *script) overtakenDeploy() {
	const at = -38 * time.Minute
	old := s.wish("deploy", at, encode(fields{"service": "web", "version": "4.18.2", "to": "prod"}))
	s.crash(at, "release-1", CommitAndHang, old)
	s.expire(at + time.Minute)
	s.write(at+5*time.Minute, 20*time.Second, "release", s.wish("deploy", at+5*time.Minute, encode(fields{"service": "web", "version": "4.18.3", "to": "prod"})))
}

// lostAnnouncement: the search that could find it never shows it.
func (s *script) lostAnnouncement() {
	const at = -22 * time.Minute
	w := s.wish("x.post", at, encode(fields{"text": "v2.3 is out…"}))
	lag := Trouble{Fault: Lag, Path: "/posts/search", Match: w.Token, For: 1000 * time.Hour}
	s.stay = append(s.stay, lag)
	s.at(at, func(context.Context) error {
		s.w.Downstream.Meet(lag)
		return nil
	})
	s.lose(at, 20*time.Second, "news", CommitAndHang, w)
}

// missingWelcome: proven not to have landed; the machine does not send it.
func (s *script) missingWelcome() {
	const at = -19 * time.Minute
	w := s.wish("mail.send", at, encode(fields{"to": "ana@example.com", "subject": "Welcome"}))
	s.lose(at, 10*time.Second, "signup", HangBefore, w)
	s.check(at + 11*time.Second) // from which it waits
	s.check(-18 * time.Minute)
}

// unfetched: proven not to have landed and allowed to be sent once more, but
// billing has not come for them. It comes for the younger one later.
func (s *script) unfetched() {
	for i, at := range []time.Duration{-17 * time.Minute, -9 * time.Minute} {
		w := s.wish("bank.payout", at, encode(fields{"amount": 7700 + 1300*i, "destination": "acct_9Qe", "invoice": fmt.Sprintf("PO-%d", 81+i)}))
		w.Run = "payouts-8"
		s.lose(at, 7*time.Second, "billing", HangBefore, w)
		s.check(at + 8*time.Second)
		s.check(at + 3*time.Minute)
		s.allow(at+4*time.Minute, "maya", w, ledger.BasisProof, "proven, send it")
		if i == 1 {
			s.w.fetched = w
		}
	}
}

// What is recent is shown so long after it was sent, and given up so long after that.
const recentLag, recentAnswer = 33 * time.Second, 5 * time.Second

// recent: in doubt for seconds, with checks to come that settle them before the
// eyes of the person at the screen; too few for another outage. They are found before
// the policy proves that they are not there.
func (s *script) recent() {
	for i := range 3 {
		at := -24*time.Second + time.Duration(i)*6*time.Second
		w := s.wish("stripe.charge", at, chargeInput(customer(s.random), 100*(30+s.random.IntN(300)), fmt.Sprintf("INV-%d", 1500+i)))
		s.stay = append(s.stay, Trouble{Fault: Lag, Path: "/v1/payment_intents", Match: "customer=" + customerOf(w), For: recentLag})
		s.lose(at, recentAnswer, "billing", CommitAndHang, w)
	}
}

// inFlight: one whose answer is slow, and one whose pipeline was just killed, which
// shows only at its deadline.
func (s *script) inFlight() {
	slow := s.wish("stripe.charge", -3*time.Second, chargeInput("cus_Slow1", 18900, "INV-1601"))
	long := 18 * time.Second
	if !s.w.options.Now.IsZero() {
		long = 0 // where time stands still, it stays in flight
	}
	s.send(-3*time.Second, "billing", CommitAndHang, long, slow)
	killed := s.wish("stripe.charge", -2*time.Second, chargeInput("cus_Kill9", 31000, "INV-1602"))
	s.crash(-2*time.Second, "billing-2", CommitAndHang, killed)
}

func customerOf(w wish) string {
	var in struct{ Customer string }
	if err := json.Unmarshal(w.Input, &in); err != nil {
		panic(err) // it was made here
	}
	return in.Customer
}
