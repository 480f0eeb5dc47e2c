//go:build !soak

package need

// Soak tells that the slow lane runs: what is random, or repeated for its luck, takes
// many more steps there.
const Soak = false
