package clients

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
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

// Wrap gives the edits that put an entry behind indoubt. An error says why it stays as
// it is.
func (s *Server) Wrap(w Wrapping) ([]udiff.Edit, called, error) {
	words, plain := s.args()
	command, url := s.word("command"), s.word("url")
	switch {
	case command != "" && url != "", !plain:
		return nil, called{}, errForm
	case command != "":
		words = append([]string{command}, words...)
		now := s.names(w, words)
		head := append(w.head(now), "--", command)
		edits := []udiff.Edit{s.set(&s.members["command"].Value, quoted(w.Program))}
		return append(edits, s.prepend(head)), now, nil
	case url != "":
		return s.wrapURL(w, url)
	}
	return nil, called{}, errNoWay
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

func (s *Server) wrapURL(w Wrapping, url string) ([]udiff.Edit, called, error) {
	switch kind := s.word("type"); {
	case kind == "sse" || kind == "ws":
		return nil, called{}, fmt.Errorf("its transport is %s, and indoubt speaks streamable HTTP", kind)
	case !s.authorized() && w.Login != nil && w.Login(url):
		return nil, called{}, errLogin
	case s.members["auth"] != nil || s.members["oauth"] != nil || s.members["headersHelper"] != nil:
		return nil, called{}, errLogin
	case s.members["headers"] != nil && s.members["env"] != nil:
		return nil, called{}, errors.New("it has both headers and env")
	}
	now := s.names(w, []string{url})
	words := append(w.head(now), "--url", url)
	var edits []udiff.Edit
	if m := s.members["type"]; m != nil {
		edits = append(edits, s.set(&m.Value, `"stdio"`))
	}
	if m := s.members["headers"]; m != nil { // their values move to the environment, where ps does not show them
		edits = append(edits, s.set(&m.Name, `"env"`))
		headers, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			return nil, called{}, errors.New("its headers are of a form that is not known")
		}
		taken := map[string]bool{}
		for i := range headers.Members {
			name := word(&headers.Members[i].Name)
			variable := redact.HeaderVariable + strings.ToUpper(notVariable.ReplaceAllString(name, "_"))
			for taken[variable] { // X-A and X_A are two headers
				variable += "_"
			}
			taken[variable] = true
			edits = append(edits, s.set(&headers.Members[i].Name, quoted(variable)))
			words = append(words, "--header-env", name+"="+variable)
		}
	}
	m := s.members["url"]
	between := cmp.Or(blank(m.Name.BeforeExtra), " ")
	edits = append(edits, udiff.Edit{
		Start: s.from + m.Name.StartOffset,
		End:   s.from + m.Value.EndOffset,
		New:   `"command": ` + quoted(w.Program) + `,` + between + `"args": [` + allQuoted(words) + `]`,
	})
	return edits, now, nil
}

// authorized reports whether the entry itself has a credential.
func (s *Server) authorized() bool {
	m := s.members["headers"]
	if m == nil {
		return false
	}
	headers, ok := m.Value.Value.(*hujson.Object)
	return ok && slices.ContainsFunc(headers.Members, func(h hujson.ObjectMember) bool { return redact.Variable(word(&h.Name)) })
}

var notVariable = lazyregexp.New(`[^A-Za-z0-9]`)

// Unwrap gives the edits that take an entry from behind indoubt, field by field: what a person
// wrote since stays.
func (s *Server) Unwrap() ([]udiff.Edit, error) {
	w, ok, err := s.Behind()
	if err != nil || !ok {
		return nil, err
	}
	if w.url != "" {
		return s.unwrapURL(w)
	}
	edits := []udiff.Edit{s.set(&s.members["command"].Value, quoted(w.command))}
	args := s.members["args"].Value.Value.(*hujson.Array)
	from, to := s.from+args.Elements[0].StartOffset, s.from+args.Elements[w.own-1].EndOffset
	if w.own < len(args.Elements) {
		to = s.from + args.Elements[w.own].StartOffset
	}
	return append(edits, udiff.Edit{Start: from, End: to}), nil
}

func (s *Server) unwrapURL(w wrapped) ([]udiff.Edit, error) {
	command, args := s.members["command"], s.members["args"]
	from, to := s.from+command.Value.EndOffset, s.from+args.Name.StartOffset
	if from > to || strings.TrimSpace(string(s.text[from:to])) != "," {
		return nil, errByHand
	}
	edits := []udiff.Edit{s.set(&command.Name, `"url"`), s.set(&command.Value, quoted(w.url)),
		{Start: from, End: s.from + args.Value.EndOffset}}
	if m := s.members["type"]; m != nil {
		edits = append(edits, s.set(&m.Value, `"http"`))
	}
	if m := s.members["env"]; m != nil && len(w.headers) > 0 {
		edits = append(edits, s.set(&m.Name, `"headers"`))
		if env, ok := m.Value.Value.(*hujson.Object); ok {
			edits = append(edits, s.asHeaders(env, w.headers)...)
		}
	}
	return edits, nil
}

// asHeaders leaves of an environment the values of headers. The rest was for indoubt.
func (s *Server) asHeaders(env *hujson.Object, headers map[string]string) (edits []udiff.Edit) {
	kept := false
	for i := range env.Members {
		m := &env.Members[i]
		switch name := headers[word(&m.Name)]; {
		case name != "":
			edits, kept = append(edits, s.set(&m.Name, quoted(name))), true
		case kept:
			edits = append(edits, udiff.Edit{Start: s.from + env.Members[i-1].Value.EndOffset, End: s.from + m.Value.EndOffset})
		case i+1 < len(env.Members):
			edits = append(edits, udiff.Edit{Start: s.from + m.Name.StartOffset, End: s.from + env.Members[i+1].Name.StartOffset})
		}
	}
	return edits
}

func (s *Server) set(v *hujson.Value, text string) udiff.Edit {
	return udiff.Edit{Start: s.from + v.StartOffset, End: s.from + v.EndOffset, New: text}
}

// prepend puts words before the entry's arguments, laid out as they are.
func (s *Server) prepend(words []string) udiff.Edit {
	m := s.members["args"]
	if m == nil {
		command := s.members["command"]
		at, gap := s.from+command.Value.EndOffset, cmp.Or(blank(command.Name.BeforeExtra), " ")
		return udiff.Edit{Start: at, End: at, New: "," + gap + `"args": [` + allQuoted(words) + "]"}
	}
	list := m.Value.Value.(*hujson.Array)
	if len(list.Elements) == 0 {
		at := s.from + m.Value.StartOffset + 1
		return udiff.Edit{Start: at, End: at, New: allQuoted(words)}
	}
	first := list.Elements[0]
	at := s.from + first.StartOffset
	return udiff.Edit{Start: at, End: at, New: allQuoted(words) + "," + cmp.Or(blank(first.BeforeExtra), " ")}
}

// blank is white space as it stands before a word, without comments.
func blank(extra hujson.Extra) string {
	text := string(extra)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 && strings.TrimSpace(text[i:]) == "" {
		return text[i:]
	}
	return ""
}
