//go:build !race

package drill

const racing = false
