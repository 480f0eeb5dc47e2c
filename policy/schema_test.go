package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"indoubt/ledger/need"
	"indoubt/policy/file"
)

// everything says every mapping that a policy file can have at least once.
const everything = `
version: 1
currency: EUR
words: { low: 1 }
defaults: { cost: { miss: low }, retry: { max: 1 } }
downstreams:
  web: { base: https://h.example, rate: 3/s, concurrency: 2, outage: { errors: 3 }, headers: { A: b }, key: { header: K, remembers: 1d } }
  server: { mcp: { command: [x], env: { A: b }, dir: /x } }
  remote: { mcp: { url: https://h.example/mcp, headers: { A: b } } }
  books: { sql: { sqlite: x } }
notify:
  oncall: { on: [opened, twice], only: ["pay.*"], downstream: web, http: { post: /x } }
  local: { command: [x, "${input.text}"] }
kinds:
  empty:
  web:
    downstream: web
    match: [POST /x]
    input: ${input.body}
    cost: { duplicate: 3, miss: input.a }
    key: { from: [a], ttl: 2d }
    token: { into: t }
    retry: { max: 2, backoff: 1s..2s }
    redact: [b]
    read: { http: { get: /x, query: { t: "${token}" } }, list: body, mark: it.t, next: body.next, stable: true }
    answer: { committed: status == 200 }
    tests:
      - { name: n, input: { a: 1 }, token: t, after: 3m, want: none, pages: [{ status: 200, headers: { A: b }, body: [] }] }
      - { answer: { content: [], structured: {}, isError: true, error: { code: -32602, message: m }, rows: [], exit: 1, stdout: x }, want: cannot_tell }
  again:
    downstream: web
    match: PUT /x
    resend: here
  command:
    token: argument
    read: { command: { argv: [x, "${token}"], dir: /x, env: { A: b }, stdin: {} }, list: json, mark: asked, final: it.done }
    resend: here
  short:
    target: x
    effect: replaces
    read: { command: [x, "${input.a}"], state: json.ok }
    resend: pipeline
  mcp:
    downstream: server
    token: { append: t }
    read: { mcp: { tool: f, arguments: { t: "${token}" }, server: remote }, read_only: true, list: structured, mark: { it.t: "<${token}>" }, reply: it }
  sql:
    read: { sql: { database: books, query: "SELECT 1 WHERE a = ? LIMIT 3 OFFSET ?", args: ["${input.a}", "${cursor}"] }, list: rows, name: { it.a: "${input.a}" }, created: it.at, next: rows.size() }
`

// object is one mapping of the schema.
type object = map[string]any

func schemaObject(t *testing.T) object {
	t.Helper()
	var root object
	need.OK(t, json.Unmarshal(Schema(), &root))
	return root
}

// resolve follows references and alternatives to the mappings behind a schema.
func resolve(root object, v any) []object {
	s, ok := v.(object)
	if !ok {
		return nil
	}
	out := []object{s}
	if ref, ok := s["$ref"].(string); ok {
		defs := root["$defs"].(object)
		out = append(out, resolve(root, defs[strings.TrimPrefix(ref, "#/$defs/")])...)
	}
	for _, word := range []string{"anyOf", "allOf"} {
		list, _ := s[word].([]any)
		for _, one := range list {
			out = append(out, resolve(root, one)...)
		}
	}
	return out
}

// at is what the schema says of a place in the file: kinds.web.tests[0].pages[0].
func at(root object, path string) []object {
	here := resolve(root, root)
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		var next []object
		for _, s := range here {
			properties, _ := s["properties"].(object)
			switch {
			case strings.HasSuffix(step, "]"):
				next = append(next, resolve(root, s["items"])...)
			case properties[step] != nil:
				next = append(next, resolve(root, properties[step])...)
			default:
				next = append(next, resolve(root, s["additionalProperties"])...)
			}
		}
		here = next
	}
	return here
}

func TestTheSchemaKnowsEveryFieldTheDecoderReads(t *testing.T) {
	root := schemaObject(t)
	visited := map[string]bool{}
	p, err := parse("policy.yaml", []byte(everything), func(path string, known []string) {
		want, got := map[string]bool{}, map[string]bool{}
		for _, f := range known {
			if _, refused := notInDefaults[f]; !refused || path != "defaults" {
				want[f] = true
			}
		}
		forbidden := map[string]bool{}
		for _, s := range at(root, path) {
			properties, _ := s["properties"].(object)
			for name, v := range properties {
				got[name] = true
				forbidden[name] = forbidden[name] || v == false
			}
			if properties != nil {
				visited[names(properties)] = true
			}
		}
		for name := range forbidden {
			if forbidden[name] {
				delete(got, name)
			}
		}
		need.Equal(t, cmp.Diff(want, got), "", path, "-decoder +schema")
	})
	need.OK(t, err)
	// And nothing in the schema is unknown to the decoder.
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case object:
			if properties, ok := x["properties"].(object); ok && !visited[names(properties)] {
				t.Errorf("the decoder never comes to the mapping of %s", names(properties))
			}
			for name, e := range x {
				if name != "if" && name != "then" { // conditions on properties that stand elsewhere
					walk(e)
				}
			}
		case []any:
			for _, e := range x {
				walk(e)
			}
		}
	}
	walk(any(root))
	for word, want := range map[string][]string{"want": testWants} {
		got := []string{}
		for _, v := range root["$defs"].(object)["test"].(object)["properties"].(object)[word].(object)["enum"].([]any) {
			got = append(got, v.(string))
		}
		need.Equal(t, cmp.Diff(want, got), "", word)
	}
	valid(t, "everything", []byte(everything))
	need.That(t, p.Kind("empty").Known, "an empty kind")
}

func names(m object) string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// validate checks a policy file against the schema.
func validate(t *testing.T, text []byte) error {
	t.Helper()
	doc := need.Get(jsonschema.UnmarshalJSON(bytes.NewReader(Schema())))(t)
	c := jsonschema.NewCompiler()
	need.OK(t, c.AddResource("policy.json", doc))
	s := need.Get(c.Compile("policy.json"))(t)
	d, root := file.Parse("policy.yaml", text)
	need.Must(t, len(d.Problems) == 0, "%v", d.Problems)
	data := need.Get(json.Marshal(file.PlainValue(root)))(t)
	value := need.Get(jsonschema.UnmarshalJSON(bytes.NewReader(data)))(t)
	return s.Validate(value)
}

func valid(t *testing.T, name string, text []byte) {
	t.Helper()
	err := validate(t, text)
	need.That(t, err == nil, "%s does not fit the schema: %v", name, err)
}

func TestTheExampleAndTheRecipesFitTheSchema(t *testing.T) {
	valid(t, "example.yaml", Example())
	recipes, err := filepath.Glob("recipes/*.yaml")
	need.Must(t, err == nil && len(recipes) != 0, "no recipes %v", err)
	for _, name := range recipes {
		text := need.Get(os.ReadFile(name))(t)
		valid(t, name, text)
	}
	for _, text := range []string{"{}", "version: 2", "version: 1\nkinds: { k: { titel: x } }", "version: 1\ndefaults: { lands_within: 3s }", "version: 1\nkinds: { k: { deadline: 2 minutes } }",
		"version: 1\nkinds: { k: { read: { http: { get: /x, method: post }, list: body } } }", "version: 1\nkinds: { k: { tests: [{ want: fine }] } }"} {
		need.That(t, validate(t, []byte(text)) != nil, "fits the schema: %s", text)
	}
}

// What the check refuses, an editor marks while it is written, as far as a
// schema can.
func TestTheSchemaRefusesWhatTheCheckRefuses(t *testing.T) {
	const downstream, kind = "version: 1\ndownstreams: { d: { %s } }\n", "version: 1\nkinds: { k: { %s } }\n"
	for _, c := range [][2]string{
		{kind, "deadline: 5"}, {kind, "deadline: -5s"}, {kind, "cost: { duplicate: -3 }"}, {kind, "look: -1"}, {kind, "key: { from: [] }"}, {kind, "token: {}"},
		{kind, "tests: [{ name: x }]"}, {kind, "match: POST nowhere"}, {kind, "read: { list: body }"}, {kind, "read: { command: [x], list: 3 }"},
		{kind, "read: { http: { get: https://h.example/x }, command: [x], list: body }"}, {kind, "read: { http: { query: {} }, list: body }"},
		{kind, "read: { http: { get: https://h.example/x, post: https://h.example/x }, list: body }"}, {kind, "read: { http: { put: https://h.example/x }, list: body }"},
		{kind, "read: { http: { get: https://h.example/x, json: { a: 1 } }, list: body }"}, {kind, "read: { command: [x], list: json, max_body: lots }"},
		{kind, "read: { command: [x], mark: it.t }"}, {kind, "read: { command: [x], found: json }"}, {kind, "effect: safe, read: { command: [x], state: json.v == input.v, list: json }"},
		{kind, "token: { into: t }, read: { command: [x], list: json, mark: { it.t: \"<${token}>\", it.u: \"<${token}>\" } }"}, {kind, "read: { command: [x], list: json, name: {} }"},
		{kind, "token: { into: t }, read: { command: [x], list: json, mark: { it.t: \"<${token}>\" }, name: it.t }"}, {kind, "read: { command: [x], list: json, name: { it.t: \"${input.a}\" } }"},
		{kind, "read: { command: [x], list: json, name: { it.t: \"${input.a}\" }, unique: false }"}, {kind, "token: { into: t }, read: { command: [x], list: json, mark: it.t, unique: true }"},
		{kind, "read: { http: { post: https://h.example/x, json: { a: 1 }, form: { a: 1 } }, list: body }"}, {kind, "resend: engine"}, {kind, "answer: { done: status == 200 }"},
		{kind, "effect: twice"}, {kind, "effect: replaces"},
		{downstream, "base: h.example"}, {downstream, "base: ftp://h.example"}, {downstream, "base: https://h.example, rate: 0/s"}, {downstream, "base: https://h.example, rate: 0.0/m"},
		{downstream, "base: https://h.example, sql: { sqlite: x }"}, {downstream, "mcp: { command: [x], url: https://h.example }"}, {downstream, "mcp: {}"},
		{downstream, "base: https://h.example, headers: { A b: c }"},
	} {
		text := []byte(fmt.Sprintf(c[0], c[1]))
		_, err := Parse("policy.yaml", text)
		need.That(t, err != nil, "the check takes: %s", c[1])
		need.That(t, validate(t, text) != nil, "the schema takes: %s", c[1])
	}
	for _, c := range [][2]string{
		{downstream, "base: https://h.example, rate: 0.5/m"}, {downstream, "base: https://h.example, rate: 10/h"}, {downstream, "base: '${env.BASE}'"},
		{kind, "match: [\"POST,PUT api.example.com:8443/v1/*/x/**\", /v2]"}, {kind, "answer: { committed: status == 200 }"}, {kind, "resend: here"}, {kind, "redact: []"}, {kind, "effect: replaces, target: x"},
		{kind, "read: { command: [x], list: json, name: it.t }"}, {kind, "read: { command: [x], list: json, name: { it.t: \"${input.a}\" }, unique: true }"},
		{kind, "read: { command: [x], list: json, name: { it.t: \"${input.a}\" }, created: it.at }"}, {kind, "effect: safe, read: { command: [x], state: json.v == input.v }"},
		{kind, "token: { into: t }, read: { command: [x, \"${token}\"], list: json, mark: asked, final: it.done }"}, {kind, "read: { command: [x], list: json }"},
	} {
		text := []byte(fmt.Sprintf(c[0], c[1]))
		_, err := Parse("policy.yaml", text)
		need.That(t, err == nil, "%s: %v", c[1], err)
		valid(t, c[1], text)
	}
}
