package httpproxy

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"indoubt/ledger/need"
)

// wireSeed repeats a run of raw requests; INDOUBT_RAW_REQUESTS makes it longer, and
// INDOUBT_RAW_SEED another one.
const wireSeed, wireRequests = 1, 400

func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// marker names a request that a client meant to send, hidden one that stands in
// the body of another, which no server may take for a request.
var marker = regexp.MustCompile(`(?:sent|hidden)-\d+-\d+`)

// truth is what an upstream was asked to do, as it read it off its connections.
type truth struct {
	mu     sync.Mutex
	writes map[string]int
	reads  int
}

// serve reads every request of a connection, and answers each in one of several ways.
func (u *truth) serve(up *upstream, c net.Conn) {
	for in := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return // its sender sees that it did not arrive
		}
		mark := marker.FindString(req.RequestURI)
		u.mu.Lock()
		if method := req.Method; (method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE") && !overridden(req) {
			u.reads++
		} else {
			u.writes[mark]++
		}
		u.mu.Unlock()
		h := fnv.New32()
		_, _ = io.WriteString(h, mark)
		answer := "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
		if req.Method == "HEAD" {
			answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
		} else {
			switch h.Sum32() % 8 {
			case 0:
				answer = "" // gone without a word
			case 1:
				answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut"
			case 2:
				answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
			case 3:
				answer = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
			case 4:
				answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
			}
		}
		if _, err := io.WriteString(c, answer); err != nil || h.Sum32()%8 < 2 || req.Close {
			return
		}
	}
}

func anyOf(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// mostly is the usual text, and now and then an odd one.
func mostly(r *rand.Rand, usual string, odd ...string) string {
	if r.IntN(14) > 0 {
		return usual
	}
	return anyOf(r, odd...)
}

// seldom is a text in one of n cases, else nothing.
func seldom(r *rand.Rand, n int, text string) string {
	if r.IntN(n) == 0 {
		return text
	}
	return ""
}

// rawRequest is one request as some client may write it: mostly well, sometimes in
// a way that servers read differently.
func rawRequest(r *rand.Rand, mark string) string {
	hidden := strings.Replace(mark, "sent", "hidden", 1)
	eol := "\r\n"
	if r.IntN(25) == 0 {
		eol = "\n"
	}
	method := mostly(r, anyOf(r, "POST", "POST", "POST", "PUT", "PATCH", "DELETE", "GET", "GET", "GET", "HEAD", "OPTIONS"), "TRACE", "PURGE", "MKCOL", "post", "Get", "CONNECT", "P\x00ST", "")
	target := mostly(r, "/w/", "//w/", "/w/../", "/w/%2e%2e/", "/w%2f", "/w\\", "/w;x=1/", "http://h/w/", "https://other/w/", "h:80/", "*", "/w/?q=", "w/", "/\xff/", "/a b/") + mark + seldom(r, 6, "?x=%zz&a;b")
	b := method + seldom(r, 60, " ") + " " + target + " " + mostly(r, "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.11", "http/1.1", "") + eol
	b += mostly(r, "Host: h", "host:h", "Host: evil.example", "Host: h"+eol+"Host: other", "") + eol
	b += seldom(r, 2, mostly(r, "Idempotency-Key: "+mark, `Idempotency-Key: "`+mark+`"`, "idempotency-key:"+mark, "Idempotency-Key: ", "Idempotency-Key: a"+eol+"Idempotency-Key: b", "Idempotency-Key : "+mark, "Idempotency-Key:"+eol+" "+mark)+eol)
	b += seldom(r, 8, anyOf(r, "X-HTTP-Method-Override: DELETE", "X-Http-Method: put", "X-Method-Override: GET", "x-http-method-override: ", "_method: DELETE")+eol)
	b += seldom(r, 8, anyOf(r, "Connection: close", "Connection: keep-alive", "Connection: Idempotency-Key", "Connection: upgrade"+eol+"Upgrade: h2c", "Connection: upgrade"+eol+"Upgrade: websocket")+eol)
	b += seldom(r, 10, "Expect: "+anyOf(r, "100-continue", "100-Continue", "else")+eol)
	b += seldom(r, 14, anyOf(r, "X-Odd: \x01", "X-Folded: a"+eol+"\tb", "No colon", ": no name", "X-Long: "+strings.Repeat("x", 9000), "Content-Encoding: gzip", "Content-Type: multipart/form-data; boundary=x", "Content-Type: application/x-www-form-urlencoded")+eol)
	body := anyOf(r, "", `{"a":1}`, "a=1&b=2", strings.Repeat("[", 600), "\x00\xff", "POST /w/"+hidden+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "0\r\n\r\nPUT /w/"+hidden+" HTTP/1.1\r\nHost: h\r\n\r\n", strings.Repeat("x", 70000))
	if method == "GET" || method == "HEAD" || method == "OPTIONS" {
		body = mostly(r, "", body)
	}
	switch r.IntN(16) {
	default:
		return b + fmt.Sprintf("Content-Length: %d%s%s%s", len(body), eol, eol, body)
	case 1, 2, 3, 4: // in chunks
		b += mostly(r, "Transfer-Encoding: chunked", "transfer-encoding:chunked", "Transfer-Encoding: Chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding : chunked", "Transfer-Encoding: chunked"+eol+"Transfer-Encoding: identity", "Transfer-Encoding: xchunked") + eol
		b += seldom(r, 10, fmt.Sprintf("Content-Length: %d%s", r.IntN(20), eol)) + seldom(r, 6, "Trailer: X-T, Idempotency-Key"+eol) + eol
		for len(body) > 0 {
			n := min(len(body), 1+r.IntN(40000))
			b += fmt.Sprintf("%s%x%s%s%s%s", seldom(r, 20, "0"), n, seldom(r, 10, ";ext=1"), mostly(r, eol, "\n"), body[:n], mostly(r, eol, ""))
			body = body[n:]
		}
		return b + "0" + eol + seldom(r, 6, anyOf(r, "X-T: 1", "Idempotency-Key: "+mark, "Content-Type: text/plain", "X-HTTP-Method-Override: DELETE", "bad")+eol) + eol
	case 5: // a length that is wrong
		return b + "Content-Length: " + anyOf(r, fmt.Sprint(len(body)+5), fmt.Sprint(max(0, len(body)-3)), "-1", "+1", "0x1", "1, 1", "99999999999999999999", fmt.Sprintf("%d%sContent-Length: %d", len(body), eol, len(body)+1)) + eol + eol + body
	case 6: // no framing at all: what follows is the next request
		return b + eol + strings.ReplaceAll(body, "/w/"+hidden, "*")
	case 7:
		return b + "Content-Length: 0" + eol + eol
	}
}

// rawClient writes requests over one connection, whole or cut, in pieces, and reads
// whatever comes until the end.
func rawClient(r *rand.Rand, address, text string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if r.IntN(12) == 0 {
		text = text[:r.IntN(len(text))]
	}
	leaves, pieces := r.IntN(10) == 0, 1+r.IntN(3)
	go func() {
		for ; pieces > 1; pieces-- {
			n := len(text) / pieces
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return
			}
			text = text[n:]
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(c, text)
		if leaves {
			c.Close()
			return
		}
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	if _, err = io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		return fmt.Errorf("it hangs on %.300q", text)
	}
	return nil
}

// Whatever clients write, and however it is cut: each write that reached the
// upstream is in the ledger, none reached it twice (but what says what shall be there, as a
// further attempt), and nothing that stands in a body became a request.
func TestI1_RawRequests(t *testing.T) {
	seed, n := uint64(fromEnv("INDOUBT_RAW_SEED", wireSeed)), fromEnv("INDOUBT_RAW_REQUESTS", wireRequests)
	told := &truth{writes: map[string]int{}}
	up := newUpstream(t, told.serve)
	w := newWorld(t, up, setup{file: true})
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.proxy.Serve(ctx, l, 20*time.Second) }()

	var requests atomic.Int64
	var clients sync.WaitGroup
	for worker := range 4 {
		clients.Go(func() {
			for i := worker; requests.Load() < int64(n); i += 4 {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				var all []string
				for j := range 1 + r.IntN(3) {
					all = append(all, rawRequest(r, fmt.Sprintf("sent-%d-%d", i, j)))
				}
				text := strings.Join(all, "")
				requests.Add(int64(len(all)))
				if err := rawClient(r, l.Addr().String(), text); err != nil {
					t.Errorf("seed %d, connection %d: %v", seed, i, err)
				}
				if len(all) == 1 && strings.Contains(text, "Idempotency-Key: sent") { // a client that tries again
					requests.Add(1)
					if err := rawClient(r, l.Addr().String(), text); err != nil {
						t.Errorf("seed %d, connection %d again: %v", seed, i, err)
					}
				}
			}
		})
	}
	clients.Wait()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}

	db := need.Get(sql.Open("sqlite", w.path))(t)
	defer db.Close()
	rows := need.Get(db.Query(`SELECT (input ->> 'path') || coalesce(input ->> 'query', ''), attempt, state, input ->> 'method' IN ('PUT', 'DELETE')
		FROM (SELECT o.attempt, o.state, e.payload -> 'op' -> 'input' AS input FROM op o JOIN ev e ON e.op = o.seq AND e.version = 1)`))(t)
	defer rows.Close()
	attempts, repeatable := map[string]int{}, map[string]bool{}
	for rows.Next() {
		var path, state string
		var count int
		var sets bool
		need.OK(t, rows.Scan(&path, &count, &state, &sets))
		repeatable[marker.FindString(path)] = sets
		attempts[marker.FindString(path)] += count
		need.That(t, state != "pending", "%s is still on its way", path)
	}
	need.OK(t, rows.Err())
	told.mu.Lock()
	defer told.mu.Unlock()
	for mark, times := range told.writes {
		switch {
		case strings.HasPrefix(mark, "hidden") || mark == "":
			t.Errorf("seed %d: what stood in a body became a request: %q", seed, mark)
		case times > 1 && !repeatable[mark]:
			t.Errorf("seed %d: %s reached the upstream %d times", seed, mark, times)
		case attempts[mark] != times:
			t.Errorf("seed %d: %s reached the upstream, and %d attempts of it are recorded", seed, mark, attempts[mark])
		}
	}
	need.That(t, len(told.writes) >= n/10 && told.reads >= n/40, "only %d writes and %d reads of %d requests came through", len(told.writes), told.reads, n)
	t.Logf("seed %d: %d requests, %d writes and %d reads reached the upstream, %d operations", seed, requests.Load(), len(told.writes), told.reads, len(attempts))
}
