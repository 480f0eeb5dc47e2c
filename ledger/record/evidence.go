package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/redact"
)

const (
	maxResult  = 64 << 10 // bytes of an answer that are kept
	maxError   = 2 << 10  // bytes of an error text
	maxExcerpt = 400      // bytes of an answer inside an error text
	maxReceipt = 512
	cutMark    = "…"
)

// resultOf is what is kept of an answer: the JSON it is, or its text. A JSON
// string is kept as text too, so that Output is never in doubt which it was.
func resultOf(a ledger.Answer) json.RawMessage {
	said := output(a)
	trimmed := bytes.TrimSpace(said)
	if len(trimmed) == 0 {
		return nil
	}
	if !a.Truncated && len(said) <= maxResult && trimmed[0] != '"' && json.Valid(said) && !ledger.TooDeep(said) {
		return json.RawMessage(bytes.Clone(said)) // with the white space around it: what is printed later is what was said
	}
	tail, kept := len(a.Stdout) > 0, "" // of a command the end tells more, of a body the beginning
	if a.Truncated {
		kept = keptPart
	}
	if most := 2 * maxResult; len(said) > most { // of the rest nothing is kept
		if said = said[:most]; tail {
			said = output(a)[len(output(a))-most:]
		}
	}
	return textResult(string(said), tail, kept)
}

// partOf is how an answer is kept of which not all is.
type partOf struct {
	Kept string `json:"kept"`
	Text string `json:"text"`
}

// Why not all of an answer is kept.
const (
	keptPart     = "part"     // it was too long, broke off, or is no text
	keptRedacted = "redacted" // a secret was taken out of it
)

// textResult is a text as JSON: itself, or what of it is kept and why that is not
// all.
func textResult(s string, tail bool, kept string) json.RawMessage {
	text := strings.ToValidUTF8(clip(s, maxResult, tail), "\uFFFD")
	whole := encode(text)
	if kept == "" && text == s && len(whole) <= 2*maxResult {
		return whole
	}
	out := partOf{cmp.Or(kept, keptPart), text}
	if part := encode(out); len(part) <= 2*maxResult {
		return part
	}
	out.Text = clip(text, maxResult/8, tail) // of characters that take six bytes each
	return encode(out)
}

// Output is a stored result as the command or server had said it, byte for byte.
// Where it was cut, or cleared of secrets, it is not whole: it is what was kept, and
// must not be taken for an answer.
func Output(result json.RawMessage) (said []byte, whole bool) {
	if len(result) == 0 {
		return nil, true
	}
	var text string
	if result[0] == '"' && json.Unmarshal(result, &text) == nil {
		return []byte(text), true
	}
	var part partOf
	dec := json.NewDecoder(bytes.NewReader(result))
	dec.DisallowUnknownFields()
	if result[0] == '{' && dec.Decode(&part) == nil && (part.Kept == keptPart || part.Kept == keptRedacted) {
		return []byte(part.Text), false
	}
	return bytes.Clone(result), true
}

// excerpt is the beginning or the end of an answer on one line.
func excerpt(b []byte, tail bool) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	return clip(strings.Join(strings.Fields(s), " "), maxExcerpt, tail)
}

// clip cuts a text to at most n bytes and a mark, between characters.
func clip(s string, n int, tail bool) string {
	if len(s) <= n {
		return s
	}
	if tail {
		s = s[len(s)-n:]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
		return cutMark + s
	}
	s = s[:n]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + cutMark
}

// tidy bounds what is stored of an answer and takes secrets out of it: the
// well-known ones, and the values given, which the wish had declared secret.
func tidy(s ledger.SettleRequest, secrets []string) ledger.SettleRequest {
	s.Error = clip(redact.Without(strings.ToValidUTF8(s.Error, "\uFFFD"), secrets), maxError, false)
	s.Receipt = clip(redact.Without(strings.ToValidUTF8(s.Receipt, "\uFFFD"), secrets), maxReceipt, false)
	s.Result = tidyResult(s.Result, secrets)
	return s
}

func tidyResult(result json.RawMessage, secrets []string) json.RawMessage {
	if len(result) == 0 {
		return nil
	}
	if !json.Valid(result) || len(result) > 2*maxResult || ledger.TooDeep(result) {
		result = textResult(string(result), false, keptPart)
	}
	value, err := decode(result)
	if err != nil {
		return textResult(redact.Without(string(result), secrets), false, keptPart)
	}
	if ledger.NamesTwice(result, value) { // what one parser reads another does not
		return cleanText(string(result), secrets)
	}
	if text, ok := value.(string); ok {
		return cleanText(text, secrets)
	}
	cleaned, changed := cleanAnswer("", value, secrets)
	if !changed {
		return result // byte for byte, with the order and numbers it came with
	}
	return encode(cleaned)
}

// cleanText is a text as it is kept without secrets.
func cleanText(text string, secrets []string) json.RawMessage {
	cleaned, kept := redact.Without(text, secrets), ""
	if cleaned != text {
		kept = keptRedacted
	}
	return textResult(cleaned, false, kept)
}

// cleanAnswer replaces secrets in a decoded answer.
func cleanAnswer(holder string, v any, secrets []string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		changed := false
		for name, member := range v {
			next, did := cleanMember(holder, name, member, secrets)
			v[name], changed = next, changed || did
		}
		return v, changed
	case []any:
		changed := false
		for i := range v {
			next, did := cleanAnswer(holder, v[i], secrets)
			v[i], changed = next, changed || did
		}
		return v, changed
	case string:
		next := redact.Without(v, secrets)
		return next, next != v
	case json.Number:
		for _, s := range secrets {
			if s == v.String() {
				return redact.Mark, true
			}
		}
	}
	return v, false
}

// cleanMember is cleanAnswer for the value that a member has.
func cleanMember(holder, name string, v any, secrets []string) (any, bool) {
	if list, ok := v.([]any); ok {
		changed := false
		for i := range list {
			next, did := cleanMember(holder, name, list[i], secrets)
			list[i], changed = next, changed || did
		}
		return list, changed
	}
	if text, ok := redact.Member(holder, name, v); ok && !redact.Harmless(text) {
		return redact.Mark, text != redact.Mark
	}
	return cleanAnswer(name, v, secrets)
}

// decode reads one JSON value with its numbers as they are written.
func decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// encode writes a decoded value; it cannot fail on what decode returns.
func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return json.RawMessage(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}
