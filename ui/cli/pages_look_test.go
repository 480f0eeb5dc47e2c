//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// lookingPage is the page of the console, the filters and the JSON.
func lookingPage(t *testing.T) string {
	t.Helper()
	text := need.Get(os.ReadFile("../README.md"))(t)
	return string(text)
}

// fieldsOfPage are the fields in the tables of a section, each with its row.
func fieldsOfPage(t *testing.T, heading string) map[string]string {
	t.Helper()
	_, section, _ := strings.Cut(lookingPage(t), "\n"+heading+"\n")
	if end := strings.Index(section, "\n#"); end >= 0 {
		section = section[:end]
	}
	out := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|.*$").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			out[name[1]] = row[0]
		}
	}
	return out
}

// isOnPage compares an object with the tables of its section. What an object in it
// has is named in its row.
func isOnPage(t *testing.T, heading string, object map[string]any) {
	t.Helper()
	rows := fieldsOfPage(t, heading)
	if got, want := slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(object)); !slices.Equal(got, want) {
		t.Errorf("%s has\n%q\nand the program prints\n%q", heading, got, want)
	}
	for name, value := range object {
		inner, _ := value.(map[string]any)
		its := slices.Contains([]string{"source", "actor", "cost", "odds", "advice", "error", "open"}, name)
		if list, is := value.([]any); is && len(list) > 0 && !strings.Contains(rows[name], "see [") {
			inner, its = list[0].(map[string]any)
		}
		for field := range inner {
			need.That(t, !its || regexp.MustCompile("`[^`]*\\b"+field+"\\b[^`]*`").MatchString(rows[name]),
				"the row of %s in %s does not name %s", name, heading, field)
		}
	}
}

// fieldsOf are the fields of a struct in JSON, also those that it leaves out now.
func fieldsOf(of any) map[string]any {
	all := map[string]any{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "seen" {
			all[name] = nil
		}
	}
	return all
}

// Every field that is printed has a line on the page, and every line a field.
func TestThePageNamesEveryFieldOfTheJSON(t *testing.T) {
	p := newPage(t)
	policyIn(p, `
version: 1
downstreams: { post: { base: "http://127.0.0.1:9", outage: { errors: 1 } } }
kinds:
  mail:
    title: a mail
    downstream: post
    token: { into: ref }
    deadline: 1m
    effect: safe
    retry: { max: 3 }
    read: { command: [echo, "[]"], list: json, mark: it.ref, complete: "true" }
`)
	object := func(args ...string) map[string]any {
		t.Helper()
		_, text := p.indoubt(append([]string{"--policy", "policy.yaml", "--json"}, args...)...)
		var out map[string]any
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		return out
	}
	in := func(v any, name string) any { m, _ := v.(map[string]any); return m[name] }
	first := func(v any) map[string]any {
		t.Helper()
		list, _ := v.([]any)
		need.Must(t, len(list) != 0, "there is none")
		m, _ := list[0].(map[string]any)
		return m
	}
	begun := in(object("begin", "--kind", "mail", "--key", "a", "--token-sent"), "data")
	id, _ := in(begun, "id").(string)
	attempt, _ := in(begun, "handle").(string)
	doubt := object("settle", attempt, "--outcome", "uncertain", "--error-class", "timeout")
	odds := in(doubt, "data")
	checked := object("check", id)
	version := in(first(in(in(object("list"), "data"), "operations")), "version")
	text, _ := json.Marshal(version)
	sent := object("retry", id+"@"+string(text), "--reason", "they are down")
	whole, _ := in(object("show", id), "data").(map[string]any)

	operation, history := map[string]any{}, map[string]any{}
	for name, value := range whole {
		if list, is := value.([]any); is && slices.Contains([]string{"attempts", "reads", "events"}, name) {
			history[name] = list
			isOnPage(t, "### "+strings.TrimSuffix(name, "s"), fieldsOf(map[string]any{"attempts": ledger.Attempt{}, "reads": ledger.Read{}, "events": ledger.Event{}}[name]))
			continue
		}
		operation[name] = value
	}
	isOnPage(t, "### show", history)
	operation["odds"] = in(odds, "odds")
	isOnPage(t, "### operation", operation)
	p.indoubt("--policy", "policy.yaml", "check") // who leads looks for outages
	outage := first(in(in(object("outage", "list"), "data"), "outages"))
	shown, _ := in(object("outage", "show", outage["id"].(string)), "data").(map[string]any)
	isOnPage(t, "### outage", shown)
	object("begin", "--kind", "mail", "--key", "a", "--token-sent") // sends once more
	var also string
	for _, key := range []string{"b", "c"} {
		begun := in(object("begin", "--kind", "mail", "--key", key), "data")
		attempt, _ := in(begun, "handle").(string)
		settled := in(object("settle", attempt, "--outcome", "uncertain"), "data")
		also, _ = in(begun, "id").(string)
		if key == "b" {
			object("settle", attempt, "--outcome", "committed")
		} else {
			object("deny", fmt.Sprintf("%s@%v", also, in(settled, "version")), "--reason", "not there")
		}
	}
	object("note", id, also, "--reason", "late")
	runs, _ := in(object("runs", "--all"), "data").(map[string]any)
	run, _ := in(object("runs", first(runs["runs"])["id"].(string)), "data").(map[string]any)
	isOnPage(t, "### run", run)
	report, _ := in(object("report"), "data").(map[string]any)
	isOnPage(t, "### report", report)
	envelope := maps.Clone(checked)
	maps.Copy(envelope, sent)
	isOnPage(t, "### envelope", envelope)
	result := map[string]any{}
	for _, one := range []map[string]any{checked, sent, object("retry", id+"@1", "--reason", "again")} {
		for name, value := range first(in(in(one, "data"), "operations")) {
			if _, its := operation[name]; !its {
				result[name] = value
			}
		}
	}
	isOnPage(t, "### result", result)
}

// The page names each term of a filter, and its examples are ones.
func TestThePageNamesEveryFilter(t *testing.T) {
	rows := fieldsOfPage(t, "## Filters")
	for _, field := range ledger.FilterFields {
		need.That(t, rows[field+":"] != "" || rows[field] != "", "the page does not name %s", field)
	}
	for name := range rows {
		if term := strings.TrimSuffix(name, ":"); term != "word" && !slices.Contains(ledger.FilterFields, term) {
			t.Errorf("there is no filter %s", name)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(blocksOn(t, "ui/README.md", "filter")[0]), "\n") {
		if f, err := ledger.ParseFilter(line); err != nil || len(f.Terms) == 0 {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// The page names every key that the console's help names.
func TestThePageNamesEveryKey(t *testing.T) {
	help := need.Get(os.ReadFile("../console/testdata/help_160x48.txt"))(t)
	_, section, _ := strings.Cut(lookingPage(t), "\n## Keys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	keys := regexp.MustCompile(`(?m)^   (\S{1,3}(?: \S{1,2})?|space) {2,}\S`).FindAllStringSubmatch(string(help), -1)
	for _, key := range keys {
		if !strings.Contains(section, "`"+key[1]+"`") {
			t.Errorf("the page does not name the key %s", key[1])
		}
	}
	need.That(t, len(keys) >= 30, "only %d keys were looked for: %q", len(keys), keys)
}
