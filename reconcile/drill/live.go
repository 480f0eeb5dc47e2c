package drill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"indoubt/ledger"
)

// live writes now and then, as an ordinary night does, until it is killed.
func (p *pipeline) live(seed uint64, every time.Duration) {
	random := rand.New(rand.NewPCG(seed, digest(seed, p.name)))
	for i := 0; ; i++ {
		pause := every/2 + time.Duration(random.Int64N(int64(every)))
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
			return
		}
		p.send(errand(p.name, random, i), time.Time{})
	}
}

// errand is the nth thing a pipeline does on an ordinary night.
func errand(name string, random *rand.Rand, n int) wish {
	key := fmt.Sprintf("%s-%d-%d", name, os.Getpid(), n)
	w := wish{Name: key, Key: key, ID: ledger.NewID(), Token: ledger.NewToken(), Run: "live"}
	switch name {
	case "signup":
		who := pick(random, "lena", "omar", "ivy", "tom", "noor", "pia", "jan", "rui")
		w.Kind, w.Input = "mail.send", encode(fields{"to": fmt.Sprintf("%s%d@example.com", who, n), "subject": "Welcome"})
	case "news":
		w.Kind, w.Input = "x.post", encode(fields{"text": fmt.Sprintf("%s, number %d", pick(random, "New in the docs", "Weekly numbers", "We are hiring", "Status: all green"), n)})
	case "release":
		w.Kind = "deploy"
		w.Input = encode(fields{"service": pick(random, "worker", "search", "mailer"), "version": fmt.Sprintf("2.%d.%d", n, random.IntN(9)), "to": "prod"})
	default:
		w.Kind, w.Input = "stripe.charge", chargeInput(customer(random), 100*(5+random.IntN(400)), fmt.Sprintf("INV-%d", 3000+n))
	}
	return w
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

func pick(random *rand.Rand, some ...string) string { return some[random.IntN(len(some))] }
