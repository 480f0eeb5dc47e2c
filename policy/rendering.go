package policy

import (
	"fmt"
	"net/http"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// rendering is one pass over the templates of a request.
type rendering struct {
	*expr.Rendering
	vars *variables
}

// rendering writes templates with the values of v; show writes secrets by their name.
func (v *variables) rendering(show bool) *rendering {
	return &rendering{Rendering: &expr.Rendering{Names: v.Names, Show: show, Note: v.secrets.add}, vars: v}
}

func (r *rendering) headers(pairs []pair) http.Header {
	out := http.Header{}
	for _, p := range pairs {
		v := r.At("header " + p.name + " cannot be made").Text(p.value)
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			r.Fail(fmt.Errorf("the value has control characters"))
		}
		out[p.name] = []string{v}
	}
	return out
}

// environment is NAME=value of each.
func (r *rendering) environment(pairs []pair) (out []string) {
	for _, p := range pairs {
		v := r.At("variable " + p.name).Text(p.value)
		if strings.ContainsRune(v, 0) {
			r.At("").Fail(fmt.Errorf("variable %s has a zero byte", p.name))
		}
		out = append(out, p.name+"="+v)
	}
	return out
}

// keep notes the secrets in an address or a DSN.
func (r *rendering) keep(text string) {
	if !r.Show {
		r.vars.secrets.parts(text)
	}
}

// base renders the address of a downstream. It may be shown, but for the secrets in it.
func (r *rendering) base(t *expr.Template) string {
	known := len(r.vars.secrets.values)
	base := r.At("address").Text(t)
	r.vars.secrets.values = r.vars.secrets.values[:known]
	r.vars.secrets.parts(base)
	return base
}

// pair is a header or an environment variable.
type pair struct {
	name  string
	value *expr.Template
}

func values(pairs []pair) []*expr.Template {
	return ledger.Each(pairs, func(p pair) *expr.Template { return p.value })
}
