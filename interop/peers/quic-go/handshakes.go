package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A handshake that takes longer counts as failed.
const handshakeTimeout = 20 * time.Second

// The number of connections that stay open after their handshake, because a ticket arrives one round trip later.
const openHandshakes = 64

// handshakes makes handshakes and prints how long each took.
func handshakes(arguments []string) error {
	flags := flag.NewFlagSet("handshakes", flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust, PEM")
	connect := flags.String("connect", "", "the address of the server, whose certificate must be for localhost")
	count := flags.Int("count", 200, "number of handshakes")
	parallel := flags.Int("parallel", 20, "number of concurrent handshakes")
	rate := flags.Float64("rate", 0, "handshakes per second, regardless of how many are then concurrent")
	keyExchange := flags.String("key-exchange", "x25519mlkem768", "key exchange: x25519mlkem768 or x25519")
	resume := flags.Bool("resume", false, "resume sessions: all but the first handshakes use a ticket from an earlier one")
	datagramSize := mtuFlag(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	tlsConfig, err := clientTLS(*ca, false, "localhost")
	if err != nil {
		return err
	}
	switch *keyExchange {
	case "x25519mlkem768":
		tlsConfig.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768, tls.X25519}
	case "x25519":
		tlsConfig.CurvePreferences = []tls.CurveID{tls.X25519}
	default:
		return fmt.Errorf("the key exchange must be x25519mlkem768 or x25519, not %s", *keyExchange)
	}
	if *resume {
		tlsConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	config, err := quicConfig("", *datagramSize)
	if err != nil {
		return err
	}
	// quic-go ends a handshake after twice this time, or after this time without a received packet.
	config.HandshakeIdleTimeout = handshakeTimeout
	remote, err := net.ResolveUDPAddr("udp", *connect)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket}
	result := struct {
		Failed  int       `json:"failed"`
		Resumed int       `json:"resumed"`
		Elapsed float64   `json:"elapsed"`
		Seconds []float64 `json:"seconds"`
	}{Seconds: []float64{}}
	open := make(chan *quic.Conn, openHandshakes)
	began := time.Now()
	var lock sync.Mutex
	var group sync.WaitGroup
	run := func(began time.Time) {
		connection, err := handshake(transport, remote, tlsConfig, config)
		took := time.Since(began)
		resumed := false
		if err == nil {
			resumed = connection.ConnectionState().TLS.DidResume
			keepOpen(open, connection)
		}
		lock.Lock()
		defer lock.Unlock()
		if err != nil {
			fmt.Fprintln(os.Stderr, "handshake:", err)
			result.Failed++
		} else {
			result.Seconds = append(result.Seconds, took.Seconds())
			if resumed {
				result.Resumed++
			}
		}
	}
	if *rate > 0 {
		pace(*rate, *count, func(_ int, due time.Time) {
			group.Go(func() { run(due) })
		})
	} else {
		permits := make(chan struct{}, *parallel)
		for range *count {
			permits <- struct{}{}
			group.Go(func() {
				run(time.Now())
				<-permits
			})
		}
	}
	group.Wait()
	result.Elapsed = time.Since(began).Seconds()
	for len(open) > 0 {
		closeHandshake(<-open)
	}
	transport.Close()
	sort.Float64s(result.Seconds)
	return json.NewEncoder(os.Stdout).Encode(result)
}

// keepOpen keeps a connection open, and closes an older one if there are too many.
func keepOpen(open chan *quic.Conn, connection *quic.Conn) {
	for {
		select {
		case open <- connection:
			return
		default:
		}
		select {
		case older := <-open:
			closeHandshake(older)
		default:
		}
	}
}

func closeHandshake(connection *quic.Conn) {
	connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

func handshake(transport *quic.Transport, remote net.Addr, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	return transport.Dial(ctx, remote, tlsConfig, config)
}
