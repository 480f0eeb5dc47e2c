//go:build !unix

package cli

import (
	"context"
	"io"
	"os"
)

func keepFromCommands(int) bool { return false }

func tellInterrupt() {}

func whileRead(ctx context.Context, _ io.Writer) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
