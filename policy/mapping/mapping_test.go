package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// told is what a mapping makes of a source, a line a row.
func told(t *testing.T, m *Mapping, source string) string {
	t.Helper()
	var out strings.Builder
	for row, err := range m.Rows(t.Context(), strings.NewReader(source)) {
		op, skip := Operation{}, false
		if err == nil {
			op, skip, err = m.Read(t.Context(), row)
		}
		var bad *RowError
		switch {
		case errors.As(err, &bad):
			fmt.Fprintf(&out, "%s: bad: %s\n", row.Place, bad.Message)
		case err != nil:
			fmt.Fprintf(&out, "end: %v\n", err)
		case skip:
			fmt.Fprintf(&out, "%s: left out\n", row.Place)
		default:
			fmt.Fprintf(&out, "%s: %s of %s, %s, %s%s\n  input %s\n  error %s\n", row.Place, op.Kind, cmp.Or(op.Source+" "+op.Run, "?"), op.At.Format(time.RFC3339Nano), op.Outcome, op.Proof, op.Input, op.Error)
		}
	}
	return out.String()
}

// What the mappings of the program make of what those systems print.
func TestWhatIsRead(t *testing.T) {
	for name, want := range map[string]string{
		"sidekiq.jsonl": `line 1: Billing::ChargeJob of billing , 2025-06-15T15:06:40.125Z, uncertain
  input {"args":["cus_42",4200]}
  error Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket:(closed)>
line 2: MailJob of mail , 2025-06-15T15:08:20.25Z, uncertain
  input {"args":["ada@example.org","welcome"]}
  error EOFError: end of file reached
`,
		"oban.jsonl": `line 1: Shop.PayoutWorker of payouts , 2025-06-15T10:00:00.123Z, uncertain
  input {"account":"acc_7","amount":9900}
  error ** (Mint.TransportError) connection closed
line 2: left out
line 3: left out
`,
		"airflow.json": `row 1: billing.post_invoice of billing scheduled__2025-06-15T00:00:00+00:00, 2025-06-15T00:00:00Z, uncertain
  input {"dag_run_id":"scheduled__2025-06-15T00:00:00+00:00","map_index":-1,"rendered_fields":{"data":{"invoice":"INV-1042"},"endpoint":"/v1/invoices"}}
  error the task failed on try 3
row 2: billing.post_invoice of billing manual__2025-06-16T09:00:00+00:00, 2025-06-16T09:00:05.25Z, uncertain
  input {"dag_run_id":"manual__2025-06-16T09:00:00+00:00","map_index":4,"rendered_fields":{}}
  error the task failed on try 1
row 3: left out
`,
		"sqs.json": `row 1: invoices of arn:aws:sqs:eu-central-1:111122223333:invoices , 2025-06-15T15:06:40Z, uncertain
  input {"amount":120,"invoice":"INV-7"}
  error received 6 times, and never deleted
row 2: orders.fifo of arn:aws:sqs:eu-central-1:111122223333:orders.fifo , 2025-06-01T15:06:40Z, uncertain
  input "plain words"
  error received 3 times, and never deleted
`,
		"kafka.jsonl": `line 1: crm-sink of crm-sink 0, 2025-06-15T15:06:40Z, uncertain
  input {"key":"lead-5","topic":"leads","value":{"lead":5,"name":"Ada"}}
  error org.apache.kafka.connect.errors.RetriableException: Read timed out
line 2: crm-sink of crm-sink 0, 2025-06-15T15:06:41Z, uncertain
  input {"key":null,"topic":"leads","value":"{{"}
  error org.apache.kafka.connect.errors.DataException: not a struct
line 3: bad: at: it says no time
`,
	} {
		t.Run(name, func(t *testing.T) {
			text := need.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
			m := need.Get(Load(strings.TrimSuffix(name, filepath.Ext(name)), "", nil))(t)
			need.Equal(t, told(t, m, string(text)), want, "")
		})
	}
	need.Equal(t, len(Names()), 6, "mappings; each has its test here")
}

// A row that is none does not hide the next, and says what is wrong with it.
func TestWhatIsNoOperation(t *testing.T) {
	m := need.Get(Load(Plain, "", nil))(t)
	row := func(more string) string { return `{"kind":"post","at":"2025-06-15T10:00:00Z"` + more + "}\n" }
	for source, want := range map[string]string{
		row(""):                                           "line 1: post of  , 2025-06-15T10:00:00Z, uncertain\n  input \n  error \n",
		"\ufeff\r\n" + row(`,"key":7`):                    "line 2: post of",
		"[" + row("") + "," + row("") + "]":               "row 2: post of",
		row("") + "{\n" + row(""):                         "line 2: bad: it is not JSON",
		"[" + row("") + ",":                               "end: it is not JSON behind row 1",
		"[" + row(""):                                     "end: the list ends too early",
		row(`,"outcome":"committed"`):                     "bad: outcome `committed` is neither",
		row(`,"outcome":"failed"`):                        "bad: outcome failed needs a proof",
		row(`,"outcome":"failed","proof":"absent"`):       "bad: outcome failed needs a proof",
		row(`,"proof":"refused"`):                         "bad: proof `refused` belongs to",
		row(`,"outcome":"failed","proof":"refused"`):      "failedrefused",
		row(`,"token":"tok-1"`):                           "bad: the token `tok-1` is not in the input",
		row(`,"token":"tok-1","input":"a tok-1"`):         "uncertain",
		row(`,"key_sent":"yes"`):                          "bad: key_sent:",
		row(`,"key":{"a":1}`):                             "bad: key: a list or mapping",
		row(`,"key":"a\u0000b"`):                          "bad: key: it has a NUL",
		row(`,"key":"` + strings.Repeat("k", 1001) + `"`): "bad: key: longer than 1000 bytes",
		row(`,"kind":"x"`):                                "bad: it is not JSON: duplicate member name",
		`{"kind":"a b","at":1750000000}`:                  "bad: a policy cannot name the kind `a b`",
		`{"at":1750000000}`:                               "bad: kind: ",
		`{"kind":"post"}`:                                 "bad: at: ",
		`{"kind":"post","at":null}`:                       "bad: at: it says no time",
		`{"kind":"post","at":"yesterday"}`:                "bad: at: yesterday is not a moment",
		`{"kind":"post","at":12}`:                         "too long ago",
		strings.Repeat("[", 20000):                        "end:",
		strings.Repeat("x", maxLine+1) + "\n" + row(""):   "line 2: post of",
	} {
		got := told(t, m, source)
		need.That(t, strings.Contains(got, want), "%.80q\n%.300s\nwant %q", source, got, want)
	}
}

// The same row has the same id wherever it stands, and another row, source or mapping
// another one.
func TestARowKeepsItsID(t *testing.T) {
	id := func(name, source string, over ...string) (id string) {
		m := need.Get(Load(name, "", over))(t)
		for row, err := range m.Rows(t.Context(), strings.NewReader(source)) {
			need.OK(t, err, "read")
			op, _, err := m.Read(t.Context(), row)
			need.OK(t, err, "map")
			id = op.ID
		}
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
		"kind: row.kind\n":                            "says no `at`",
		"kind: row.kind\nat: row.at\nwhat: row.x\n":   "has no field `what`",
		"kind: row.kind\nat: rows.at\n":               "at: rows.at: `rows` may not stand here",
		"kind: row.kind\nat: row.at\nkey_sent: '1'\n": "must give true or false",
		"kind: row.kind\nat: [row.at]\n":              "not a list of `field: expression`",
		"kind: row.kind\nat: it.at\n":                 "`it` may not stand here",
		"kind: env.X\nat: row.at\n":                   "`env` may stand only in what is sent",
	} {
		need.OK(t, os.WriteFile(file, []byte(text), 0o600), "write")
		_, err := Load("", file, nil)
		need.That(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %q", text, err, want)
	}
	for _, over := range []string{"kind", "what=1", "kind="} {
		_, err := Load(Plain, "", []string{over})
		need.That(t, err != nil, "--map %s is taken", over)
	}
	_, err := Load("sidkiq", "", nil)
	need.That(t, err != nil, "a name that is none")
}
