package record

import (
	"encoding/json"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/wire/procgroup"
)

// I10: what a proxy sent that was killed is in doubt as soon as the same is asked of another one
// on its host. A command may still run; what another host sends is not known here.
func TestI10_TheProcessThatSentIsGone(t *testing.T) {
	const gone = 1 << 30 // above every process id
	elsewhere := procgroup.Here()
	elsewhere.BootID = "another"
	for name, c := range map[string]struct {
		sender string
		change func(*ledger.BeginRequest)
		want   ledger.BeginAnswer
	}{
		"a proxy":              {"http", func(q *ledger.BeginRequest) { q.PID = gone }, ledger.AnswerInDoubt},
		"an agent's":           {"mcp", func(q *ledger.BeginRequest) { q.PID = gone }, ledger.AnswerInDoubt},
		"one that lives":       {"http", func(*ledger.BeginRequest) {}, ledger.AnswerInProgress},
		"on another host":      {"http", func(q *ledger.BeginRequest) { q.PID, q.Place = gone, elsewhere }, ledger.AnswerInProgress},
		"a command":            {"command", func(q *ledger.BeginRequest) { q.PID, q.Tree = gone, ledger.TreeOpen }, ledger.AnswerInProgress},
		"begin, which is over": {"", func(q *ledger.BeginRequest) { q.PID = gone }, ledger.AnswerInProgress},
	} {
		r, store, _ := ledgerOver(t, KindRule{})
		w := Request{Kind: "post", Key: "k", Sender: c.sender, Input: json.RawMessage(`{}`)}
		req := need.Get(r.BeginRequest(t.Context(), w))(t)
		req.ChangeID, req.AttemptID = ledger.NewID(), ledger.NewID()
		c.change(&req)
		first := need.Get(ledger.Begin(t.Context(), store, req))(t)
		res := need.Get(r.Begin(t.Context(), w))(t)
		need.That(t, res.Answer == c.want && res.Operation.ID == first.Operation.ID, "%s: %s", name, res.Answer)
	}
}
