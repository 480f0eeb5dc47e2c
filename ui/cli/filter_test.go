package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// listed are the ids that a list prints, and what it says beside them.
func (b *bench) listed(args ...string) (ids []string, beside string) {
	b.Helper()
	var data struct {
		Operations []struct{ ID string }
		LeftOut    []string `json:"left_out"`
	}
	need.OK(b, json.Unmarshal(b.json(0, append([]string{"list", "--limit", "500"}, args...)...).Data, &data))
	for _, row := range data.Operations {
		ids = append(ids, row.ID)
	}
	return ids, strings.Join(data.LeftOut, "\n")
}

// What a filter asks is answered for settled operations too, or it says which it leaves out.
func TestAFilterAnswersForSettledOperations(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "legacy.charge", `{"customer":"cus_2","amount":200}`)
	b.doubt(3, "stripe.charge", unlike(3))
	b.want(0, "confirm", b.at(1), "--reason", "seen")
	b.want(0, "confirm", b.at(2), "--reason", "seen")
	for filter, want := range map[string]int{"error:timeout": 3, "error:timeout state:committed": 2, "downstream:stripe": 2, "downstream:stripe state:committed": 1,
		" -downstream:stripe": 1} {
		ids, beside := b.listed(filter)
		need.That(t, len(ids) == want && beside == "", "%s finds %d of %d, and says %q", filter, len(ids), want, beside)
	}
	ids, beside := b.listed("cost>1 kind:legacy.charge")
	need.That(t, len(ids) == 1 && strings.Contains(beside, "cost: settled operations may have none here"), "cost>1 finds %d, and says %q", len(ids), beside)
	need.Contains(t, b.want(0, "list", "cost>1 kind:legacy.charge"), "1 operation\ncost: settled")
	for _, filter := range []string{"cost>1 state:uncertain", "cost>1 needs:you"} {
		_, beside = b.listed(filter)
		need.Equal(t, beside, "", filter)
	}

	b.env["INDOUBT_POLICY"] = "/dev/null"
	ids, beside = b.listed("downstream:stripe")
	need.That(t, len(ids) == 2 && strings.Contains(beside, "downstream: settled operations are left out"), "without a policy it finds %d, and says %q", len(ids), beside)
	delete(b.env, "INDOUBT_POLICY")
}

// needs:you is the console's first list, however much there is of each sort.
func TestNeedsYouIsTheFirstList(t *testing.T) {
	b, _ := everyState(t)
	var tab []string
	for _, row := range need.Get(b.open().Page(t.Context(), ledger.Query{Tab: ledger.TabNeedsYou, Order: ledger.OrderLoss, Now: b.now, Limit: 500}))(t).Rows {
		tab = append(tab, row.ID)
	}
	filter, _ := b.listed("needs:you")
	need.That(t, len(tab) > 5, "%d rows need a person", len(tab))
	need.Equal(t, strings.Join(filter, " "), strings.Join(tab, " "))
	rest, _ := b.listed(" -needs:you")
	all, _ := b.listed()
	need.That(t, len(rest)+len(tab) == len(all), "%d need a person, %d do not, of %d", len(tab), len(rest), len(all))
	need.Contains(t, b.want(2, "list", "needs:me"), "there is no needs:me")
}

// No one takes a page for the whole, in whatever form it is printed.
func TestAListSaysThatThereIsMore(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 3; n++ {
		b.doubt(n, "stripe.charge", unlike(n))
	}
	for limit, more := range map[string]bool{"2": true, "3": false} {
		var page struct {
			More bool
			Hint string
		}
		need.OK(t, json.Unmarshal(b.json(0, "list", "--limit", limit).Data, &page))
		need.That(t, page.More == more && more == strings.Contains(page.Hint, "--limit"), "%s: %+v", limit, page)
	}
	need.Contains(t, b.want(0, "list", "--limit", "2"), "there are more")
	need.That(t, !strings.Contains(b.want(0, "list", "--limit", "3"), "there are more"), "three of three")
}
