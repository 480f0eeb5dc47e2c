//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// letter is a dead letter of one system, as it prints them; %[1]d is its number.
type letter struct {
	from, row  string
	head, tail string // of the document, where rows stand in one
	token      string // where the row shows it
}

var deadLetters = []letter{
	{from: "sidekiq", token: "row.args[0]",
		row: `{"class":"MailJob","args":["nightly-letter-%[1]d","ada"],"queue":"mail","jid":"j%[1]d","created_at":1750000000.25,"error_class":"Net::ReadTimeout","error_message":"timed out","retry_count":24}`},
	{from: "oban", token: "row.args.ref",
		row: `{"id":%[1]d,"state":"discarded","queue":"mail","worker":"Shop.Mail","args":{"ref":"nightly-letter-%[1]d"},"errors":[{"at":"2025-06-15T10:00:09Z","attempt":1,"error":"** timeout"}],"attempt":20,"max_attempts":20,"inserted_at":"2025-06-15T10:00:00.123456"}`},
	{from: "airflow", token: "row.rendered_fields.ref", head: `{"task_instances":[`, tail: `],"total_entries":0}`,
		row: `{"task_id":"mail","dag_id":"night","dag_run_id":"r","map_index":%[1]d,"logical_date":"2025-06-15T00:00:00Z","start_date":"2025-06-15T01:00:00Z","state":"failed","try_number":2,"rendered_fields":{"ref":"nightly-letter-%[1]d"}}`},
	{from: "sqs", token: "parsed(row.Body).ref", head: `{"Messages":[`, tail: `]}`,
		row: `{"MessageId":"m%[1]d","Body":"{\"ref\":\"nightly-letter-%[1]d\"}","Attributes":{"SentTimestamp":"1750000000000","ApproximateReceiveCount":"5","DeadLetterQueueSourceArn":"arn:aws:sqs:eu-central-1:1:mail"}}`},
	{from: "rabbitmq", token: "parsed(row.payload).ref", head: `[`, tail: `]`,
		row: `{"routing_key":"dead","properties":{"message_id":"m%[1]d","timestamp":1750000000,"headers":{"x-first-death-queue":"mail","x-death":[{"count":1,"queue":"mail","reason":"rejected","time":1750000060}]}},"payload":"{\"ref\":\"nightly-letter-%[1]d\"}"}`},
	{from: "celery", token: "row.kwargs.ref",
		row: `{"status":"FAILURE","name":"mail.send","args":[],"kwargs":{"ref":"nightly-letter-%[1]d"},"traceback":"x\nReadTimeout: timed out","task_id":"t%[1]d"}`},
	{from: "kafka", token: "parsed(row.payload).ref",
		row: `{"topic":"dlq","partition":0,"offset":%[1]d,"tstype":"create","ts":1750000000000,"headers":["__connect.errors.topic","mail","__connect.errors.connector.name","mailer","__connect.errors.stage","TASK_PUT","__connect.errors.exception.message","Read timed out"],"key":null,"payload":"{\"ref\":\"nightly-letter-%[1]d\"}"}`},
}

// file writes so many letters.
func (l letter) file(t testing.TB, dir string, n int) string {
	t.Helper()
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(l.row, i)
	}
	between := "\n"
	if l.head != "" {
		between = ","
	}
	path := filepath.Join(dir, l.from+".json")
	need.OK(t, os.WriteFile(path, []byte(l.head+strings.Join(rows, between)+l.tail+"\n"), 0o600))
	return path
}

// mailbox knows the mails that have landed: those with an even number, and one more. Their
// names are so long that what is made up like them is never one.
func mailbox(t testing.TB) (url string, more *atomic.Value, writes *atomic.Int64) {
	more, writes = new(atomic.Value), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		ref, found := r.URL.Query().Get("ref"), "[]"
		created := int64(1750000300) // after each letter, and long before it was taken over
		n, err := strconv.Atoi(strings.TrimPrefix(ref, "nightly-letter-"))
		if ref == more.Load() {
			created, n, err = time.Now().Unix()+1, -2, nil
		}
		if err == nil && n%2 == 0 {
			found = fmt.Sprintf(`[{"id":"m%d","ref":%q,"created":%d}]`, n, ref, created)
		}
		fmt.Fprintf(w, `{"mails":%s}`, found)
	}))
	t.Cleanup(s.Close)
	return s.URL, more, writes
}

// mails is the policy of the mailbox. What it finds must not be older than the letter.
func mails(url string) string {
	return `version: 1
downstreams:
  mailbox: { base: "` + url + `" }
kinds:
  mail.send:
    downstream: mailbox
    token: { into: ref }
    lands_within: 0s
    visible_within: 0s
    read:
      http: { get: /find, query: { ref: "${token}" } }
      valid: status == 200
      list: body.mails
      mark: it.ref
      created: it.created
      complete: "true"
      receipt: it.id
`
}

// counted are the numbers that an import gave.
type counted struct {
	Read, Recorded, Known int
	KnownKey              int `json:"known_key"`
	Bad                   int
}

func countedOf(t testing.TB, data []byte) (c counted) {
	t.Helper()
	need.OK(t, json.Unmarshal(data, &c))
	return c
}

// Dead letters of every system become operations in doubt, once. A check settles those that
// landed. Of the others nothing that was sent before them is there to be found, so that they
// stay with a person. Nothing is ever sent.
func TestE2E_DeadLettersAreSettledByACheck(t *testing.T) {
	const n = 40
	for _, l := range deadLetters {
		t.Run(l.from, func(t *testing.T) {
			s := bareSite(t)
			url, more, writes := mailbox(t)
			s.writePolicy(mails(url))
			control, attempt := s.begin("mail.send", "a control", "{}", "--token-sent") // shows that the check finds what is there
			more.Store(control.Token)
			s.must(0, "settle", attempt, "--outcome", "committed")
			args := []string{"import", "--json", "--from", l.from, "--map", `kind="mail.send"`, "--map", "token=" + l.token, l.file(t, s.dir, n)}
			for _, want := range []counted{{Read: n, Recorded: n}, {Read: n, Known: n}} {
				r := s.must(0, args...)
				need.Equal(t, countedOf(t, r.Status.Data), want, "counts")
			}
			s.ahead = 2 * time.Second // every effect would show by then
			said := s.must(6, "check")
			states := map[string]int{}
			for _, op := range s.list() {
				states[op.State]++
			}
			need.Equal(t, fmt.Sprint(states, writes.Load()), fmt.Sprint(map[string]int{"committed": n/2 + 1, "uncertain": n / 2}, 0), "states, and writes\n%s%s", said.Out, said.Err)
			need.Contains(t, s.must(0, "outage", "list", "--json").Out, `"outages":[]`)
		})
	}
	t.Run("bad rows", badRows)
}

// A bad row is named with its file and line, and nothing is imported. Cron leaves such rows
// out, night after night, and every other row is there once.
func badRows(t *testing.T) {
	s := bareSite(t)
	s.writePolicy("version: 1\n")
	file := filepath.Join(s.dir, "rows.jsonl")
	row := func(id, at string) string { return `{"kind":"mail.send","id":"` + id + `","at":` + at + "}\n" }
	need.OK(t, os.WriteFile(file, []byte(row("1", "1750000000")+row("2", `"yesterday"`)+row("3", "null")), 0o600))
	said := s.must(1, "import", "--json", file).Status.Error
	need.That(t, said.Code == "bad_row" && strings.Contains(said.Message, "rows.jsonl, line 2: at: seconds, milliseconds or RFC 3339 with a zone was expected") &&
		strings.Contains(said.Hint, "nothing was imported"), "%+v", said)
	for _, want := range []counted{{Read: 3, Recorded: 2, Bad: 1}, {Read: 3, Known: 2, Bad: 1}, {Read: 3, Known: 2, Bad: 1}} {
		r := s.must(0, "import", "--json", "--skip-bad", file)
		need.Equal(t, countedOf(t, r.Status.Data), want)
		need.Contains(t, r.Err, "line 2: bad: at:")
	}
	need.Equal(t, len(s.list()), 2)
}
