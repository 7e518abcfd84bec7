package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// The number of bytes of a datagram to print: a long header to the end of the longest destination connection ID.
const beginning = 26

// unknown counts the datagrams that belong to no connection and begin none. quic-go reports an event for each, unless it
// answers with a stateless reset, which requires a key that this program does not set. The event does not contain the
// connection ID, so the datagram is stored when it is received: quic-go processes each before it receives the next, on the
// same goroutine.
type unknown struct {
	net.PacketConn
	count  atomic.Uint64
	latest []byte
}

// ReadFrom is called by quic-go for each datagram.
func (u *unknown) ReadFrom(buffer []byte) (int, net.Addr, error) {
	length, from, err := u.PacketConn.ReadFrom(buffer)
	u.latest = append(u.latest[:0], buffer[:min(max(length, 0), beginning)]...)
	return length, from, err
}

// RecordEvent is called for events outside of connections.
func (u *unknown) RecordEvent(event qlogwriter.Event) {
	if dropped, ok := event.(qlog.PacketDropped); ok && dropped.Trigger == qlog.PacketDropUnknownConnectionID {
		fmt.Fprintf(os.Stderr, "datagram belongs to no connection begins=%x\n", u.latest)
		u.count.Add(1)
	}
}

// Close is called when the transport is closed. The socket ends with this program.
func (u *unknown) Close() error { return nil }

// offer serves the count over HTTP/1.1 at the address, in Prometheus' text format.
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
