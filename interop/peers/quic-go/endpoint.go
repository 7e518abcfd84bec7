package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
)

// The UDP payload sizes of full datagrams that quic-go can be given (protocol.MaxPacketBufferSize of 0.65.0).
const (
	smallestDatagram = 1200
	largestDatagram  = 1452
)

// The maximum number of concurrent handshakes.
const opening = 32

// The number of bytes to read from a stream per call.
const bufferSize = 256 << 10

func mtuFlag(flags *flag.FlagSet) *int {
	return flags.Int("mtu", 0, "UDP payload size of full datagrams from the start, in bytes, up to 1452; this disables path MTU discovery")
}

// quicConfig has the same large windows as the other peers, so that flow control does not limit any of them. The datagrams
// have the given size; 0 discovers it.
func quicConfig(qlogDirectory string, datagramSize int) (*quic.Config, error) {
	config := &quic.Config{
		InitialStreamReceiveWindow:     16 << 20,
		MaxStreamReceiveWindow:         16 << 20,
		InitialConnectionReceiveWindow: 64 << 20,
		MaxConnectionReceiveWindow:     64 << 20,
		MaxIncomingStreams:             256,
	}
	if datagramSize != 0 {
		if datagramSize < smallestDatagram || datagramSize > largestDatagram {
			return nil, fmt.Errorf("--mtu %d: quic-go sends and receives datagrams of %d to %d bytes", datagramSize, smallestDatagram, largestDatagram)
		}
		config.InitialPacketSize = uint16(datagramSize)
		config.DisablePathMTUDiscovery = true
	}
	if qlogDirectory != "" {
		os.Setenv("QLOGDIR", qlogDirectory)
		config.Tracer = qlog.DefaultConnectionTracer
	}
	return config, nil
}

// listenOn listens for connections with one application protocol, and prints the address. adjust may change other settings
// of the transport first.
func listenOn(listen, cert, key, protocol string, adjust func(*quic.Transport), config *quic.Config) (*quic.Transport, *quic.EarlyListener, error) {
	certificate, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	address, err := net.ResolveUDPAddr("udp", listen)
	if err != nil {
		return nil, nil, err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return nil, nil, err
	}
	transport := &quic.Transport{Conn: socket}
	if adjust != nil {
		adjust(transport)
	}
	tlsConfig := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{protocol},
	}
	listener, err := transport.ListenEarly(tlsConfig, config)
	if err != nil {
		return nil, nil, err
	}
	fmt.Println("listening", socket.LocalAddr())
	return transport, listener, nil
}

// openAll opens connections on one socket. Their handshakes are complete.
func openAll(tlsConfig *tls.Config, connect string, count int, config *quic.Config) (*quic.Transport, []*quic.Conn, error) {
	remote, err := net.ResolveUDPAddr("udp", connect)
	if err != nil {
		return nil, nil, err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, nil, err
	}
	transport := &quic.Transport{Conn: socket}
	opened := make([]*quic.Conn, count)
	failed := make([]error, count)
	var group sync.WaitGroup
	permits := make(chan struct{}, opening)
	for index := range opened {
		permits <- struct{}{}
		group.Go(func() {
			opened[index], failed[index] = transport.Dial(context.Background(), remote, tlsConfig, config)
			<-permits
		})
	}
	group.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, nil, fmt.Errorf("connecting: %w", err)
		}
	}
	return transport, opened, nil
}

// closeAll closes connections and their socket, after CONNECTION_CLOSE has been sent.
func closeAll(transport *quic.Transport, opened []*quic.Conn, code quic.ApplicationErrorCode) {
	for _, connection := range opened {
		connection.CloseWithError(code, "")
	}
	transport.Close()
}
