package mapping

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// told is what a mapping makes of a source, a line a row.
func told(t *testing.T, m *Mapping, source string) string {
	t.Helper()
	var out strings.Builder
	err := m.Rows(t.Context(), strings.NewReader(source), func(row Row, err error) error {
		op, skip := Operation{}, false
		if err == nil {
			op, skip, err = m.Read(t.Context(), row)
		}
		var bad *Error
		switch {
		case errors.As(err, &bad):
			fmt.Fprintf(&out, "%s: bad: %s\n", row.Place, bad.Message)
		case skip:
			fmt.Fprintf(&out, "%s: left out\n", row.Place)
		default:
			fmt.Fprintf(&out, "%s: %s of %s, %s, %s\n  input %s\n  error %s\n", row.Place, op.Kind, cmp.Or(op.Source+" "+op.Run, "?"), op.At.Format(time.RFC3339Nano), op.Proof, op.Input, op.Error)
		}
		return nil
	})
	need.OK(t, err)
	return out.String()
}

// What the mappings of the program make of what those systems print.
func TestWhatIsRead(t *testing.T) {
	for name, want := range map[string]string{
		"sidekiq.jsonl": `line 1: Billing::ChargeJob of billing , 2025-06-15T15:06:40.125Z, 
  input {"args":["cus_42",4200]}
  error Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket:(closed)>
line 2: MailJob of mail , 2025-06-15T15:08:20.25Z, 
  input {"args":["ada@example.org","welcome"]}
  error EOFError: end of file reached
`,
		"oban.jsonl": `line 1: Shop.PayoutWorker of payouts , 2025-06-15T10:00:00.123Z, 
  input {"account":"acc_7","amount":9900}
  error ** (Mint.TransportError) connection closed
line 2: left out
line 3: left out
`,
		"airflow.jsonl": `line 1, row 1: billing.post_invoice of billing scheduled__2025-06-15T00:00:00+00:00, 2025-06-15T00:00:00Z, 
  input {"dag_run_id":"scheduled__2025-06-15T00:00:00+00:00","map_index":-1,"rendered_fields":{"data":{"invoice":"INV-1042"},"endpoint":"/v1/invoices"}}
  error the task failed on try 3
line 1, row 2: billing.post_invoice of billing manual__2025-06-16T09:00:00+00:00, 2025-06-16T09:00:05.25Z, 
  input {"dag_run_id":"manual__2025-06-16T09:00:00+00:00","map_index":4,"rendered_fields":{}}
  error the task failed on try 1
line 1, row 3: left out
`,
		"sqs.jsonl": `line 1, row 1: invoices of arn:aws:sqs:eu-central-1:111122223333:invoices , 2025-06-15T15:06:40Z, 
  input {"amount":120,"invoice":"INV-7"}
  error received 6 times, and never deleted
line 1, row 2: orders.fifo of arn:aws:sqs:eu-central-1:111122223333:orders.fifo , 2025-06-01T15:06:40Z, 
  input "plain words"
  error received 3 times, and never deleted
`,
		"kafka.jsonl": `line 1: crm-sink of crm-sink 0, 2025-06-15T15:06:40Z, 
  input {"key":"lead-5","topic":"leads","value":{"lead":5,"name":"Ada"}}
  error org.apache.kafka.connect.errors.RetriableException: Read timed out
line 2: crm-sink of crm-sink 0, 2025-06-15T15:06:41Z, 
  input {"key":null,"topic":"leads","value":"{{"}
  error org.apache.kafka.connect.errors.DataException: not a struct
line 3: crm-sink of crm-sink 0, 2000-01-01T00:00:00Z, 
  input {"key":null,"topic":"leads","value":"x"}
  error 
`,
		"rabbitmq.jsonl": `line 1, row 1: invoices of dead , 2025-06-15T15:06:40Z, 
  input {"invoice":"INV-7","n":120}
  error rejected in invoices
line 1, row 2: mails of dead , 2000-01-01T00:00:00Z, 
  input "hello"
  error expired in mails
line 1, row 3: dead of dead , 2000-01-01T00:00:00Z, 
  input "bare"
  error 
`,
		"celery.jsonl": `line 1: billing.charge of billing celery@web-1, 2000-01-01T00:00:00Z, 
  input {"args":["cus_42",4200],"kwargs":{}}
  error requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='pay.example', port=443): Read timed out.
line 2: mail.send of  celery@web-2, 2025-06-15T15:08:20.25Z, 
  input {"args":"('ada@example.org',)","kwargs":"{'template': 'welcome'}"}
  error 
line 3: left out
`,
	} {
		t.Run(name, func(t *testing.T) {
			text := need.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
			m := need.Get(Load(strings.TrimSuffix(name, filepath.Ext(name)), nil))(t)
			need.Equal(t, told(t, m, string(text)), want, "")
		})
	}
	need.Equal(t, len(Names()), 8, "mappings; each has its test here")
}

// A row that is none does not hide the next, and says what is wrong with it.
func TestWhatIsNoOperation(t *testing.T) {
	m := need.Get(Load(Plain, nil))(t)
	row := func(more string) string { return `{"kind":"post","at":"2025-06-15T10:00:00Z"` + more + "}\n" }
	for source, want := range map[string]string{
		"":                                   "",
		"\n\r\n":                             "",
		row(""):                              "line 1: post of  , 2025-06-15T10:00:00Z, \n  input \n  error \n",
		"\ufeff\r\n" + row(`,"key":7`):       "line 2: post of",
		strings.TrimSpace(row("")) + "\r\n":  "line 1: post of",
		`[{"kind":"a","at":1},{"kind":"b"}]`: "line 1, row 2: b of",
		row("") + "{\n" + row(""):            "line 2: bad: one JSON value was expected",
		row("") + "{\n" + row("\t"):          "line 3: post of",
		"[" + row(""):                        "line 1: bad: one JSON value was expected",
		"7\n":                                "line 1: bad: kind:",
		row(`,"outcome":"committed"`):        "left out",
		row(`,"proof":"not_there"`):          "bad: proof: never_sent or refused was expected",
		row(`,"proof":"refused"`):            "Z, refused",
		row(`,"token":"tok-1"`):              "bad: token: `tok-1` is not in the input",
		row(`,"token":"tok-1","input":"a tok-1"`):             "line 1: post of",
		row(`,"key_sent":"yes"`):                              "bad: key_sent: true or false was expected",
		row(`,"key":{"a":1}`):                                 "bad: key: a text or number was expected",
		row(`,"key":"a\u0000b"`):                              "bad: key: it has a NUL",
		row(`,"key":"` + strings.Repeat("k", 1001) + `"`):     "bad: key: 1000 bytes at most were expected",
		row(`,"kind":"x"`):                                    "bad: one JSON value was expected: duplicate member name",
		row(`,"error":{"code":504}`):                          `error {"code":504}`,
		row(`,"input":{"coupon":null}`):                       `input {"coupon":null}`,
		`{"kind":"a b","at":1750000000}`:                      "bad: kind: a policy cannot name `a b`",
		`{"at":1750000000}`:                                   "bad: kind: row.kind: the row has no `kind`",
		`{"kind":null}`:                                       "bad: kind: row.kind: the row has no `kind`",
		`{"kind":"post"}`:                                     "post of  , 2000-01-01T00:00:00Z",
		`{"kind":"post","at":null}`:                           "post of  , 2000-01-01T00:00:00Z",
		`{"kind":"post","at":"1750000000"}`:                   "2025-06-15T15:06:40Z",
		`{"kind":"post","at":1750000000250}`:                  "2025-06-15T15:06:40.25Z",
		`{"kind":"post","at":"yesterday"}`:                    "bad: at: seconds, milliseconds or RFC 3339 with a zone was expected, after 2000, not yesterday",
		`{"kind":"post","at":"2025-06-15T10:00:00"}`:          "RFC 3339 with a zone was expected",
		`{"kind":"post","at":12}`:                             "after 2000, not 12",
		`{"kind":"post","at":[]}`:                             "bad: at: ",
		strings.Repeat("[", 20000):                            "bad: it is nested too deeply",
		strings.Repeat("x", maxLine+1) + "\n" + row(""):       "line 2: post of",
		row(`,"input":"` + strings.Repeat("x", 10<<20) + `"`): "line 1: post of",
	} {
		got := told(t, m, source)
		need.That(t, strings.Contains(got, want), "%.80q\n%.300s\nwant %q", source, got, want)
	}
}

// What a row lacks makes it bad only where its kind, or whether it counts, is not known
// then: every member of each system's first row is missing once, null, and of another type.
func TestWhatARowMayLack(t *testing.T) {
	required := map[string][]string{
		"sidekiq": {"class"}, "oban": {"worker"}, "airflow": {"dag_id", "task_id"}, "sqs": {"Attributes", "Attributes.DeadLetterQueueSourceArn"},
		"kafka": {"headers"}, "rabbitmq": {}, "celery": {"name"},
	}
	for name, needs := range required {
		m, first := need.Get(Load(name, nil))(t), any(nil)
		file := need.Get(os.ReadFile(filepath.Join("testdata", name+".jsonl")))(t)
		need.OK(t, m.Rows(t.Context(), bytes.NewReader(file), func(row Row, err error) error {
			if first == nil {
				need.OK(t, json.Unmarshal(row.Text, &first))
			}
			return err
		}))
		var walk func(at map[string]any, prefix string)
		walk = func(at map[string]any, prefix string) {
			for _, member := range slices.Sorted(maps.Keys(at)) {
				was := at[member]
				for what, change := range map[string]func(){
					"missing": func() { delete(at, member) }, "null": func() { at[member] = nil }, "a list": func() { at[member] = []any{} }, "an object": func() { at[member] = map[string]any{} },
					"text": func() { at[member] = fmt.Sprint(was) }, "a number": func() { at[member] = 1750000000 }, "true": func() { at[member] = true },
				} {
					change()
					got := told(t, m, string(need.Get(json.Marshal([]any{first}))(t)))
					if path := prefix + member; (what == "missing" || what == "null") && strings.Contains(got, "bad") && !slices.Contains(needs, path) {
						t.Errorf("%s: %s is %s: %s", name, path, what, got)
					} else if strings.Contains(got, "bad") {
						need.That(t, !strings.Contains(got, "error:"), "%s", got)
					}
					at[member] = was
				}
				if inner, ok := was.(map[string]any); ok {
					walk(inner, prefix+member+".")
				}
			}
		}
		walk(first.(map[string]any), "")
	}
}

// The same row has the same id wherever it stands, and another row, source or mapping
// another one.
func TestARowKeepsItsID(t *testing.T) {
	id := func(name, source string, over ...string) (id string) {
		m := need.Get(Load(name, over))(t)
		need.OK(t, m.Rows(t.Context(), strings.NewReader(source), func(row Row, err error) error {
			need.OK(t, err, "read")
			op, _, err := m.Read(t.Context(), row)
			id = op.ID
			return err
		}), "map")
		return id
	}
	row, job := `{"kind":"post","at":1750000000,"source":"a"}`, `{"class":"Post","jid":"1","queue":"a","created_at":1750000000,"args":[]}`
	same := id(Plain, row)
	need.Equal(t, id(Plain, "\n"+row+"\n"), same, "on another line")
	need.Equal(t, id(Plain, `{"at":1750000000, "kind":"post", "source":"a"}`), same, "written otherwise")
	need.Equal(t, id("sidekiq", job, "kind=row.queue"), id("sidekiq", job), "of another kind")
	seen := map[string]bool{same: true, id("sidekiq", job): true}
	for _, other := range []string{id(Plain, strings.Replace(row, `"a"`, `"b"`, 1)), id("sidekiq", strings.Replace(job, `"1"`, `"2"`, 1)), id("sidekiq", strings.Replace(job, `"a"`, `"b"`, 1))} {
		need.That(t, !seen[other], "two rows have one id")
		seen[other] = true
	}
}

// What is wrong with a mapping is said with its field and what to write.
func TestABrokenMapping(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	for text, want := range map[string]string{
		"at: row.at\n": "says no `kind`",
		"kind: row.kind\nat: row.at\nwhat: row.x\n":   "has no field `what`",
		"kind: row.kind\nat: rows.at\n":               "at: rows.at: `rows` may not stand here",
		"kind: row.kind\nat: row.at\nkey_sent: '1'\n": "must give true or false",
		"kind: row.kind\nat: [row.at]\n":              "not a list of `field: expression`",
		"kind: row.kind\nat: it.at\n":                 "`it` may not stand here",
		"kind: env.X\nat: row.at\n":                   "`env` may stand only in what is sent",
	} {
		need.OK(t, os.WriteFile(file, []byte(text), 0o600), "write")
		_, err := Load(file, nil)
		need.That(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %q", text, err, want)
	}
	for _, over := range []string{"kind", "what=1", "kind="} {
		_, err := Load(Plain, []string{over})
		need.That(t, err != nil, "--map %s is taken", over)
	}
	_, err := Load("sidkiq", nil)
	need.That(t, err != nil, "a name that is none")
}
