package policy

import (
	"fmt"
	"strings"
	"testing"
)

// What can never be there is told before it makes every expression err.
func TestNamesThatCannotBeThere(t *testing.T) {
	const read = `read: { http: { get: "https://h.example/x" }, list: body, mark: it.k, mark_is: key, unique: true, `
	for text, want := range map[string]string{
		`match: POST /x, title: "${input.customer}"`:                                                                   "title: reads input.customer",
		`match: POST /x, cost: { miss: double(input.amount) }`:                                                         "cost: reads input.amount",
		`match: POST /x, refused: body.id == input.id`:                                                                 "refused: reads input.id",
		`match: POST /x, key: { from: [order.id] }`:                                                                    "key.from: no request through the HTTP proxy has a order.id",
		`match: POST /x, ` + read + `same: it.a == input.a }`:                                                          "read: reads input.a",
		`match: POST /x, title: "${input.body.customer} ${input.path}"`:                                                "",
		`match: POST /x, input: "${input.body}", title: "${input.customer}"`:                                           "",
		`match: POST /x, title: '${has(input.body) ? input.body.id : input.id}'`:                                       "",
		`title: "${input.customer}", key: { from: [order.id] }`:                                                        "",
		`title: "${op.customer}"`:                                                                                      "title: `op` has no `customer`",
		`title: '${op["key"]}'`:                                                                                        "title: `op` has no `key`",
		`title: "${op.source.run} ${op.created_at} ${attempt.n}"`:                                                      "",
		read + `receipt: it.id + attempt.klass }`:                                                                      "read: `attempt` has no `klass`",
		read + `valid: exit == 0 }`:                                                                                    "read: asks for `exit`, which the answer of a read over http never has",
		read + `complete: size(rows) < 3 }`:                                                                            "read: asks for `rows`",
		read + `valid: status == 200 && header("X") == "" }`:                                                           "",
		`read: { command: [x, "${key}"], list: json.a, mark: it.k, mark_is: key, unique: true, valid: status == 200 }`: "read: asks for `status`, which the answer of a read over command never has",
	} {
		p, err := Parse("p.yaml", []byte("version: 1\nkinds:\n  k: { "+text+" }\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		said := fmt.Sprint(p.Warnings())
		named := strings.Contains(said, "which no request") || strings.Contains(said, "no request through") || strings.Contains(said, "has no `") || strings.Contains(said, "asks for `")
		if want == "" && named || want != "" && !strings.Contains(said, want) {
			t.Errorf("%s: %s", text, said)
		}
	}
	p, err := Parse("p.yaml", []byte("version: 1\nkinds: { http.api.example.post: { title: \"${input.customer}\" } }\n"))
	if err != nil || !strings.Contains(fmt.Sprint(p.Warnings()), "reads input.customer") {
		t.Errorf("%v %v", p.Warnings(), err)
	}
}
