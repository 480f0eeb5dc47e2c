//go:build !race

package ledgertest

// Racing tells that the race detector watches. It makes a store about twenty
// times slower, so what is repeated for its luck is repeated less.
const Racing = false
