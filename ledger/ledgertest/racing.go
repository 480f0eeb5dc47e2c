//go:build race

package ledgertest

// racing: the race detector makes everything about twenty times slower, so
// what is repeated for its luck is repeated less.
const racing = true
