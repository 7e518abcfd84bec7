package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// The type of the DATAGRAM capsule (RFC 9297 §3.5).
const datagramCapsule http3.CapsuleType = 0

// The largest UDP payload (RFC 9298 §5).
const largestPayload = 65527

// The UDP payload size of the packets that carry the tunnel: the largest that quic-go supports. Path
// MTU discovery is off, so that the size of the largest datagram is known from the start.
const packetSize = 1452

func quicConfig(datagrams bool) *quic.Config {
	return &quic.Config{
		EnableDatagrams:         datagrams,
		InitialPacketSize:       packetSize,
		DisablePathMTUDiscovery: true,
	}
}

// stream is the request stream of a tunnel, at either end.
type stream interface {
	io.ReadWriteCloser
	SendDatagram([]byte) error
	ReceiveDatagram(context.Context) ([]byte, error)
	CancelRead(quic.StreamErrorCode)
}

// tunnel carries UDP payloads in HTTP datagrams with context ID 0.
type tunnel struct {
	stream   stream
	capsules bool // send DATAGRAM capsules instead of QUIC datagrams
	received chan []byte
	ctx      context.Context
	end      context.CancelCauseFunc
	writing  sync.Mutex
}

// newTunnel accepts both QUIC datagrams and DATAGRAM capsules, except that it does not wait for QUIC
// datagrams if the connection has none, which is when capsules is set.
func newTunnel(ctx context.Context, stream stream, capsules bool) *tunnel {
	ctx, end := context.WithCancelCause(ctx)
	it := &tunnel{stream: stream, capsules: capsules, received: make(chan []byte, 512), ctx: ctx, end: end}
	go func() { end(it.readCapsules()) }()
	if !capsules {
		go func() { end(it.readDatagrams()) }()
	}
	return it
}

func (t *tunnel) readDatagrams() error {
	for {
		datagram, err := t.stream.ReceiveDatagram(t.ctx)
		if err != nil {
			return err
		}
		if err := t.take(datagram); err != nil {
			return err
		}
	}
}

func (t *tunnel) readCapsules() error {
	parser := http3.NewCapsuleParser(t.stream)
	for {
		kind, capsule, err := parser.Next()
		if err != nil {
			return err
		}
		if kind != datagramCapsule {
			// Unknown capsules are skipped (RFC 9297 §3.2).
			if err := capsule.Discard(); err != nil {
				return err
			}
			continue
		}
		if capsule.Remaining() > largestPayload+8 {
			return fmt.Errorf("a DATAGRAM capsule of %d bytes", capsule.Remaining())
		}
		datagram, err := io.ReadAll(capsule)
		if err != nil {
			return err
		}
		if err := t.take(datagram); err != nil {
			return err
		}
	}
}

// take queues the payload of a datagram. Datagrams of other contexts are dropped, and so are all
// datagrams while the queue is full.
func (t *tunnel) take(datagram []byte) error {
	id, length, err := quicvarint.Parse(datagram)
	if err != nil {
		return fmt.Errorf("a datagram without a context ID: %w", err)
	}
	if id == 0 {
		select {
		case t.received <- datagram[length:]:
		default:
		}
	}
	return nil
}

// send sends a payload. Payloads that do not fit into a QUIC datagram are dropped, as UDP would do.
func (t *tunnel) send(payload []byte) error {
	datagram := append([]byte{0}, payload...)
	if t.capsules {
		var capsule bytes.Buffer
		if err := http3.WriteCapsule(&capsule, datagramCapsule, datagram); err != nil {
			return err
		}
		t.writing.Lock()
		defer t.writing.Unlock()
		_, err := t.stream.Write(capsule.Bytes())
		return err
	}
	err := t.stream.SendDatagram(datagram)
	if _, tooLarge := err.(*quic.DatagramTooLargeError); tooLarge {
		return nil
	}
	return err
}

// receive returns the next payload.
func (t *tunnel) receive(ctx context.Context) ([]byte, error) {
	select {
	case payload := <-t.received:
		return payload, nil
	case <-t.ctx.Done():
		return nil, context.Cause(t.ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *tunnel) close() {
	t.end(net.ErrClosed)
	t.stream.CancelRead(quic.StreamErrorCode(http3.ErrCodeNoError))
	t.stream.Close()
}

// packetConn is a tunnel as a socket that is connected to remote.
type packetConn struct {
	*tunnel
	remote net.Addr
}

func (p *packetConn) ReadFrom(buffer []byte) (int, net.Addr, error) {
	payload, err := p.receive(context.Background())
	return copy(buffer, payload), p.remote, err
}

func (p *packetConn) WriteTo(payload []byte, _ net.Addr) (int, error) {
	return len(payload), p.send(payload)
}

func (p *packetConn) Close() error                     { p.close(); return nil }
func (p *packetConn) LocalAddr() net.Addr              { return &net.UDPAddr{IP: net.IPv4zero} }
func (p *packetConn) SetDeadline(time.Time) error      { return nil }
func (p *packetConn) SetReadDeadline(time.Time) error  { return nil }
func (p *packetConn) SetWriteDeadline(time.Time) error { return nil }
