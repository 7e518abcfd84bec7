// A client and a proxy for UDP tunnels (CONNECT-UDP, RFC 9298) on quic-go, for tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: quic-go-masque client|proxy OPTIONS (-h for help)"

func main() {
	commands := map[string]func(context.Context, []string) error{"client": client, "proxy": proxy}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-masque:", err)
		os.Exit(1)
	}
}
