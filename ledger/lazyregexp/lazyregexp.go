// Package lazyregexp has regular expressions that are compiled when they are first
// used: compiling them all takes a tenth of the start of the program, and most
// commands need none. It is a leaf.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regexp.Regexp that is compiled at its first use.
type Regexp struct {
	compiled func() *regexp.Regexp
}

// New is regexp.MustCompile, which panics at the first use.
func New(expression string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// The methods are those of regexp.Regexp.

func (r *Regexp) Match(b []byte) bool        { return r.compiled().Match(b) }
func (r *Regexp) MatchString(s string) bool  { return r.compiled().MatchString(s) }
func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }
func (r *Regexp) FindStringSubmatch(s string) []string {
	return r.compiled().FindStringSubmatch(s)
}
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}
func (r *Regexp) ReplaceAllString(s, by string) string {
	return r.compiled().ReplaceAllString(s, by)
}
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, by)
}
