package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A handshake that takes longer has failed.
const handshakeTimeout = 20 * time.Second

// handshakes makes full handshakes with X25519MLKEM768 and prints how long each took.
func handshakes(arguments []string) error {
	flags := flag.NewFlagSet("handshakes", flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust, PEM")
	connect := flags.String("connect", "", "the address of the server, whose certificate must be for localhost")
	count := flags.Int("count", 200, "number of handshakes")
	parallel := flags.Int("parallel", 20, "how many of them run at the same time")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	tlsConfig, err := clientTLS(*ca, false, "localhost")
	if err != nil {
		return err
	}
	tlsConfig.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768, tls.X25519}
	config := quicConfig("")
	// quic-go ends a handshake after twice this time, and when nothing has arrived for as long as this.
	config.HandshakeIdleTimeout = handshakeTimeout
	result := struct {
		Failed  int       `json:"failed"`
		Seconds []float64 `json:"seconds"`
	}{Seconds: []float64{}}
	var lock sync.Mutex
	var group sync.WaitGroup
	permits := make(chan struct{}, *parallel)
	for range *count {
		permits <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			took, err := handshake(*connect, tlsConfig, config)
			<-permits
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				fmt.Fprintln(os.Stderr, "handshake:", err)
				result.Failed++
			} else {
				result.Seconds = append(result.Seconds, took.Seconds())
			}
		}()
	}
	group.Wait()
	sort.Float64s(result.Seconds)
	return json.NewEncoder(os.Stdout).Encode(result)
}

func handshake(address string, tlsConfig *tls.Config, config *quic.Config) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	began := time.Now()
	connection, err := quic.DialAddr(ctx, address, tlsConfig, config)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	return took, nil
}
