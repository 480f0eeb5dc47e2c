//go:build !race

package ledgertest

const racing = false
