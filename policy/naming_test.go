package policy

import (
	"encoding/json"
	"testing"

	"indoubt/ledger"
)

func TestATitleNobodyGaveTellsOperationsApart(t *testing.T) {
	for _, c := range []struct{ kind, input, want string }{
		{"invoice.post", `{"lines":[{"sku":"A1"}],"customer":"cus_9","amount":4200}`, "invoice.post amount=4200 customer=cus_9 sku=A1"},
		{"http.api.example.com.post", `{"method":"POST","path":"/v1/charges","content_type":"application/json","body":{"amount":4200,"to":{"name":"Ana"}}}`, "POST /v1/charges amount=4200 name=Ana"},
		{"http.api.example.com.delete", `{"method":"DELETE","path":"/v1/charges/ch_1"}`, "DELETE /v1/charges/ch_1"},
		{"mcp.memory.create_entities", `{"entities":[{"entityType":"person","name":"Ana","observations":["a","b"]}]}`, "memory create_entities entityType=person name=Ana observations=a"},
		{"webhook", ``, "webhook"},
		{"webhook", `["a",1]`, "webhook"},
		{"http.odd", `{"method":1,"path":"/x"}`, "http.odd method=1 path=/x"},
	} {
		if got := Default().Kind(c.kind).Title(ledger.Operation{Kind: c.kind, Input: json.RawMessage(c.input)}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.kind, c.input, got, c.want)
		}
	}
}
