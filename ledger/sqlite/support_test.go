package sqlite

import (
	"net/url"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type pathURL struct{ path string }

func (p *pathURL) String() string { return (&url.URL{Path: p.path}).EscapedPath() }

func diff(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }
