package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"indoubt/ledger"
)

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
