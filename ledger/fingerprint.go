package ledger

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxExact is the largest integer a double holds exactly with all below it.
var maxExact = new(big.Int).Lsh(big.NewInt(1), 53)

// Fingerprint is a SHA-256 (hex) of what a JSON text says, whatever the order of members and the
// spelling of numbers and texts. It is made in one pass, so that a long text takes no more memory
// than its widest object. Integers beyond 2^53 count as they are written, since a double would make
// two different ids equal. Duplicate members are refused, because two readers could see two
// different inputs, and so is what cannot be decoded without loss (ErrNotText).
func Fingerprint(input json.RawMessage) (string, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("null")
	}
	if TooDeep(input) {
		return "", ErrTooDeep
	}
	if NotText(input) {
		return "", ErrNotText
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	sum, err := digestOf(dec)
	if err != nil {
		return "", fmt.Errorf("input is not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return "", fmt.Errorf("input is more than one JSON value")
	}
	return hex.EncodeToString(sum), nil
}

// digestOf is the digest of one value: of a list the digest of its elements' digests, of an
// object of its members' names and digests, in an order of their own.
func digestOf(dec *json.Decoder) ([]byte, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	switch t := t.(type) {
	case json.Delim:
		var members []string
		seen := map[string]bool{}
		for dec.More() {
			name := ""
			if t == '{' {
				k, err := dec.Token()
				if err != nil {
					return nil, err
				}
				if name = k.(string); seen[name] {
					return nil, fmt.Errorf("member %q occurs twice", name)
				}
				seen[name] = true
				sum := sha256.Sum256([]byte(name))
				name = string(sum[:])
			}
			sum, err := digestOf(dec)
			switch {
			case err != nil:
				return nil, err
			case t == '{':
				members = append(members, name+string(sum))
			default:
				h.Write(sum)
			}
		}
		slices.Sort(members)
		for _, m := range members {
			io.WriteString(h, m)
		}
		io.WriteString(h, t.String())
		_, err = dec.Token()
	case json.Number:
		n := t.String()
		if whole, ok := new(big.Int).SetString(n, 10); !ok || whole.CmpAbs(maxExact) <= 0 {
			f, bad := t.Float64()
			if bad != nil {
				return nil, fmt.Errorf("the number %s is out of range", n)
			}
			n = strconv.FormatFloat(f+0, 'g', -1, 64)
		}
		io.WriteString(h, "n"+n)
	default:
		fmt.Fprintf(h, "%T%v", t, t)
	}
	return h.Sum(nil), err
}

// maxDepth is how deep JSON may be nested that a ledger keeps: with what is
// written around it, SQLite takes a thousand levels.
const maxDepth = 500

// ErrTooDeep says that JSON is nested deeper than a ledger keeps it.
var ErrTooDeep = fmt.Errorf("the JSON is nested deeper than %d levels", maxDepth)

// TooDeep reports whether a JSON text is nested deeper than a ledger keeps it.
func TooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// ErrNotText says that JSON holds bytes that are no UTF-8, or half a surrogate pair.
// A decoder puts U+FFFD in their place, which makes two different inputs one.
var ErrNotText = errors.New("a text in the JSON is not UTF-8, or holds half a surrogate pair; write bytes as base64")

// NotText reports whether a JSON text holds what ErrNotText says.
func NotText(text []byte) bool {
	if !utf8.Valid(text) {
		return true
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		half := escaped(text[i:])
		switch {
		case !utf16.IsSurrogate(half):
			i++ // what is escaped
		case utf16.DecodeRune(half, escaped(text[i+6:])) == utf8.RuneError:
			return true
		default:
			i += 11
		}
	}
	return false
}

// escaped is the rune of the \u escape that text begins with, or 0.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n)
}

// NamesTwice reports whether an object in valid JSON text has two members of one
// name, given the value that the text was decoded to.
func NamesTwice(text []byte, decoded any) bool {
	n, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ':' && !quoted:
			n++
		}
	}
	return n != members(decoded)
}

// members is how many members a decoded value has, with those inside them.
func members(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, member := range v {
			n += members(member)
		}
	case []any:
		for _, e := range v {
			n += members(e)
		}
	}
	return n
}

// KeyedDigest is what stands for a secret: an HMAC under the ledger's key, in hex. Equal
// secrets stay equal, and a ledger that is copied does not help to guess them.
func KeyedDigest(key []byte, value string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// CallerLength is how much of its digest is kept of a header that says who asks.
const CallerLength = 16
