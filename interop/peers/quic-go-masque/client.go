package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// The time limit for the whole command.
const limit = 60 * time.Second

// The time in which the tunnel sends what is queued before it ends.
const linger = 100 * time.Millisecond

// The time after which a lost payload is sent again.
const resend = 300 * time.Millisecond

func client(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	proxy := flags.String("proxy", "", "HOST:PORT of the proxy")
	proxyCA := flags.String("proxy-ca", "", "file with the certificates to trust for the proxy")
	capsules := flags.Bool("capsules", false, "do not support QUIC datagrams; payloads travel in DATAGRAM capsules")
	sizes := flags.String("sizes", "1,1200", "sizes of the payloads that are sent to an echo server at TARGET")
	get := flags.String("get", "", "instead, download this URL over HTTP/3 from TARGET")
	ca := flags.String("ca", "", "file with the certificates to trust for the download")
	output := flags.String("output", "", "file for the download")
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: quic-go-masque client OPTIONS TARGET_HOST:PORT")
		flags.PrintDefaults()
	}
	if flags.Parse(arguments); flags.NArg() != 1 || *proxy == "" {
		flags.Usage()
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tunnel, connection, err := open(ctx, *proxy, *proxyCA, flags.Arg(0), *capsules)
	if err != nil {
		return err
	}
	defer connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	defer tunnel.close()
	if *get != "" {
		return download(ctx, tunnel, *get, *ca, *output)
	}
	for _, size := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		if err := echo(ctx, tunnel, size); err != nil {
			return fmt.Errorf("payload of %d bytes: %w", size, err)
		}
		fmt.Println("echoed", size)
	}
	return nil
}

func trusting(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{NextProtos: []string{http3.NextProtoH3}, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificates", file)
	}
	return config, nil
}

// open opens a tunnel with the well-known URI template (RFC 9298 §2).
func open(ctx context.Context, proxy, ca, target string, capsules bool) (*tunnel, *quic.Conn, error) {
	config, err := trusting(ca)
	if err != nil {
		return nil, nil, err
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, nil, err
	}
	quicConnection, err := quic.DialAddr(ctx, proxy, config, quicConfig(!capsules))
	if err != nil {
		return nil, nil, err
	}
	connection := (&http3.Transport{EnableDatagrams: !capsules}).NewClientConn(quicConnection)
	select {
	case <-connection.ReceivedSettings():
	case <-ctx.Done():
		return nil, nil, errors.New("the proxy sends no SETTINGS")
	}
	if settings := connection.Settings(); !settings.EnableExtendedConnect || !settings.EnableDatagrams {
		return nil, nil, fmt.Errorf("the proxy lacks extended CONNECT or datagrams: %+v", settings)
	}
	stream, err := connection.OpenRequestStream(ctx)
	if err != nil {
		return nil, nil, err
	}
	path := fmt.Sprintf("/.well-known/masque/udp/%s/%s/", strings.ReplaceAll(url.PathEscape(host), ":", "%3A"), port)
	where, err := url.Parse("https://" + proxy + path)
	if err != nil {
		return nil, nil, err
	}
	request := &http.Request{
		Method: http.MethodConnect,
		Proto:  "connect-udp",
		URL:    where,
		Host:   proxy,
		Header: http.Header{http3.CapsuleProtocolHeader: {"?1"}},
	}
	if err := stream.SendRequestHeader(request.WithContext(ctx)); err != nil {
		return nil, nil, err
	}
	response, err := stream.ReadResponse()
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("the proxy refuses the tunnel: %s %v", response.Status, response.Header)
	}
	if value := response.Header.Get(http3.CapsuleProtocolHeader); value != "?1" {
		return nil, nil, fmt.Errorf("the response has Capsule-Protocol: %q", value)
	}
	return newTunnel(ctx, stream, capsules), quicConnection, nil
}

// echo sends a payload until it comes back.
func echo(ctx context.Context, tunnel *tunnel, size int) error {
	payload := make([]byte, size)
	for at := range payload {
		payload[at] = byte(size + at*31)
	}
	for {
		if err := tunnel.send(payload); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, resend)
		received, err := tunnel.receive(waiting)
		cancel()
		switch {
		case err == nil && bytes.Equal(received, payload):
			return nil
		case err == nil && len(received) == size:
			return errors.New("the echo differs")
		case err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)):
			return err
		}
	}
}

// download sends a GET request over HTTP/3 inside the tunnel.
func download(ctx context.Context, tunnel *tunnel, address, ca, output string) error {
	config, err := trusting(ca)
	if err != nil {
		return err
	}
	socket := &quic.Transport{Conn: &packetConn{tunnel, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}}}
	transport := &http3.Transport{
		TLSClientConfig: config,
		Dial: func(ctx context.Context, _ string, config *tls.Config, quicConfig *quic.Config) (*quic.Conn, error) {
			return socket.DialEarly(ctx, socket.Conn.(*packetConn).remote, config, quicConfig)
		},
	}
	defer func() {
		transport.Close()
		// Lets the CONNECTION_CLOSE frame leave the tunnel.
		time.Sleep(linger)
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	length, err := io.Copy(file, response.Body)
	fmt.Println("downloaded", length)
	return errors.Join(err, file.Close())
}
