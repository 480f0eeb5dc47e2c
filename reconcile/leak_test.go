package reconcile

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What the other side repeats of our secrets is kept nowhere: not in the
// evidence, not in the reason, under whatever name it was sent.
func TestI11_RepeatedSecretsAreNotKept(t *testing.T) {
	t.Setenv("PAY_PIN", "pin 7/7+hush")
	for name, body := range map[string]string{
		"a valid answer":      `{"object":"list","data":[],"more":false,"next":0,"asked":{"k":"pin 7/7+hush","url":"/charges?k=pin+7%2F7%2Bhush"}}`,
		"an answer of no use": `{"object":"pin 7/7+hush"}`,
		"no JSON":             `who is pin 7/7+hush?`,
		"a wrong type":        `{"object":"list","data":["pin 7/7+hush"],"more":false,"next":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(`after: "${cursor}"`, `after: "${cursor}", k: "${env.PAY_PIN}"`,
				`found: body.data.filter(x, x.ref == token)`, `found: "body.data.filter(x, {token: true}[x])"`).Replace(payPolicy)
			if name != "a wrong type" {
				text = strings.Replace(payPolicy, `after: "${cursor}"`, `after: "${cursor}", k: "${env.PAY_PIN}"`, 1)
			}
			w := newWorld(t, text)
			o := w.doubt("pay", 420)
			w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("k") != "pin 7/7+hush" {
					t.Error("the secret was not sent")
				}
				_, _ = rw.Write([]byte(body))
				return true
			}
			r := w.read(o.ID).Read
			kept, _ := json.Marshal(w.get(o.ID).Reads)
			for _, form := range []string{"hush", "7%2F7"} {
				if strings.Contains(string(kept)+r.Reason, form) {
					t.Errorf("%s is kept: %s", form, kept)
				}
			}
			if !strings.Contains(string(kept), "redacted") {
				t.Errorf("nothing was taken out: %s", kept)
			}
		})
	}
}
