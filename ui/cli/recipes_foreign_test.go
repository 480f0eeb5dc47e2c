//go:build unix

package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/recipes"
)

// otherSide answers a question, which is a path with its query, the arguments of
// a command, or those of a tool. code is a status, an exit code, or not zero
// where the tool says isError.
type otherSide func(asked string) (code int, body string)

// scenes are what may be there beside an operation's own effect, or instead of it.
var scenes = []string{"own", "foreign", "echo", "own beside foreign", "own beside echo"}

// listing is a side that shows candidates: an honest one shows those that are
// asked for, another shows a stranger's as well, or repeats what it was asked.
type listing struct {
	answer        func(candidates string) string
	own, foreign  string // TOKEN stands for the operation's
	echo          string // ASKED stands for what was asked
	asks          string // what the question must hold, so that an honest side shows its own
	without       int    // the status where there is none
	withoutAnswer string
}

func (l listing) side(scene, token string) otherSide {
	return func(asked string) (int, string) {
		var show []string
		if strings.HasPrefix(scene, "own") && strings.Contains(asked, strings.ReplaceAll(l.asks, "TOKEN", token)) {
			show = append(show, strings.ReplaceAll(l.own, "TOKEN", token))
		}
		if strings.HasSuffix(scene, "foreign") {
			show = append(show, l.foreign)
		}
		if strings.HasSuffix(scene, "echo") {
			quoted, _ := json.Marshal(asked)
			show = append(show, strings.ReplaceAll(l.echo, "ASKED", strings.Trim(string(quoted), `"`)))
		}
		if len(show) == 0 && l.withoutAnswer != "" {
			return l.without, l.withoutAnswer
		}
		return 0, l.answer(strings.Join(show, ","))
	}
}

func inside(before, after string) func(string) string {
	return func(candidates string) string { return before + candidates + after }
}

// stated is a side that says how something is. It has no answer where only one
// thing is to be seen, or where no question can be repeated.
type stated map[string]otherSide // by scene

func (s stated) side(scene, _ string) otherSide { return s[scene] }

// plain is always the same answer.
func plainSide(code int, body string) otherSide {
	return func(string) (int, string) { return code, body }
}

// one is own where the question holds a text, else other.
func one(text string, own, other string) otherSide {
	return func(asked string) (int, string) {
		if strings.Contains(asked, text) {
			return 0, own
		}
		return 0, other
	}
}

// recipeCase is a recipe's kind and what its other side shows.
type recipeCase struct {
	recipe, kind, input string
	swap                []string // SIDE stands for the address
	program             string   // over a command of that name; "mcp" over a tool
	shows               interface {
		side(scene, token string) otherSide
	}
	receipt string // of the own effect
	own     ledger.Verdict
	foreign ledger.Verdict // "" where it cannot tell
	asked   bool           // an answer shows nobody's mark, so that a stranger's cannot be told from it
	unasked bool           // the question does not hold the mark, so that what repeats it shows none
}

// firstToken is that of the bench's first operation.
const firstToken = "indoubt-7E3A01"

const commit = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

var recipeCases = []recipeCase{
	{recipe: "stripe", kind: "stripe.charge", input: `{"customer":"cus_9","amount":4200,"currency":"usd","metadata":{"order":"7"}}`, swap: []string{"https://api.stripe.com", "SIDE"},
		shows: listing{answer: inside(`{"object":"list","has_more":false,"data":[`, `]}`), own: `{"id":"pi_1","amount":4200,"currency":"usd","status":"succeeded","metadata":{"indoubt":"TOKEN"}}`,
			foreign: `{"id":"pi_2","amount":4200,"currency":"usd","status":"succeeded","metadata":{"indoubt":"indoubt-7E3A0"}},{"id":"pi_3","amount":4200,"currency":"usd","status":"succeeded","metadata":{}}`,
			echo:    `{"id":"pi_4","amount":4200,"currency":"usd","status":"succeeded","metadata":{"indoubt":"ASKED"}}`},
		own: ledger.Landed, receipt: "pi_1", unasked: true},
	{recipe: "stripe", kind: "stripe.refund", input: `{"payment_intent":"pi_1","amount":4200}`, swap: []string{"https://api.stripe.com", "SIDE"},
		shows: listing{answer: inside(`{"object":"list","has_more":false,"data":[`, `]}`), own: `{"id":"re_1","amount":4200,"status":"succeeded","metadata":{"indoubt":"TOKEN"}}`,
			foreign: `{"id":"re_2","amount":4200,"status":"succeeded","metadata":{"indoubt":"pi_1"}}`, echo: `{"id":"re_4","amount":4200,"status":"pending","metadata":{"indoubt":"ASKED"}}`},
		own: ledger.Landed, receipt: "re_1", unasked: true},
	{recipe: "github", kind: "github.issue.create", input: `{"owner":"acme","repo":"shop","title":"Fails","body":"It does."}`, swap: []string{"https://api.github.com", "SIDE"},
		shows: listing{answer: inside(`[`, `]`), own: `{"title":"Fails","body":"It does.\n\n<!-- TOKEN -->","html_url":"own"}`,
			foreign: `{"title":"Fails","body":"It does."},{"title":"Fails","body":"as in indoubt-7E3A01, which failed","html_url":"quote"},{"title":"Fails","body":null}`, echo: `{"title":"Fails","body":"<!-- ASKED -->","html_url":"echo"}`},
		own: ledger.Landed, receipt: "own", unasked: true},
	{recipe: "github", kind: "github.pull.create", input: `{"owner":"acme","repo":"shop","title":"Mend","head":"mend","base":"main","body":""}`, swap: []string{"https://api.github.com", "SIDE"},
		shows: listing{answer: inside(`[`, `]`), own: `{"title":"Mend","base":{"ref":"main"},"body":"<!-- TOKEN -->","html_url":"own"}`,
			foreign: `{"title":"Mend","base":{"ref":"main"},"body":"Reverts indoubt-7E3A01","html_url":"revert"}`, echo: `{"title":"Mend","base":{"ref":"main"},"body":"<!-- ASKED -->","html_url":"echo"}`},
		own: ledger.Landed, receipt: "own", unasked: true},
	{recipe: "github", kind: "github.release.create", input: `{"owner":"acme","repo":"shop","tag":"v1","name":"1","body":"notes"}`, swap: []string{"https://api.github.com", "SIDE"},
		// The name is the effect: whose it is, its text says. What repeats the path is none.
		shows: stated{
			"own":     releaseSide("notes\n\n<!-- indoubt-7E3A01 -->", "/v1"),
			"foreign": releaseSide("other notes", "/v1"),
			"echo": func(asked string) (int, string) {
				return 0, fmt.Sprintf(`{"body":"<!-- indoubt-7E3A01 -->","html_url":"https://github.com/acme/shop/releases/tag/%s"}`, asked[strings.LastIndex(asked, "/")+1:])
			},
		}, own: ledger.Landed, receipt: "https://github.com/acme/shop/releases/tag/v1", foreign: ledger.Different},
	{recipe: "github", kind: "git.push", input: `{"remote":"https://h.example/shop.git","ref":"refs/heads/main","commit":"` + commit + `"}`, program: "git",
		shows: stated{
			"own":     one("refs/heads/main", commit+"\trefs/heads/main\n", ""),
			"foreign": one("refs/heads/main", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\trefs/heads/main\n", ""),
			"echo": func(asked string) (int, string) { // a remote that says of every name that it is there
				return 0, commit + "\t" + asked[strings.LastIndex(asked, " ")+1:] + "\n"
			},
		}, own: ledger.Landed},
	{recipe: "kubernetes", kind: "kubectl.job", input: `{"metadata":{"generateName":"nightly-","namespace":"batch"}}`, program: "kubectl",
		shows: listing{answer: inside(`{"kind":"List","items":[`, `]}`), asks: "indoubt=TOKEN", own: `{"metadata":{"name":"nightly-1","namespace":"batch","labels":{"indoubt":"TOKEN"}}}`,
			foreign: `{"metadata":{"name":"nightly-2","namespace":"batch","labels":{"indoubt":"indoubt-7E3A012"}}},{"metadata":{"name":"nightly-3","namespace":"batch"}}`,
			echo:    `{"metadata":{"name":"nightly-4","namespace":"batch","labels":{"indoubt":"ASKED"}}}`},
		own: ledger.Landed, receipt: "batch/nightly-1"},
	{recipe: "kubernetes", kind: "kubectl.image", input: `{"namespace":"shop","deployment":"web","container":"app","image":"web:4.18"}`, program: "kubectl",
		shows: stated{
			"own":     plainSide(0, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web:4.18"}]}}}}`),
			"foreign": plainSide(0, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"web:4.18"},{"name":"app","image":"web:4.17"}]}}}}`),
		}, own: ledger.Landed, unasked: true},
	{recipe: "mcp-filesystem", kind: "mcp.filesystem.write_file", input: `{"path":"/srv/notes/a.txt","content":"hello"}`, program: "mcp",
		shows: stated{
			"own":     one("/srv/notes/a.txt", `{"content":"hello"}`, `{"content":""}`),
			"foreign": plainSide(0, `{"content":"hello world"}`),
		}, own: ledger.Landed, unasked: true},
	{recipe: "mcp-filesystem", kind: "mcp.filesystem.create_directory", input: `{"path":"/srv/notes/new"}`, program: "mcp",
		shows: stated{
			"own": func(asked string) (int, string) {
				if strings.Contains(asked, "/srv/notes/new") {
					return 0, `{"content":"isDirectory: true"}`
				}
				return 1, "ENOENT: no such file or directory"
			},
			"foreign": plainSide(0, `{"content":"isDirectory: false"}`),
			"echo":    plainSide(0, `{"content":"isDirectory: true"}`),
		}, own: ledger.Landed},
	{recipe: "mcp-git", kind: "mcp.git.git_commit", input: `{"path":"/srv/repo","message":"mend the roof"}`, program: "mcp",
		shows: listing{answer: inside(`{"success":true,"commits":[`, `]}`), asks: "TOKEN", own: `{"hash":"2c2d4e2","subject":"mend the roof TOKEN","body":""}`,
			foreign: `{"hash":"b908fcb","subject":"Revert \"mend the roof indoubt-7E3A01\"","body":"This reverts commit 2c2d4e2."},{"hash":"d00d1e5","subject":"paint it","body":"as indoubt-7E3A01 asks for\n"}`,
			echo:    `{"hash":"e0e0e0e","subject":"nothing","body":"ASKED"}`},
		own: ledger.Landed, receipt: "2c2d4e2"},
	{recipe: "mcp-memory", kind: "mcp.memory.create_entities", input: `{"entities":[{"name":"Ada","entityType":"person","observations":[]}]}`, program: "mcp",
		shows: listing{answer: inside(`{"relations":[],"entities":[`, `]}`), asks: "TOKEN", own: `{"name":"Ada","entityType":"person","observations":["TOKEN"]}`,
			foreign: `{"name":"Ada","entityType":"person","observations":["was made as indoubt-7E3A01, they say"]},{"name":"Ada","entityType":"person","observations":[]}`,
			echo:    `{"name":"Ada","entityType":"person","observations":["nothing","ASKED"]}`},
		own: ledger.Landed, receipt: "Ada"},
	{recipe: "mcp-memory", kind: "mcp.memory.add_observations", input: `{"observations":[{"entityName":"Ada","contents":["likes engines"]}]}`, program: "mcp",
		shows: listing{answer: inside(`{"relations":[],"entities":[`, `]}`), asks: "TOKEN", own: `{"name":"Ada","entityType":"person","observations":["likes engines","TOKEN"]}`,
			foreign: `{"name":"Ada","entityType":"person","observations":["indoubt-7E3A01 is not known here"]}`, echo: `{"name":"Ada","entityType":"person","observations":["ASKED"]}`},
		own: ledger.Landed, receipt: "Ada"},
	{recipe: "mcp-memory", kind: "mcp.memory.create_relations", input: `{"relations":[{"from":"Ada","to":"Engine","relationType":"likes"}]}`, program: "mcp",
		shows: stated{
			"own":     plainSide(0, `{"entities":[],"relations":[{"from":"Ada","to":"Engine","relationType":"likes"}]}`),
			"foreign": plainSide(0, `{"entities":[],"relations":[{"from":"Ada","to":"Engine","relationType":"owns"},{"from":"Engine","to":"Ada","relationType":"likes"}]}`),
		}, own: ledger.Landed, unasked: true},
	{recipe: "mcp-memory", kind: "mcp.memory.delete_entities", input: `{"entityNames":["Ada"]}`, program: "mcp",
		shows: stated{
			"own":     plainSide(0, `{"entities":[],"relations":[]}`),
			"foreign": plainSide(0, `{"entities":[{"name":"Ada"}],"relations":[]}`),
		}, own: ledger.CannotTell, unasked: true},
	{recipe: "mcp-github", kind: "mcp.github.create_issue", input: `{"owner":"acme","repo":"shop","title":"Fails","body":"It does."}`, program: "mcp",
		shows: listing{answer: inside(`[`, `]`), own: `{"title":"Fails","body":"It does. TOKEN","html_url":"own"}`,
			foreign: `{"title":"Fails","body":"It does."},{"title":"Fails","body":"as indoubt-7E3A01 says","html_url":"quote"},{"title":"Fails","body":null}`, echo: `{"title":"Fails","body":"ASKED","html_url":"echo"}`},
		own: ledger.Landed, receipt: "own", unasked: true},
	{recipe: "mcp-github", kind: "mcp.github.create_pull_request", input: `{"owner":"acme","repo":"shop","title":"Mend","body":"Done.","head":"mend","base":"main"}`, program: "mcp",
		shows: listing{answer: inside(`[`, `]`), own: `{"body":"Done. TOKEN","head":{"ref":"mend"},"base":{"ref":"main"},"html_url":"own"}`,
			foreign: `{"body":"Reverts indoubt-7E3A01 again","head":{"ref":"mend"},"base":{"ref":"main"},"html_url":"revert"}`, echo: `{"body":"ASKED","head":{"ref":"mend"},"base":{"ref":"main"},"html_url":"echo"}`},
		own: ledger.Landed, receipt: "own", unasked: true},
	{recipe: "mcp-slack", kind: "mcp.slack.slack_post_message", input: `{"channel_id":"C1","text":"hi"}`, program: "mcp",
		shows: listing{answer: inside(`{"ok":true,"messages":[`, `]}`), own: `{"ts":"1.1","text":"hi TOKEN"}`,
			foreign: `{"ts":"1.2","text":"hi"},{"ts":"1.3","text":"is indoubt-7E3A01 ours?"},{"ts":"1.4","text":""}`, echo: `{"ts":"1.5","text":"ASKED"}`},
		own: ledger.Landed, receipt: "C1/1.1", unasked: true},
	{recipe: "mcp-slack", kind: "mcp.slack.slack_reply_to_thread", input: `{"channel_id":"C1","thread_ts":"1.0","text":"hi"}`, program: "mcp",
		shows: listing{answer: inside(`{"ok":true,"messages":[`, `]}`), own: `{"ts":"1.1","text":"hi TOKEN"}`, foreign: `{"ts":"1.2","text":"hi"},{"ts":"1.3","text":"indoubt-7E3A01 is whose?"}`, echo: `{"ts":"1.5","text":"ASKED"}`},
		own:   ledger.Landed, receipt: "C1/1.1", unasked: true},
	{recipe: "mcp-notion", kind: "mcp.notion.API-create-a-comment", input: `{"parent":{"page_id":"p1"},"rich_text":[{"text":{"content":"Well done"}}]}`, program: "mcp",
		shows: listing{answer: inside(`{"object":"list","results":[`, `]}`), own: `{"id":"own","rich_text":[{"plain_text":"Well done TOKEN"}]}`,
			foreign: `{"id":"other","rich_text":[{"plain_text":"Well done"}]},{"id":"quote","rich_text":[{"plain_text":"indoubt-7E3A01 says so"}]},{"id":"empty","rich_text":[]}`, echo: `{"id":"echo","rich_text":[{"plain_text":"ASKED"}]}`},
		own: ledger.Landed, receipt: "own", unasked: true},
	{recipe: "mcp-desktop-commander", kind: "mcp.desktop-commander.create_directory", input: `{"path":"/srv/notes/new"}`, program: "mcp",
		shows: stated{
			"own": func(asked string) (int, string) {
				if strings.Contains(asked, "/srv/notes/new") {
					return 0, "size: 4096\nisDirectory: true\nisFile: false"
				}
				return 1, "Error: ENOENT: no such file or directory"
			},
			"foreign": plainSide(0, "size: 4096\nisDirectory: false\nisFile: true"),
			"echo":    plainSide(0, "size: 4096\nisDirectory: true\nisFile: false"),
		}, own: ledger.Landed},
	{recipe: "npm", kind: "npm.publish", input: `{"name":"shop","version":"1.2.0","integrity":"sha512-A"}`, swap: []string{"https://registry.npmjs.org", "SIDE"},
		shows: stated{
			"own":     packageSide("sha512-A"),
			"foreign": packageSide("sha512-B"),
			"echo": func(asked string) (int, string) {
				parts := strings.Split(strings.Trim(asked, "/"), "/")
				return 0, fmt.Sprintf(`{"name":%q,"version":%q,"dist":{"integrity":"sha512-A"}}`, parts[0], parts[1])
			},
		}, own: ledger.Landed, receipt: "shop@1.2.0", foreign: ledger.Different},
	{recipe: "s3", kind: "s3.put", input: `{"bucket":"backups","key":"2026.tar"}`, program: "aws",
		shows: stated{
			"own":     plainSide(0, `{"ETag":"e1","Metadata":{"Indoubt":"indoubt-7E3A01"}}`),
			"foreign": plainSide(0, `{"ETag":"e2","Metadata":{"indoubt":"indoubt-7E3A02","note":"indoubt-7E3A01"}}`),
			"echo": func(asked string) (int, string) {
				return 0, fmt.Sprintf(`{"ETag":"e3","Metadata":{"indoubt":%q}}`, asked)
			},
		}, own: ledger.Landed, receipt: "e1", unasked: true},
	{recipe: "sendgrid", kind: "sendgrid.mail", input: `{"subject":"Your invoice"}`, swap: []string{"https://api.sendgrid.com", "SIDE"},
		shows: listing{answer: inside(`{"messages":[`, `]}`), asks: "TOKEN", own: `{"msg_id":"own.recvd-1.0"}`, foreign: `{"msg_id":"other.recvd-1.0"}`, echo: `{"msg_id":"echo.recvd-1.0"}`},
		own:   ledger.Landed, receipt: "own", asked: true},
	{recipe: "slack", kind: "slack.message", input: `{"channel":"C1","text":"hi"}`, swap: []string{"https://slack.com/api", "SIDE"},
		shows: listing{answer: inside(`{"ok":true,"messages":[`, `]}`), own: `{"ts":"1.1","text":"hi","metadata":{"event_payload":{"indoubt":"TOKEN"}}}`,
			foreign: `{"ts":"1.2","text":"hi"},{"ts":"1.3","text":"indoubt-7E3A01","metadata":null},{"ts":"1.4","text":"hi","metadata":{"event_payload":{"indoubt":"indoubt-7E3A01-b"}}}`,
			echo:    `{"ts":"1.5","text":"hi","metadata":{"event_payload":{"indoubt":"ASKED"}}}`},
		own: ledger.Landed, receipt: "C1/1.1", unasked: true},
	{recipe: "smtp", kind: "smtp.send", input: `{"to":"a@example.com","subject":"Your invoice"}`, program: "awk",
		shows: listing{answer: inside("", ""), asks: "TOKEN", own: "Jan  2 03:04:05 mx postfix/qmgr[97]: OWN1: from=<b@example.com>, size=812 (queue active)\n",
			foreign: "Jan  2 03:04:05 mx postfix/qmgr[97]: OTHER: from=<indoubt-7E3A01@example.com>, size=812 (queue active)\n", echo: "mx postfix/qmgr[97]: ECHO: from=<b@example.com> (queue active)\n"},
		own: ledger.Landed, receipt: "OWN1", asked: true},
	{recipe: "x", kind: "x.post", input: `{"text":"We are back."}`, swap: []string{"https://api.x.com", "SIDE"},
		shows: listing{answer: inside(`{"meta":{"result_count":1},"data":[`, `]}`), own: `{"id":"190","text":"We are back."}`, foreign: `{"id":"191","text":"We are back."}`, echo: `{"id":"192","text":"ASKED"}`},
		own:   ledger.CannotTell, unasked: true},
	{recipe: "dry-run", kind: "deploy", input: `{"service":"web","version":"4.18"}`, program: "deployctl",
		shows: stated{
			"own": func(asked string) (int, string) {
				if !strings.Contains(asked, "web") {
					return 404, "unknown service"
				}
				return one("4.18", `{"effect":"noop"}`, `{"effect":"would_update"}`)(asked)
			},
			"foreign": plainSide(0, `{"effect":"would_update"}`),
			"echo":    plainSide(0, `{"effect":"noop"}`), // says it of every version
		}, own: ledger.Landed},
}

func releaseSide(text, path string) otherSide {
	return func(asked string) (int, string) {
		if !strings.HasSuffix(asked, path) {
			return 404, `{"message":"Not Found"}`
		}
		body, _ := json.Marshal(text)
		return 0, fmt.Sprintf(`{"body":%s,"html_url":"https://github.com/acme/shop/releases/tag%s"}`, body, path)
	}
}

func packageSide(integrity string) otherSide {
	return func(asked string) (int, string) {
		if asked != "/shop/1.2.0" {
			return 404, `"version not found"`
		}
		return 0, fmt.Sprintf(`{"name":"shop","version":"1.2.0","dist":{"integrity":%q}}`, integrity)
	}
}

// Nothing foreign and no echo settles an operation, by any recipe; beside them the
// own effect is found where it can be told from them.
func TestI2_NothingForeignAndNoEchoSettlesByARecipe(t *testing.T) {
	for _, c := range recipeCases {
		for _, scene := range scenes {
			if side := c.shows.side(scene, firstToken); side != nil {
				t.Run(c.kind+"/"+scene, func(t *testing.T) {
					t.Parallel()
					c.play(t, scene, side)
				})
			}
		}
	}
	kinds := map[string]bool{}
	for _, c := range recipeCases {
		kinds[c.kind] = true
	}
	for _, kind := range readingKinds(t) {
		if kind != "books.entry" && !kinds[kind] { // its own test is below
			t.Errorf("%s is not tried", kind)
		}
	}
}

func (c recipeCase) play(t *testing.T, scene string, side otherSide) {
	b := newBench(t)
	c.connect(b, side)
	b.doubt(1, c.kind, c.input)
	b.now = b.now.Add(time.Hour - time.Minute)
	want := c.own
	switch {
	case scene == "foreign":
		want = c.foreign
	case c.asked && scene != "own", scene == "echo", scene == "own beside echo" && !c.unasked:
		want = ledger.CannotTell
	}
	if want == "" {
		want = ledger.CannotTell
	}
	got, why := b.checked(1)
	o := b.rec(1).Operation
	need.Equal(t, got, want, why)
	receipts := []string(nil)
	if want == ledger.Landed && c.receipt != "" {
		receipts = []string{c.receipt}
	}
	if want == ledger.CannotTell && o.State != ledger.Uncertain || want != ledger.Different && !slices.Equal(o.Receipts, receipts) {
		t.Errorf("%s with %q, by %s (%s)", o.State, o.Receipts, got, why)
	}
}

// connect makes the recipe ask a side.
func (c recipeCase) connect(b *bench, side otherSide) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := url.QueryUnescape(r.URL.RequestURI())
		if args := r.Header["X-Asked"]; len(args) > 0 {
			asked, err = url.QueryUnescape(args[0])
		}
		need.That(b, err == nil, "%v", err)
		code, body := side(asked)
		if code >= 400 {
			w.WriteHeader(code)
		}
		w.Header().Set("X-Exit", fmt.Sprint(code))
		_, _ = io.WriteString(w, body)
	}))
	b.Cleanup(web.Close)
	swap := append([]string(nil), c.swap...)
	for i := range swap {
		swap[i] = strings.ReplaceAll(swap[i], "SIDE", web.URL)
	}
	switch c.program {
	case "mcp":
		swap = append(swap, mcpCommands[c.recipe], "mcp: { url: \""+toolSide(b, side)+"\" }")
	case "":
	default:
		path := b.script(c.program, fmt.Sprintf("INDOUBT_TEST_SIDE=%s exec %q \"$@\"\n", web.URL, os.Args[0]))
		inList := map[bool][2]string{true: {"[", ","}, false: {"- ", "\n"}}[c.program != "awk"]
		swap = append(swap, inList[0]+c.program+inList[1], inList[0]+path+inList[1])
	}
	b.recipe(c.recipe, swap...)
}

// mcpCommands is how the recipes start their servers.
var mcpCommands = map[string]string{
	"mcp-filesystem":        `mcp: { command: [npx, -y, "@modelcontextprotocol/server-filesystem", /srv/notes] }`,
	"mcp-git":               "mcp:\n      command: [npx, -y, \"@cyanheads/git-mcp-server\"]\n      env: { MCP_TRANSPORT_TYPE: stdio }",
	"mcp-github":            "mcp:\n      command: [npx, -y, \"@modelcontextprotocol/server-github\"]\n      env: { GITHUB_PERSONAL_ACCESS_TOKEN: \"${env.GITHUB_PERSONAL_ACCESS_TOKEN}\" }",
	"mcp-slack":             "mcp:\n      command: [npx, -y, \"@modelcontextprotocol/server-slack\"]\n      env: { SLACK_BOT_TOKEN: \"${env.SLACK_BOT_TOKEN}\", SLACK_TEAM_ID: \"${env.SLACK_TEAM_ID}\" }",
	"mcp-notion":            "mcp:\n      command: [npx, -y, \"@notionhq/notion-mcp-server\"]\n      env: { NOTION_TOKEN: \"${env.NOTION_TOKEN}\" }",
	"mcp-desktop-commander": `mcp: { command: [npx, -y, "@wonderwhy-er/desktop-commander"] }`,
	"mcp-memory":            "mcp:\n      command: [npx, -y, \"@modelcontextprotocol/server-memory\"]\n      env: { MEMORY_FILE_PATH: \"${env.MEMORY_FILE_PATH}\" }",
}

// toolSide is an MCP server whose tools answer as a side does.
func toolSide(b *bench, side otherSide) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "side", Version: "1"}, nil)
	for _, name := range []string{"read_text_file", "get_file_info", "search_nodes", "read_graph", "open_nodes", "git_log", "list_issues", "list_pull_requests", "slack_get_channel_history", "slack_get_thread_replies", "API-retrieve-a-comment"} {
		s.AddTool(&mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				code, body := side(string(r.Params.Arguments))
				out := &mcp.CallToolResult{IsError: code != 0, Content: []mcp.Content{&mcp.TextContent{Text: body}}}
				if code == 0 && strings.HasPrefix(body, "{") {
					out.StructuredContent = json.RawMessage(body)
				}
				return out, nil
			})
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	b.Cleanup(web.Close)
	return web.URL
}

// The test itself is the program that a recipe asks: it passes its arguments on.
func init() {
	side := os.Getenv("INDOUBT_TEST_SIDE")
	if side == "" {
		return
	}
	r, err := http.NewRequest(http.MethodGet, side, nil)
	if err != nil {
		os.Exit(90)
	}
	r.Header.Set("X-Asked", url.QueryEscape(strings.Join(os.Args[1:], " ")))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		os.Exit(91)
	}
	_, _ = io.Copy(os.Stdout, answer.Body)
	os.Exit(map[bool]int{true: 0, false: 1}[answer.StatusCode == http.StatusOK])
}

// readingKinds are the kinds of the recipes that have a check.
func readingKinds(t *testing.T) (out []string) {
	for _, name := range recipes.Names() {
		b := newBench(t)
		b.recipe(name)
		b.kind("x")
		for _, kind := range b.loaded.Kinds() {
			if b.loaded.Kind(kind).Read != nil {
				out = append(out, kind)
			}
		}
	}
	return out
}

// A database shows rows as they are; one that takes another's token for this one,
// because it compares without case or with blanks, settles nothing.
func TestI2_NoForeignRowSettlesByTheRecipe(t *testing.T) {
	const input = `{"account":"acme","amount":120.5}`
	for name, c := range map[string]struct {
		rows string
		want ledger.Verdict
	}{
		"own":                {`(7, 'indoubt-7E3A01', 'acme', 120.5)`, ledger.Landed},
		"foreign":            {`(8, 'indoubt-7e3a01', 'acme', 120.5), (9, 'indoubt-7E3A02', 'acme', 120.5)`, ledger.CannotTell},
		"own beside foreign": {`(7, 'indoubt-7E3A01', 'acme', 120.5), (8, 'indoubt-7e3a01', 'acme', 120.5)`, ledger.Landed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			path := filepath.Join(b.dir, "books.db")
			db := need.Get(sql.Open("sqlite", path))(t)
			defer db.Close()
			need.Get(db.Exec(`CREATE TABLE entries (id INTEGER, token TEXT COLLATE NOCASE, account TEXT, amount REAL); INSERT INTO entries VALUES ` + c.rows))(t)
			b.recipe("sql", `postgres: "${env.BOOKS_DSN}"`, `sqlite: "`+path+`"`)
			b.doubt(1, "books.entry", input)
			b.now = b.now.Add(time.Hour)
			b.wantVerdict(name, 1, c.want, "")
		})
	}
}

// An older effect beside two of the operation's own is none of its receipts.
func TestAnOlderEffectIsNoReceipt(t *testing.T) {
	const at = `{"data":[{"ref":"INV-1","id":"new-1","at":"2026-07-14T03:06:01Z"},{"ref":"INV-1","id":"old","at":"2026-07-13T03:06:01Z"},{"ref":"INV-1","id":"new-2","at":"2026-07-14T03:06:02Z"}]}`
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, at) }))
	defer web.Close()
	b := newBench(t)
	b.policy = b.file("older.yaml", "version: 1\nkinds: { book: { read: { http: { get: "+web.URL+"/x }, list: body.data, name: { it.ref: \"${input.invoice}\" }, created: it.at, receipt: it.id } } }\n")
	b.doubt(1, "book", `{"invoice":"INV-1"}`)
	b.wantVerdict("two and an older one", 1, ledger.Twice, "2 matched; expected 1: new-1, new-2")
	if o := b.rec(1).Operation; o.Effects != 2 || !slices.Equal(o.Receipts, []string{"new-1", "new-2"}) {
		t.Errorf("%d effects: %q", o.Effects, o.Receipts)
	}
}
