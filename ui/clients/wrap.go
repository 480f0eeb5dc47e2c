package clients

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/redact"
)

// Wrapping is what an entry is put behind.
type Wrapping struct {
	Program string   // the absolute path of indoubt
	Flags   []string // of every entry: the ledger, and the policy where one was named
	// Known is the name in kinds that a recipe gives a server, by its package or URL.
	Known func(word string) string
	// Login reports whether the server at a URL wants a login; nil never asks.
	Login func(url string) bool
}

// called is what a server that was put behind indoubt is called: in kinds, and in the ledger.
type called struct{ Server, Scope string }

// wrapped is how an entry stands behind indoubt.
type wrapped struct {
	url     string
	headers map[string]string // by variable
	own     int               // how many of args are indoubt's, with the first word of the server's command
	command string            // that word
}

// Errors of entries that stay as they are.
var (
	errByHand = errors.New("it stands behind indoubt already, with options that were written by hand")
	errForm   = errors.New("its fields are of a form that is not known")
	errNoWay  = errors.New("it has neither a command nor a url")
	errLogin  = errors.New("the client logs in to it by itself: `indoubt mcp` logs in nowhere, and would need a token in a header")
)

// ownFlags are what an entry that was put behind indoubt says.
var ownFlags = []string{"--ledger", "--policy", "--server", "--scope", "--url", "--header-env"}

// Behind reads an entry that stands behind indoubt. ok is false for any other, and the
// error says why one cannot be put back.
func (s *Server) Behind() (w wrapped, ok bool, err error) {
	words, plain := s.args()
	program := strings.TrimSuffix(strings.ToLower(filepath.Base(strings.ReplaceAll(s.word("command"), `\`, "/"))), ".exe")
	if program != "indoubt" || !plain || len(words) == 0 || words[0] != "mcp" {
		return wrapped{}, false, nil
	}
	w.headers = map[string]string{}
	for i := 1; i < len(words); i++ {
		switch {
		case words[i] == "--" && i+1 < len(words) && w.url == "":
			w.own, w.command = i+2, words[i+1]
			return w, true, nil
		case !slices.Contains(ownFlags, words[i]) || i+1 == len(words):
			return wrapped{}, true, errByHand
		}
		i++
		switch words[i-1] {
		case "--url":
			w.url = words[i]
		case "--header-env":
			name, variable, _ := strings.Cut(words[i], "=")
			w.headers[variable] = name
		}
	}
	if w.url == "" {
		return wrapped{}, true, errByHand
	}
	return w, true, nil
}

// Wrap puts an entry behind indoubt. An error says why it stays as it is.
func (s *Server) Wrap(w Wrapping) (called, error) {
	words, plain := s.args()
	command, url := s.word("command"), s.word("url")
	switch {
	case url != "" && (command != "" || len(words) > 0), !plain:
		return called{}, errForm
	case command != "":
		now := s.names(w, append([]string{command}, words...))
		s.member("command").Value.Value = hujson.String(w.Program)
		s.prepend(append(w.head(now), "--", command))
		return now, nil
	case url != "":
		return s.wrapURL(w, url)
	}
	return called{}, errNoWay
}

func (w Wrapping) head(names called) []string {
	words := append(append([]string{"mcp"}, w.Flags...), "--server", names.Server)
	if names.Scope != names.Server {
		words = append(words, "--scope", names.Scope)
	}
	return words
}

// names are what a server is called: in kinds as its recipe has it, else as the entry is
// called; in the ledger by the entry's name.
func (s *Server) names(w Wrapping, words []string) called {
	name, known := cmp.Or(strings.Trim(unnamely.ReplaceAllString(s.Name, "-"), "-"), "server"), ""
	for _, word := range words { // an image of a container stands among its arguments
		known = cmp.Or(known, w.Known(word))
	}
	return called{Server: cmp.Or(known, name), Scope: cmp.Or(strings.Join(strings.Fields(s.Name), "-"), name)}
}

var unnamely = lazyregexp.New(`[^A-Za-z0-9._-]+`)

func (s *Server) wrapURL(w Wrapping, url string) (called, error) {
	headers := s.member("headers")
	switch kind := s.word("type"); {
	case kind == "sse" || kind == "ws":
		return called{}, fmt.Errorf("its transport is %s, and indoubt speaks streamable HTTP", kind)
	case s.at("auth") >= 0, s.at("oauth") >= 0, s.at("headersHelper") >= 0, !s.authorized() && w.Login != nil && w.Login(url):
		return called{}, errLogin
	case headers != nil && s.at("env") >= 0:
		return called{}, errors.New("it has both headers and env")
	case headers != nil && object(&headers.Value) == nil:
		return called{}, errForm
	}
	now := s.names(w, []string{url})
	words := append(w.head(now), "--url", url)
	s.setType("stdio")
	if headers != nil { // their values move to the environment, where ps does not show them
		headers.Name.Value = hujson.String("env")
		taken := map[string]bool{}
		for i := range object(&headers.Value).Members {
			header := &object(&headers.Value).Members[i].Name
			name := word(header)
			variable := redact.HeaderVariable + strings.ToUpper(notVariable.ReplaceAllString(name, "_"))
			for taken[variable] { // X-A and X_A are two headers
				variable += "_"
			}
			taken[variable] = true
			header.Value = hujson.String(variable)
			words = append(words, "--header-env", name+"="+variable)
		}
	}
	at := s.member("url")
	at.Name.Value, at.Value.Value = hujson.String("command"), hujson.String(w.Program)
	s.prepend(words)
	return now, nil
}

func (s *Server) setType(to string) {
	if m := s.member("type"); m != nil {
		m.Value.Value = hujson.String(to)
	}
}

// authorized reports whether the entry itself has a credential.
func (s *Server) authorized() bool {
	m := s.member("headers")
	if m == nil || object(&m.Value) == nil {
		return false
	}
	return slices.ContainsFunc(object(&m.Value).Members, func(h hujson.ObjectMember) bool { return redact.Variable(word(&h.Name)) })
}

var notVariable = lazyregexp.New(`[^A-Za-z0-9]`)

// Unwrap takes an entry from behind indoubt, field by field: what a person wrote since stays.
func (s *Server) Unwrap() (changed bool, err error) {
	w, ok, err := s.Behind()
	switch {
	case err != nil || !ok:
		return false, err
	case w.url != "":
		err = s.unwrapURL(w)
		return err == nil, err
	}
	s.member("command").Value.Value = hujson.String(w.command)
	args := s.member("args").Value.Value.(*hujson.Array)
	before := args.Elements[0].BeforeExtra
	args.Elements = args.Elements[w.own:]
	if len(args.Elements) > 0 {
		args.Elements[0].BeforeExtra = before
	}
	return true, nil
}

func (s *Server) unwrapURL(w wrapped) error {
	at, next := s.at("command"), s.at("args")
	command, args := &s.entry.Members[at], s.entry.Members[next]
	if between := slices.Concat(command.Value.AfterExtra, args.Name.BeforeExtra); next != at+1 || strings.TrimSpace(string(between)) != "" {
		return errByHand
	}
	command.Name.Value, command.Value.Value = hujson.String("url"), hujson.String(w.url)
	command.Value.AfterExtra = args.Value.AfterExtra
	s.setType("http")
	if env := s.member("env"); env != nil && len(w.headers) > 0 {
		env.Name.Value = hujson.String("headers")
		asHeaders(object(&env.Value), w.headers)
	}
	s.entry.Members = slices.Delete(s.entry.Members, next, next+1)
	return nil
}

// asHeaders leaves of an environment the values of headers. The rest was for indoubt.
func asHeaders(env *hujson.Object, headers map[string]string) {
	if env == nil || len(env.Members) == 0 {
		return
	}
	before, after := env.Members[0].Name.BeforeExtra, env.Members[len(env.Members)-1].Value.AfterExtra
	env.Members = slices.DeleteFunc(env.Members, func(m hujson.ObjectMember) bool { return headers[word(&m.Name)] == "" })
	for i := range env.Members {
		name := &env.Members[i].Name
		name.Value = hujson.String(headers[word(name)])
	}
	if last := len(env.Members) - 1; last >= 0 {
		env.Members[0].Name.BeforeExtra, env.Members[last].Value.AfterExtra = before, after
	}
}

// prepend puts words before the entry's arguments, laid out as they are.
func (s *Server) prepend(words []string) {
	if s.at("args") < 0 {
		at := s.at("command")
		command := &s.entry.Members[at]
		name := hujson.Value{BeforeExtra: lineOr(command.Name.BeforeExtra), Value: hujson.String("args")}
		list := hujson.Value{BeforeExtra: hujson.Extra(" "), Value: &hujson.Array{}, AfterExtra: command.Value.AfterExtra}
		command.Value.AfterExtra = nil
		s.entry.Members = slices.Insert(s.entry.Members, at+1, hujson.ObjectMember{Name: name, Value: list})
	}
	added := make([]hujson.Value, len(words))
	for i, w := range words {
		added[i] = hujson.Value{BeforeExtra: hujson.Extra(" "), Value: hujson.String(w)}
	}
	added[0].BeforeExtra = nil
	list := s.member("args").Value.Value.(*hujson.Array)
	if len(list.Elements) > 0 {
		first := &list.Elements[0]
		added[0].BeforeExtra, first.BeforeExtra = first.BeforeExtra, lineOr(first.BeforeExtra)
	}
	list.Elements = append(added, list.Elements...)
}

// lineOr is the white space of a line as it stands before a word, without comments; else a space.
func lineOr(extra hujson.Extra) hujson.Extra {
	if i := bytes.LastIndexByte(extra, '\n'); i >= 0 && len(bytes.TrimSpace(extra[i:])) == 0 {
		return extra[i:]
	}
	return hujson.Extra(" ")
}
