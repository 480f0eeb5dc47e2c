package ledger

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Token is the token of the operation that is the n-th (from 0) to have a name which a caller or
// the policy gave, in its scope and kind. Without a key it is "".
func (m Mask) Token(kind, scope, name string, n int) string {
	if m == nil {
		return ""
	}
	return tokenOf(m.names("indoubt: token", kind, scope, name, n)[:tokenBytes])
}

// MadeKey is the idempotency key that goes out for that operation where its caller gave none.
// Without the ledger's key it is "".
func (m Mask) MadeKey(kind, scope, name string, n int) string {
	if m == nil {
		return ""
	}
	id := uuid.UUID(m.names("indoubt: key", kind, scope, name, n)[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // RFC 9562, version 8
	return OwnKey(id.String())
}

// names is a digest of which operation of a name it is. Each label has a key of its own, so that
// no other digest under the ledger's key can be the same.
func (m Mask) names(label, kind, scope, name string, n int) []byte {
	mac := hmac.New(sha256.New, m)
	mac.Write([]byte(label))
	mac = hmac.New(sha256.New, mac.Sum(nil))
	for _, text := range []string{kind, scope, name} {
		fmt.Fprintf(mac, "%d:%s,", len(text), text)
	}
	fmt.Fprint(mac, n)
	return mac.Sum(nil)
}

// make makes what a new operation carries, where its caller gave none: a key and a token. They are
// the same in a ledger that has lost it.
func (m Mask) make(o *Operation, n int, standIn string) {
	fields := fieldsMade(o.Key)
	if o.SentKey == "" && fields {
		o.SentKey = m.MadeKey(o.Kind, o.Scope, o.Key, n)
	}
	if o.Token == "" && (fields || !MadeKey(o.Key)) {
		o.Token = m.Token(o.Kind, o.Scope, o.Key, n)
	}
	o.Token = cmp.Or(o.Token, standIn)
	o.Request = o.Request.with(standIn, o.Token)
}

// with is the request with a token in the place of another one.
func (r *Request) with(was, token string) *Request {
	if r == nil || was == "" || was == token {
		return r
	}
	out := *r
	out.Target, out.Body = strings.ReplaceAll(r.Target, was, token), strings.ReplaceAll(r.Body, was, token)
	out.Binary = bytes.ReplaceAll(r.Binary, []byte(was), []byte(token))
	return &out
}
