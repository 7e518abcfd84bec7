package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
)

// The application protocol of raw streams (draft-banks-quic-performance): a client sends the number of bytes it requests,
// then its upload; the server reads to the end, then sends the requested bytes.
const perf = "perf"

// The error code of a stream whose upload is not the expected content.
const wrongBytes = 1

func serveRaw(arguments []string) error {
	flags := flag.NewFlagSet("raw-server", flag.ExitOnError)
	listen := flags.String("listen", "", "address to listen on; port 0 takes any free port")
	cert := flags.String("cert", "", "certificate chain, PEM")
	key := flags.String("key", "", "private key, PEM")
	qlogDirectory := flags.String("qlog", "", "directory for qlog files, one per connection")
	datagramSize := mtuFlag(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	config, err := quicConfig(*qlogDirectory, *datagramSize)
	if err != nil {
		return err
	}
	transport, listener, err := listenOn(*listen, *cert, *key, perf, nil, config)
	if err != nil {
		return err
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	for {
		connection, err := listener.Accept(ended)
		if ended.Err() != nil {
			return transport.Close()
		}
		if err != nil {
			return err
		}
		go serveStreams(connection)
	}
}

func serveStreams(connection *quic.Conn) {
	for {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			if err := answer(stream); err != nil {
				fmt.Fprintln(os.Stderr, "stream:", err)
			}
		}()
	}
}

func answer(stream *quic.Stream) error {
	var asked [8]byte
	if _, err := io.ReadFull(stream, asked[:]); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(&sink{check: true}, onlyReader{stream}, make([]byte, bufferSize)); err != nil {
		stream.CancelRead(wrongBytes)
		stream.CancelWrite(wrongBytes)
		return err
	}
	if err := writeGenerated(stream, int64(binary.BigEndian.Uint64(asked[:]))); err != nil {
		return err
	}
	return stream.Close()
}

func transferRaw(arguments []string) error {
	flags := flag.NewFlagSet("raw-client", flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust, PEM")
	insecure := flags.Bool("insecure", false, "trust any certificate")
	length := flags.Int64("bytes", -1, "number of bytes to request, or to upload, on each stream")
	upload := flags.Bool("upload", false, "upload the bytes instead of requesting them")
	count := flags.Int("count", 1, "number of concurrent streams on each connection")
	connections := flags.Int("connections", 1, "number of connections; all are open before the first transfer starts")
	qlogDirectory := flags.String("qlog", "", "directory for qlog files, one per connection")
	datagramSize := mtuFlag(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 || *length < 0 || *count < 1 || *connections < 1 {
		return errors.New("usage: quic-go raw-client --ca FILE --bytes N [--upload] ADDRESS")
	}
	tlsConfig, err := clientTLS(*ca, *insecure, "localhost")
	if err != nil {
		return err
	}
	tlsConfig.NextProtos = []string{perf}
	config, err := quicConfig(*qlogDirectory, *datagramSize)
	if err != nil {
		return err
	}
	transport, opened, err := openAll(tlsConfig, flags.Arg(0), *connections, config)
	if err != nil {
		return err
	}
	responses := make([]response, len(opened)**count)
	var group sync.WaitGroup
	begin := time.Now()
	for index := range responses {
		group.Go(func() {
			err := transferOne(opened[index%len(opened)], *length, *upload)
			responses[index] = response{http.StatusOK, *length, err}
		})
	}
	group.Wait()
	seconds := time.Since(begin).Seconds()
	closeAll(transport, opened, 0)
	return summarize(responses, seconds, "")
}

func transferOne(connection *quic.Conn, length int64, upload bool) error {
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	asked, uploaded := length, int64(0)
	if upload {
		asked, uploaded = 0, length
	}
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(asked))
	if _, err := stream.Write(number[:]); err != nil {
		return err
	}
	if err := writeGenerated(stream, uploaded); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	received, err := io.CopyBuffer(&sink{check: true}, onlyReader{stream}, make([]byte, bufferSize))
	if err == nil && received != asked {
		err = fmt.Errorf("the stream ended after %d of %d bytes", received, asked)
	}
	return err
}
