package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// The maximum number of concurrent requests.
const parallel = 32

func download(arguments []string) error {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust, PEM")
	insecure := flags.Bool("insecure", false, "trust any certificate")
	output := flags.String("output", "", "file for the body; - is standard output")
	discard := flags.Bool("discard", false, "only count the body, and check the bytes of /zero/N")
	count := flags.Int("count", 1, "number of requests on one connection, at most 32 at a time")
	connect := flags.String("connect", "", "address to connect to, instead of 127.0.0.1 and the URL's port")
	qlogDirectory := flags.String("qlog", "", "directory for qlog files, one per connection")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	target, err := url.Parse(flags.Arg(0))
	if err != nil || target.Hostname() == "" || (*output == "") != *discard || *count < 1 {
		return fmt.Errorf("usage: quic-go client --ca FILE --output FILE|--discard https://localhost:PORT/path")
	}
	if *connect == "" {
		*connect = net.JoinHostPort("127.0.0.1", target.Port())
	}
	tlsConfig, err := clientTLS(*ca, *insecure, target.Hostname())
	if err != nil {
		return err
	}
	connection, err := quic.DialAddr(context.Background(), *connect, tlsConfig, quicConfig(*qlogDirectory))
	if err != nil {
		return err
	}
	transport := &http3.Transport{DisableCompression: true}
	responses, seconds := downloadAll(transport.NewClientConn(connection), target, *output, *count)
	connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	<-connection.Context().Done()
	return summarize(responses, seconds, *output)
}

func clientTLS(ca string, insecure bool, name string) (*tls.Config, error) {
	config := &tls.Config{
		ServerName:         name,
		NextProtos:         []string{http3.NextProtoH3},
		InsecureSkipVerify: insecure,
	}
	if !insecure {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", ca)
		}
	}
	return config, nil
}

type response struct {
	status int
	bytes  int64
	err    error
}

func downloadAll(client *http3.ClientConn, target *url.URL, output string, count int) ([]response, float64) {
	responses := make([]response, count)
	permits := make(chan struct{}, parallel)
	var group sync.WaitGroup
	begin := time.Now()
	for index := range responses {
		permits <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			keep := output
			if index > 0 {
				keep = ""
			}
			responses[index] = downloadOne(client, target, keep)
			<-permits
		}()
	}
	group.Wait()
	return responses, time.Since(begin).Seconds()
}

func downloadOne(client *http3.ClientConn, target *url.URL, output string) (result response) {
	request, err := http.NewRequest(http.MethodGet, target.String(), nil)
	if err != nil {
		return response{err: err}
	}
	answer, err := client.RoundTrip(request)
	if err != nil {
		return response{err: err}
	}
	defer answer.Body.Close()
	result.status = answer.StatusCode
	sink := &sink{}
	expected := answer.ContentLength
	if length, ok := zeroLength(target.Path); ok && result.status == http.StatusOK {
		sink.check = true
		expected = length
	}
	switch output {
	case "":
	case "-":
		sink.output = os.Stdout
	default:
		file, err := os.Create(output)
		if err != nil {
			return response{err: err}
		}
		defer file.Close()
		sink.output = file
	}
	result.bytes, result.err = io.CopyBuffer(sink, answer.Body, make([]byte, 256<<10))
	if result.err == nil && expected >= 0 && result.bytes != expected {
		result.err = fmt.Errorf("the body ended after %d of %d bytes", result.bytes, expected)
	}
	return result
}

// sink counts a body, checks it if its bytes are known, and writes it if requested.
type sink struct {
	output   io.Writer
	check    bool
	received int64
}

func (s *sink) Write(buffer []byte) (int, error) {
	if s.check {
		for rest := buffer; len(rest) > 0; {
			phase := int((s.received + int64(len(buffer)-len(rest))) % period)
			count := min(len(rest), len(pattern)-phase)
			if !bytes.Equal(rest[:count], pattern[phase:phase+count]) {
				return 0, fmt.Errorf("wrong bytes after %d", s.received)
			}
			rest = rest[count:]
		}
	}
	if s.output != nil {
		if _, err := s.output.Write(buffer); err != nil {
			return 0, err
		}
	}
	s.received += int64(len(buffer))
	return len(buffer), nil
}

func summarize(responses []response, seconds float64, output string) error {
	status, total := http.StatusOK, int64(0)
	for _, one := range responses {
		if one.err != nil {
			return one.err
		}
		if one.status != http.StatusOK && status == http.StatusOK {
			status = one.status
		}
		total += one.bytes
	}
	to := os.Stdout
	if output == "-" {
		to = os.Stderr
	}
	fmt.Fprintf(to, "{\"bytes\":%d,\"seconds\":%.6f,\"status\":%d}\n", total, seconds, status)
	if status != http.StatusOK {
		return fmt.Errorf("status %d", status)
	}
	return nil
}
