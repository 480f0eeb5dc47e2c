//go:build soak

package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func TestRecipeGitHub(t *testing.T) {
	var token string
	api := httptest.NewUnstartedServer(nil)
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch path := r.URL.Path; {
		case path == "/repos/acme/shop/issues" && q.Get("page") == "":
			if since, err := time.Parse(time.RFC3339, q.Get("since")); err != nil || q.Get("state") != "all" || since.Year() != 2026 {
				http.Error(w, `{"message":"Validation Failed"}`, http.StatusUnprocessableEntity)
				return
			}
			w.Header().Set("Link", `<http://`+r.Host+`/repositories/1/issues?page=2&per_page=100>; rel="next", <http://`+r.Host+`/repositories/1/issues?page=2>; rel="last"`)
			fmt.Fprint(w, `[{"number":9,"title":"Fails","body":null},{"number":8,"title":"x","body":"see `+token+`","pull_request":{}}]`)
		case path == "/repositories/1/issues" && q.Get("page") == "2":
			fmt.Fprint(w, `[{"number":7,"title":"Fails","body":"It does.\n\n<!-- `+token+` -->","html_url":"https://github.com/acme/shop/issues/7"}]`)
		case path == "/repos/acme/shop/pulls" && q.Get("head") == "acme:mend" && q.Get("base") == "main":
			fmt.Fprint(w, `[{"title":"Mend","body":"somebody's own","base":{"ref":"main"}}]`)
		case r.URL.EscapedPath() == "/repos/acme/shop/releases/tags/rel%2F1.2":
			fmt.Fprint(w, `{"tag_name":"rel/1.2","body":"other notes","html_url":"https://github.com/acme/shop/releases/tag/rel/1.2"}`)
		default:
			w.WriteHeader(404)
			fmt.Fprint(w, `{"message":"Not Found"}`)
		}
	})
	api.Start()
	defer api.Close()
	b := newBenchAlone(t)
	b.recipe("github", "https://api.github.com", api.URL)
	b.doubt(1, "github.issue.create", `{"owner":"acme","repo":"shop","title":"Fails","body":"It does."}`)
	token = b.token(1)
	b.wantVerdict("an issue on the second page", 1, ledger.Landed, "issues/7")
	b.doubt(2, "github.pull.create", `{"owner":"acme","repo":"shop","title":"Mend","head":"mend","base":"main","body":""}`)
	b.wantVerdict("somebody's own pull request", 2, ledger.CannotTell, "")
	b.doubt(3, "github.release.create", `{"owner":"acme","repo":"shop","tag":"rel/1.2","name":"1.2","body":"notes"}`)
	b.wantVerdict("somebody else's release", 3, ledger.Different, "rel/1.2")
	b.doubt(4, "github.release.create", `{"owner":"acme","repo":"shop","tag":"v9","name":"9","body":"notes"}`)
	b.now = b.now.Add(time.Hour)
	b.wantVerdict("no release", 4, ledger.CannotTell, "")
}

func TestRecipeGitPush(t *testing.T) {
	need.Program(t, "git")
	b := newBenchAlone(t)
	b.recipe("github")
	bare, work := filepath.Join(b.dir, "shop.git"), filepath.Join(b.dir, "work")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main", "-C", work}, args...)...)
		out, err := cmd.CombinedOutput()
		need.Must(t, err == nil, "git %v: %v\n%s", args, err, out)
		return strings.TrimSpace(string(out))
	}
	if out, err := exec.Command("git", "init", "-q", "--bare", bare).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	need.OK(t, os.Mkdir(work, 0o755))
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	one := git("rev-parse", "HEAD")
	remote := "file://" + bare
	push := func(n int, commit string) {
		b.doubt(n, "git.push", fmt.Sprintf(`{"remote":%q,"ref":"refs/heads/main","commit":%q}`, remote, commit))
	}
	push(1, one)
	b.wantVerdict("not pushed", 1, ledger.CannotTell, "")
	git("push", "-q", remote, "HEAD:refs/heads/main", "HEAD:refs/heads/x/refs/heads/main")
	b.wantVerdict("pushed", 1, ledger.Landed, "whichever write made it so")
	push(2, one)
	git("commit", "-q", "--allow-empty", "-m", "two")
	git("push", "-q", remote, "HEAD:refs/heads/main")
	b.wantVerdict("another one on top", 2, ledger.CannotTell, "")

	// In one's own network a remote is often reached over http alone.
	if out, err := exec.Command("git", "-C", bare, "update-server-info").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plain := httptest.NewServer(http.FileServer(http.Dir(bare)))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.FileServer(http.Dir(bare)))
	defer secure.Close()
	t.Setenv("GIT_SSL_NO_VERIFY", "1")
	two := git("rev-parse", "HEAD")
	for i, at := range []string{plain.URL, secure.URL} {
		b.doubt(4+i, "git.push", fmt.Sprintf(`{"remote":%q,"ref":"refs/heads/main","commit":%q}`, at, two))
		b.wantVerdict("pushed to "+at, 4+i, ledger.Landed, "whichever write made it so")
	}
	b.doubt(3, "git.push", `{"remote":"ext::sh -c touch% `+b.dir+`/owned","ref":"refs/heads/main","commit":"`+one+`"}`)
	b.wantVerdict("a remote that is a command", 3, ledger.CannotTell, "transport 'ext' not allowed")
	if _, err := os.Stat(filepath.Join(b.dir, "owned")); err == nil {
		t.Error("the remote ran a command")
	}
}

func TestRecipeSlack(t *testing.T) {
	var token string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		oldest, err := strconv.ParseFloat(q.Get("oldest"), 64)
		switch {
		case r.URL.Path != "/conversations.history" || err != nil || oldest < 1.7e9 || q.Get("include_all_metadata") != "true":
			fmt.Fprint(w, `{"ok":false,"error":"invalid_arguments"}`)
		case q.Get("channel") != "C1":
			fmt.Fprint(w, `{"ok":false,"error":"channel_not_found"}`)
		case q.Get("cursor") == "":
			fmt.Fprint(w, `{"ok":true,"messages":[{"ts":"1.9","text":"hi"}],"has_more":true,"response_metadata":{"next_cursor":"bmV4dA=="}}`)
		default:
			fmt.Fprint(w, `{"ok":true,"messages":[{"ts":"1.2","text":"R&amp;D","metadata":{"event_type":"indoubt","event_payload":{"indoubt":"`+token+`"}}}],"has_more":false}`)
		}
	}))
	defer api.Close()
	b := newBenchAlone(t)
	b.recipe("slack", "https://slack.com/api", api.URL)
	b.doubt(1, "slack.message", `{"channel":"C1","text":"R&D"}`)
	token = b.token(1)
	b.wantVerdict("posted, as Slack keeps it", 1, ledger.Landed, "C1/1.2")
	b.doubt(2, "slack.message", `{"channel":"general","text":"R&D"}`)
	b.wantVerdict("a name of a channel", 2, ledger.CannotTell, "valid")
}

func TestRecipesOverHTTPAskAsDocumented(t *testing.T) {
	var token string
	asked := map[string]*http.Request{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && strings.Contains(r.URL.RawQuery, "query=") && !strings.Contains(r.URL.RawQuery, token) {
			fmt.Fprint(w, `{"messages":[]}`) // the check is tried on a token that nobody sent
			return
		}
		asked[strings.Trim(r.URL.EscapedPath(), "/")] = r
		switch {
		case r.URL.EscapedPath() == "/%40acme%2Fshop/1.2.0" || r.URL.EscapedPath() == "/@acme%2Fshop/1.2.0":
			w.Header().Set("Cf-Cache-Status", "HIT") // what a cache shows was published
			fmt.Fprint(w, `{"name":"@acme/shop","version":"1.2.0","dist":{"integrity":"sha512-AbC="}}`)
		case r.URL.Path == "/2/users/17/tweets":
			fmt.Fprint(w, `{"data":[{"id":"190","text":"Q&amp;A"}],"meta":{"result_count":1}}`)
		case r.URL.Path == "/v3/messages":
			fmt.Fprint(w, `{"messages":[{"msg_id":"kNq0r8.recvd-1-2.0","status":"delivered"},{"msg_id":"kNq0r8.recvd-1-2.1","status":"processed"}]}`)
		default:
			w.WriteHeader(404)
			fmt.Fprint(w, `"version not found"`)
		}
	}))
	defer api.Close()
	for i, c := range []struct {
		recipe, base, kind, input string
		want                      ledger.Verdict
		receipt                   string
	}{
		{"npm", "https://registry.npmjs.org", "npm.publish", `{"name":"@acme/shop","version":"1.2.0","integrity":"sha512-AbC="}`, ledger.Landed, "@acme/shop@1.2.0"},
		{"npm", "https://registry.npmjs.org", "npm.publish", `{"name":"@acme/none","version":"1.2.0","integrity":"sha512-AbC="}`, ledger.CannotTell, ""},
		{"x", "https://api.x.com", "x.post", `{"text":"Q&A"}`, ledger.CannotTell, "found 190, which may be it"},
		{"sendgrid", "https://api.sendgrid.com", "sendgrid.mail", `{"subject":"Your invoice"}`, ledger.Landed, "kNq0r8"},
	} {
		b := newBenchAlone(t)
		b.recipe(c.recipe, c.base, api.URL)
		b.doubt(i+1, c.kind, c.input)
		token = b.token(i + 1)
		b.wantVerdict(c.kind, i+1, c.want, c.receipt)
	}
	if r := asked["2/users/17/tweets"]; r == nil {
		t.Error("no posts asked for")
	} else if _, err := time.Parse("2006-01-02T15:04:05Z", r.URL.Query().Get("start_time")); err != nil || r.URL.Query().Get("max_results") != "100" {
		t.Error(r.URL, err)
	}
	if r := asked["v3/messages"]; r == nil || r.URL.Query().Get("query") != `(unique_args['indoubt']="`+token+`")` {
		t.Error("the mail is asked for in other words")
	}
}

func TestRecipeSMTP(t *testing.T) {
	need.Program(t, "awk")
	b := newBenchAlone(t)
	log := filepath.Join(b.dir, "mail.log")
	b.recipe("smtp", "/var/log/mail.log", log)
	for n := 1; n <= 4; n++ {
		b.doubt(n, "smtp.send", `{"to":"a@example.com","subject":"Your invoice"}`)
	}
	lines := func(queue string, n int, queued bool) string {
		out := fmt.Sprintf("Jan  2 03:04:05 mx postfix/cleanup[812]: %s: message-id=<%s@mail.example.com>\n", queue, b.token(n))
		if queued {
			out += fmt.Sprintf("2026-01-02T03:04:05.1+00:00 mx postfix/qmgr[97]: %s: from=<b: from=[x]: message-id=<%s@mail.example.com>@example.com>, size=8, nrcpt=1 (queue active)\n", queue, b.token(3))
		}
		return out
	}
	// The second mail was cut off behind its header, which is in the log already.
	text := lines("4XyZ1", 1, true) + lines("4XyZ2", 2, false) + "Jan  2 03:04:06 mx postfix/smtpd[811]: lost connection after DATA (512 bytes) from app[10.0.0.7]\n" +
		lines("4XyZ4", 4, true) + lines("4XyZ5", 4, true)
	need.OK(t, os.WriteFile(log, []byte(text), 0o600))
	b.wantVerdict("taken", 1, ledger.Landed, "4XyZ1")
	b.wantVerdict("cut off behind its header", 2, ledger.CannotTell, "")
	b.wantVerdict("another one's sender names it", 3, ledger.CannotTell, "")
	b.wantVerdict("taken twice", 4, ledger.Twice, "4XyZ5")
	need.OK(t, os.Remove(log))
	b.doubt(5, "smtp.send", `{"to":"a@example.com","subject":"Your invoice"}`)
	b.wantVerdict("no log", 5, ledger.CannotTell, "exit code 2")
}

func TestI6_RecipeKubernetes(t *testing.T) {
	b := newBenchAlone(t)
	b.recipe("kubernetes")
	jobs := filepath.Join(b.dir, "jobs")
	// A kubectl of one cluster, which is not the one that a person has switched to.
	b.program("kubectl", `
[ "$1" = --context ] || { echo '{"kind":"List","items":[]}'; exit 0; }
[ "$2" = prod-eu ] || { echo "error: context \"$2\" does not exist" >&2; exit 1; }
shift 2
case "$1 $2" in
"get jobs") token=${6#indoubt=}; if [ -e "`+jobs+`/$token" ]; then cat "`+jobs+`/$token"; else echo '{"apiVersion":"v1","kind":"List","items":[],"metadata":{"resourceVersion":""}}'; fi ;;
"get deployment") echo '{"metadata":{"generation":12},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web:4.18"}]}}}}' ;;
*) exit 1 ;;
esac
`)
	need.OK(t, os.Mkdir(jobs, 0o755))
	input := func(more string) string {
		return `{"metadata":{"generateName":"nightly-","namespace":"batch"}` + more + `}`
	}
	b.known(1, "kubectl.job", input(""), "batch/nightly-1")
	job := `{"kind":"List","items":[{"metadata":{"name":"nightly-1","namespace":"batch","labels":{"indoubt":"` + b.token(1) + `"}}}]}`
	need.OK(t, os.WriteFile(filepath.Join(jobs, b.token(1)), []byte(job), 0o600))
	b.doubt(2, "kubectl.job", input(""))
	b.doubt(3, "kubectl.job", input(`,"spec":{"ttlSecondsAfterFinished":60}`))
	b.doubt(4, "kubectl.image", `{"namespace":"shop","deployment":"web","container":"app","image":"web:4.18"}`)
	b.now = b.now.Add(6 * time.Minute)
	b.wantVerdict("a context that nobody has filled in", 2, ledger.CannotTell, "exit code 1")
	b.wantVerdict("a context that nobody has filled in", 4, ledger.CannotTell, "exit code 1")
	b.recipe("kubernetes", "my-cluster", "prod-eu")
	b.wantVerdict("not created", 2, ledger.NotThere, "")
	b.wantVerdict("may be deleted by now", 3, ledger.CannotTell, "")
	b.wantVerdict("deployed", 4, ledger.Landed, "whichever write made it so")
}

func TestRecipesOfPrograms(t *testing.T) {
	b := newBenchAlone(t)
	b.recipe("s3")
	b.doubt(1, "s3.put", `{"bucket":"backups","key":"2026/01.tar"}`)
	b.doubt(2, "s3.put", `{"bucket":"backups","key":"none"}`)
	b.doubt(3, "s3.put", `{"bucket":"--profile","key":"other"}`)
	b.program("aws", `[ "$6" = 2026/01.tar ] || { echo "An error occurred (404) when calling the HeadObject operation: Not Found" >&2; exit 254; }
echo '{"ETag":"\"9b2cf5-3\"","VersionId":"v7","Metadata":{"Indoubt":"`+b.token(1)+`"}}'
`)
	b.wantVerdict("put into a store that writes names large", 1, ledger.Landed, "v7")
	b.wantVerdict("not put", 2, ledger.CannotTell, "exit code 254")
	b.wantVerdict("a bucket that is an option", 3, ledger.CannotTell, "begin")
	b = newBenchAlone(t)
	b.recipe("dry-run")
	b.program("deployctl", `[ "$2" = web ] || { echo "unknown service $2" >&2; exit 1; }
[ "$4" = 4.18 ] && { echo '{"effect":"noop","revision":"r77"}'; exit 0; }; echo '{"effect":"would_update","revision":"r76"}'`)
	b.doubt(1, "deploy", `{"service":"web","version":"4.18"}`)
	b.wantVerdict("deployed", 1, ledger.Landed, "whichever write made it so")
	b.doubt(2, "deploy", `{"service":"web","version":"4.19"}`)
	b.wantVerdict("not deployed", 2, ledger.CannotTell, "")
}
