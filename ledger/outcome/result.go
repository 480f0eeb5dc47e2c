package outcome

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/redact"
)

const (
	MaxResult  = 64 << 10 // bytes of an answer that are kept
	MaxError   = 2 << 10  // bytes of an error text
	MaxExcerpt = 400      // bytes of an answer inside an error text
	maxReceipt = 512
	cutMark    = "…"
)

// Result is what is kept of an answer: the JSON it is, or its text. A JSON
// string is kept as text too, so that Output is never in doubt which it was.
func Result(a ledger.Answer) json.RawMessage {
	said := Said(a)
	trimmed := bytes.TrimSpace(said)
	if len(said) == 0 {
		return nil
	}
	if !a.Truncated && len(said) <= MaxResult && len(trimmed) > 0 && trimmed[0] != '"' && json.Valid(said) && !ledger.TooDeep(said) {
		return json.RawMessage(bytes.Clone(said)) // with the white space around it: what is printed later is what was said
	}
	tail, kept := len(a.Stdout) > 0, "" // of a command the end tells more, of a body the beginning
	if a.Truncated {
		kept = KeptPart
	}
	if most := 2 * MaxResult; len(said) > most { // of the rest nothing is kept
		if said = said[:most]; tail {
			said = Said(a)[len(Said(a))-most:]
		}
	}
	return TextResult(string(said), tail, kept)
}

// partOf is how an answer is kept of which not all is.
type partOf struct {
	Kept string `json:"kept"`
	Text string `json:"text"`
}

// Why not all of an answer is kept.
const (
	KeptPart     = "part"     // it was too long, broke off, or is no text
	KeptRedacted = "redacted" // a secret was taken out of it
)

// TextResult is a text as JSON: itself, or what of it is kept and why that is not
// all.
func TextResult(s string, tail bool, kept string) json.RawMessage {
	text := strings.ToValidUTF8(Clip(s, MaxResult, tail), "\uFFFD")
	whole := ledger.EncodeJSON(text)
	if kept == "" && text == s && len(whole) <= 2*MaxResult {
		return whole
	}
	out := partOf{cmp.Or(kept, KeptPart), text}
	if part := ledger.EncodeJSON(out); len(part) <= 2*MaxResult {
		return part
	}
	out.Text = Clip(text, MaxResult/8, tail) // of characters that take six bytes each
	return ledger.EncodeJSON(out)
}

// Kept is the stored answer of an operation as Output gives it. What was redacted, or moved to a file, has none.
func Kept(o ledger.Operation) (said []byte, whole bool) {
	if o.Moved != "" || !o.RedactedAt.IsZero() {
		return nil, false
	}
	return Output(o.Result)
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
	if result[0] == '{' && dec.Decode(&part) == nil && (part.Kept == KeptPart || part.Kept == KeptRedacted) {
		return []byte(part.Text), false
	}
	return bytes.Clone(result), true
}

// excerpt is the beginning or the end of an answer on one line.
func excerpt(b []byte, tail bool) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	return Clip(strings.Join(strings.Fields(s), " "), MaxExcerpt, tail)
}

// Clip cuts a text to at most n bytes and a mark, between characters.
func Clip(s string, n int, tail bool) string {
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

// Tidy bounds what is stored of an answer and takes secrets out of it: the
// well-known ones, and the values given, which the request had declared secret.
func Tidy(s ledger.SettleRequest, secrets []string) ledger.SettleRequest {
	s.Error = Clip(redact.Without(strings.ToValidUTF8(s.Error, "\uFFFD"), secrets), MaxError, false)
	s.Receipt = Clip(redact.Without(strings.ToValidUTF8(s.Receipt, "\uFFFD"), secrets), maxReceipt, false)
	s.Result = TidyResult(s.Result, secrets)
	return s
}

// TidyResult is Tidy for a result alone.
func TidyResult(result json.RawMessage, secrets []string) json.RawMessage {
	if len(result) == 0 {
		return nil
	}
	if !json.Valid(result) || len(result) > 2*MaxResult || ledger.TooDeep(result) {
		result = TextResult(string(result), false, KeptPart)
	}
	value, err := ledger.DecodeJSON(result)
	if err != nil {
		return TextResult(redact.Without(string(result), secrets), false, KeptPart)
	}
	if ledger.NamesTwice(result, value) { // what one parser reads another does not
		return cleanText(string(result), secrets)
	}
	if text, ok := value.(string); ok {
		return cleanText(text, secrets)
	}
	w := redact.Walker{Stand: redact.Marked, Values: secrets}
	cleaned := w.Value("", value)
	if !w.Changed {
		return result // byte for byte, with the order and numbers it came with
	}
	return ledger.EncodeJSON(cleaned)
}

// cleanText is a text as it is kept without secrets.
func cleanText(text string, secrets []string) json.RawMessage {
	cleaned, kept := redact.Without(text, secrets), ""
	if cleaned != text {
		kept = KeptRedacted
	}
	return TextResult(cleaned, false, kept)
}
