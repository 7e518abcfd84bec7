// CoreDNS with the plugins that the tests need: an authoritative server for the zone of a file, or a
// forwarder, over each transport in the arguments.
//
//	coredns -cert FILE -key FILE -zone FILE SCHEME...
//	coredns [-ca FILE] -forward URL SCHEME...
//
// The schemes are quic, https3, tls and dns (UDP and TCP). Each server takes any free port of the
// loopback address.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/tls"
)

// The plugins, in the order in which they process a query.
var plugins = []string{"bind", "errors", "tls", "file", "forward"}

type options struct {
	cert, key, zone, ca, forward string
}

func main() {
	var given options
	flag.StringVar(&given.cert, "cert", "", "the certificate chain of the servers")
	flag.StringVar(&given.key, "key", "", "the private key of the servers")
	flag.StringVar(&given.zone, "zone", "", "the file of the zone example.")
	flag.StringVar(&given.forward, "forward", "", "the upstream server, in the syntax of the plugin forward")
	flag.StringVar(&given.ca, "ca", "", "the certificates that the forwarder trusts")
	flag.Parse()
	if err := run(given, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "coredns:", err)
		os.Exit(1)
	}
}

// corefile returns the configuration of the server for one transport.
func (given options) corefile(scheme string) string {
	lines := []string{scheme + "://.:0 {", "bind 127.0.0.1", "errors"}
	if given.cert != "" {
		lines = append(lines, fmt.Sprintf("tls %q %q", given.cert, given.key))
	}
	if given.forward == "" {
		lines = append(lines, fmt.Sprintf("file %q example.", given.zone))
	} else {
		lines = append(lines, "forward . "+given.forward+" {")
		if given.ca != "" {
			lines = append(lines, fmt.Sprintf("tls %q", given.ca))
		}
		lines = append(lines, "}")
	}
	return strings.Join(append(lines, "}", ""), "\n")
}

// run serves until SIGTERM or SIGINT.
func run(given options, schemes []string) error {
	if len(schemes) == 0 || (given.zone == "") == (given.forward == "") {
		return errors.New("usage: coredns -zone FILE|-forward URL OPTIONS SCHEME... (-h for help)")
	}
	caddy.Quiet, dnsserver.Quiet = true, true
	if err := dnsserver.SetDirectives(plugins); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	for _, scheme := range schemes {
		input := caddy.CaddyfileInput{
			Filepath:       "Corefile",
			Contents:       []byte(given.corefile(scheme)),
			ServerTypeName: "dns",
		}
		// One instance for each transport, because the listeners of an instance do not tell theirs.
		instance, err := caddy.Start(input)
		if err != nil {
			return fmt.Errorf("%s: %w", scheme, err)
		}
		defer instance.Stop()
		for _, server := range instance.Servers() {
			announce(scheme, server.Addr(), server.LocalAddr())
		}
	}
	<-ended
	return nil
}

// announce prints the addresses of a server, whose sockets may be nil.
func announce(scheme string, tcp, udp net.Addr) {
	if scheme == "dns" {
		fmt.Printf("listening udp://%s\nlistening tcp://%s\n", udp, tcp)
		return
	}
	address := udp
	if address == nil {
		address = tcp
	}
	// The URL of DNS over HTTP/3 has the scheme of HTTP.
	fmt.Printf("listening %s://%s\n", strings.TrimSuffix(scheme, "3"), address)
}
