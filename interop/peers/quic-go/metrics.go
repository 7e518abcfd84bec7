package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// unknown counts the datagrams that belong to no connection and begin none. quic-go says so unless it answers with a stateless
// reset, which it does only with a key for that; this program gives it none.
type unknown struct{ count atomic.Uint64 }

// RecordEvent is called for what happens outside of connections.
func (u *unknown) RecordEvent(event qlogwriter.Event) {
	if dropped, ok := event.(qlog.PacketDropped); ok && dropped.Trigger == qlog.PacketDropUnknownConnectionID {
		u.count.Add(1)
	}
}

// Close is called when the transport is closed.
func (u *unknown) Close() error { return nil }

// offer answers every request over HTTP/1.1 at the address with the count, in Prometheus' text format.
func (u *unknown) offer(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go http.Serve(listener, http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(writer, "quic_go_datagrams_unknown_total %d\n", u.count.Load())
	}))
	return nil
}
