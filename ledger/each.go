package ledger

// Each is a list of what is made of each, nil of none.
func Each[T, U any](all []T, of func(T) U) []U {
	if all == nil {
		return nil
	}
	out := make([]U, len(all))
	for i, one := range all {
		out[i] = of(one)
	}
	return out
}
