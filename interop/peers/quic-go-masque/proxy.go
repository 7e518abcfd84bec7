package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"

	"github.com/quic-go/quic-go/http3"
)

var wellKnown = regexp.MustCompile("^/\\.well-known/masque/udp/([^/]+)/([0-9]+)/$")

func proxy(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("proxy", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address; port 0 takes any free port")
	cert := flags.String("cert", "", "file with the certificate chain")
	key := flags.String("key", "", "file with the private key")
	capsules := flags.Bool("capsules", false, "do not support QUIC datagrams; payloads travel in DATAGRAM capsules")
	flags.Parse(arguments)
	certificate, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", *listen)
	if err != nil {
		return err
	}
	server := &http3.Server{
		Handler: http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
			relay(writer, request, *capsules)
		}),
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}),
		QUICConfig:      quicConfig(!*capsules),
		EnableDatagrams: !*capsules,
	}
	fmt.Println("listening", socket.LocalAddr())
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(socket); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// relay serves a tunnel until its stream or the target's socket ends.
func relay(writer http.ResponseWriter, request *http.Request, capsules bool) {
	parts := wellKnown.FindStringSubmatch(request.URL.EscapedPath())
	if request.Method != http.MethodConnect || request.Proto != "connect-udp" || parts == nil {
		http.Error(writer, "only CONNECT-UDP at the well-known template", http.StatusBadRequest)
		return
	}
	host, err := url.PathUnescape(parts[1])
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	target, err := net.Dial("udp", net.JoinHostPort(host, parts[2]))
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadGateway)
		return
	}
	defer target.Close()
	// The client's settings tell whether it supports QUIC datagrams.
	peer := writer.(http3.Settingser)
	<-peer.ReceivedSettings()
	capsules = capsules || !peer.Settings().EnableDatagrams
	writer.Header().Set(http3.CapsuleProtocolHeader, "?1")
	writer.WriteHeader(http.StatusOK)
	stream, err := writer.(http3.HTTPStreamer).HTTPStream()
	if err != nil {
		return
	}
	tunnel := newTunnel(request.Context(), stream, capsules)
	defer tunnel.close()
	fmt.Fprintln(os.Stderr, "tunnel to", target.RemoteAddr(), "with capsules:", capsules)
	go func() {
		buffer := make([]byte, largestPayload)
		for {
			length, err := target.Read(buffer)
			if err == nil {
				err = tunnel.send(buffer[:length])
			}
			if err != nil {
				tunnel.end(err)
				return
			}
		}
	}()
	for {
		payload, err := tunnel.receive(request.Context())
		if err != nil {
			return
		}
		// A failure to send is not the end of the tunnel: the payload may be too large.
		target.Write(payload)
	}
}
