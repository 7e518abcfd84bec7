package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

// The tests that quic-go's own programs for the public interop runner support (interop/client and interop/server of
// its module); they exit with 127 for all others.
var (
	clientCases = "handshake transfer retry keyupdate chacha20 multiconnect resumption zerortt http3"
	serverCases = "handshake transfer retry chacha20 multiconnect resumption zerortt http3"
)

var errUnsupported = errors.New("unsupported test")

const hq = "hq-interop"

// Go's TLS has no setting for the cipher suites of TLS 1.3; quic-go's own programs change this list, too.
//
//go:linkname defaultCipherSuitesTLS13 crypto/tls.defaultCipherSuitesTLS13
var defaultCipherSuitesTLS13 []uint16

//go:linkname defaultCipherSuitesTLS13NoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var defaultCipherSuitesTLS13NoAES []uint16

// interop performs the test that the public interop runner's environment variables request.
func interop() error {
	role, testcase := os.Getenv("ROLE"), os.Getenv("TESTCASE")
	cases := map[string]string{"client": clientCases, "server": serverCases}[role]
	if !strings.Contains(" "+cases+" ", " "+testcase+" ") {
		return errUnsupported
	}
	if testcase == "chacha20" {
		only := []uint16{tls.TLS_CHACHA20_POLY1305_SHA256}
		defaultCipherSuitesTLS13, defaultCipherSuitesTLS13NoAES = only, only
	}
	tlsConfig := &tls.Config{NextProtos: []string{hq}}
	if testcase == "http3" {
		tlsConfig.NextProtos = []string{http3.NextProtoH3}
	}
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		tlsConfig.KeyLogWriter = file
	}
	config := &quic.Config{Allow0RTT: testcase == "zerortt"}
	if os.Getenv("QLOGDIR") != "" {
		config.Tracer = qlog.DefaultConnectionTracer
	}
	if role == "server" {
		return interopServer(testcase, tlsConfig, config)
	}
	return interopClient(testcase, tlsConfig, config)
}

func interopServer(testcase string, tlsConfig *tls.Config, config *quic.Config) error {
	certificate, err := tls.LoadX509KeyPair(os.Getenv("CERT"), os.Getenv("KEY"))
	if err != nil {
		return err
	}
	tlsConfig.Certificates = []tls.Certificate{certificate}
	address, err := net.ResolveUDPAddr("udp", os.Getenv("LISTEN"))
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket}
	transport.VerifySourceAddress = func(net.Addr) bool { return testcase == "retry" }
	listener, err := transport.ListenEarly(tlsConfig, config)
	if err != nil {
		return err
	}
	fmt.Println("listening", socket.LocalAddr())
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root := os.Getenv("WWW")
	if testcase == "http3" {
		server := &http3.Server{Handler: files(root)}
		go server.ServeListener(listener)
	} else {
		go acceptHq(ended, listener, root)
	}
	<-ended.Done()
	return transport.Close()
}

func acceptHq(ended context.Context, listener *quic.EarlyListener, root string) {
	for {
		connection, err := listener.Accept(ended)
		if err != nil {
			return
		}
		go func() {
			for {
				stream, err := connection.AcceptStream(ended)
				if err != nil {
					return
				}
				go func() {
					if err := answerHq(stream, root); err != nil {
						fmt.Fprintln(os.Stderr, "request:", err)
					}
				}()
			}
		}()
	}
}

// answerHq responds to one HTTP/0.9 request.
func answerHq(stream *quic.Stream, root string) error {
	request, err := io.ReadAll(io.LimitReader(stream, 8<<10))
	if err != nil {
		return err
	}
	path, found := strings.CutPrefix(strings.TrimSpace(string(request)), "GET ")
	body, _ := open(root, path)
	if !found || body == nil {
		stream.CancelWrite(0x404)
		return fmt.Errorf("cannot answer %q", request)
	}
	defer body.Close()
	if _, err := io.Copy(stream, body); err != nil {
		return err
	}
	return stream.Close()
}

// requester requests one path on an existing connection.
type requester func(target *url.URL) (io.ReadCloser, error)

func interopClient(testcase string, tlsConfig *tls.Config, config *quic.Config) error {
	var targets []*url.URL
	for _, request := range strings.Fields(os.Getenv("REQUESTS")) {
		target, err := url.Parse(request)
		if err != nil {
			return err
		}
		targets = append(targets, target)
	}
	trust, err := clientTLS(os.Getenv("CA"), false, targets[0].Hostname())
	if err != nil {
		return err
	}
	tlsConfig.RootCAs, tlsConfig.ServerName = trust.RootCAs, trust.ServerName
	tickets := make(chan struct{}, 100)
	tlsConfig.ClientSessionCache = cache{tls.NewLRUClientSessionCache(1), tickets}
	groups := [][]*url.URL{targets}
	switch testcase {
	case "multiconnect":
		groups = nil
		for _, target := range targets {
			groups = append(groups, []*url.URL{target})
		}
		// Each is a full handshake.
		tlsConfig.ClientSessionCache = nil
	case "resumption", "zerortt":
		groups = [][]*url.URL{targets[:1], targets[1:]}
	}
	for index, group := range groups {
		early := testcase == "zerortt" && index == 1
		if err := downloadGroup(testcase, group, early, tlsConfig, config, func() error {
			if index+1 == len(groups) || tlsConfig.ClientSessionCache == nil {
				return nil
			}
			return wait(tickets)
		}); err != nil {
			return err
		}
	}
	return nil
}

// downloadGroup downloads files on one connection; before it is closed, `finish` is called.
func downloadGroup(testcase string, group []*url.URL, early bool, tlsConfig *tls.Config, config *quic.Config, finish func() error) error {
	ctx := context.Background()
	connection, err := quic.DialAddrEarly(ctx, os.Getenv("CONNECT"), tlsConfig, config)
	if err != nil {
		return err
	}
	if !early {
		select {
		case <-connection.HandshakeComplete():
		case <-connection.Context().Done():
			return context.Cause(connection.Context())
		}
	}
	request := requester(func(target *url.URL) (io.ReadCloser, error) { return requestHq(ctx, connection, target) })
	if testcase == "http3" {
		client := (&http3.Transport{DisableCompression: true}).NewClientConn(connection)
		request = func(target *url.URL) (io.ReadCloser, error) { return requestHTTP3(client, target) }
	}
	failures := make(chan error, len(group))
	var all sync.WaitGroup
	for _, target := range group {
		all.Add(1)
		go func() {
			defer all.Done()
			failures <- store(request, target)
		}()
	}
	all.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	if err := finish(); err != nil {
		return err
	}
	connection.CloseWithError(0, "")
	<-connection.Context().Done()
	return nil
}

func requestHq(ctx context.Context, connection *quic.Conn, target *url.URL) (io.ReadCloser, error) {
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", target.Path); err != nil {
		return nil, err
	}
	return io.NopCloser(stream), stream.Close()
}

func requestHTTP3(client *http3.ClientConn, target *url.URL) (io.ReadCloser, error) {
	request, err := http.NewRequest(http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	return answer.Body, nil
}

// store writes the response to a request into the folder for downloads.
func store(request requester, target *url.URL) error {
	body, err := request(target)
	if err != nil {
		return err
	}
	defer body.Close()
	file, err := os.Create(filepath.Join(os.Getenv("DOWNLOADS"), filepath.Base(target.Path)))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, body)
	return err
}

// cache reports when a session ticket arrives.
type cache struct {
	tls.ClientSessionCache
	tickets chan<- struct{}
}

func (c cache) Put(key string, state *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, state)
	select {
	case c.tickets <- struct{}{}:
	default:
	}
}

func wait(tickets <-chan struct{}) error {
	select {
	case <-tickets:
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("the server sent no session ticket")
	}
}
