// A client and a proxy for IP tunnels (RFC 9484) on connect-ip-go. The client opens a tunnel
// through a proxy, gets an address of each IP version, and sends ICMP echo requests from it. The
// proxy assigns addresses and answers such requests. There is no TUN device, so neither of them
// needs privileges.
//
//	connect-ip-go [-unrequested] [-ca FILE] HOST:PORT TARGET...
//	connect-ip-go -serve ADDRESS -cert FILE -key FILE
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	connectip "github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const limit = 10 * time.Second

func main() {
	unrequested := flag.Bool("unrequested", false, "wait for addresses without requesting any")
	ca := flag.String("ca", "", "the certificates to trust")
	listen := flag.String("serve", "", "be a proxy at this address; port 0 takes any free port")
	cert := flag.String("cert", "", "the proxy's certificate chain")
	key := flag.String("key", "", "the proxy's private key")
	flag.Parse()
	if *listen != "" {
		if err := serve(*listen, *cert, *key); err != nil {
			fmt.Fprintln(os.Stderr, "connect-ip-go:", err)
			os.Exit(1)
		}
		return
	}
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: connect-ip-go [-unrequested] [-ca FILE] HOST:PORT TARGET...")
		fmt.Fprintln(os.Stderr, "       connect-ip-go -serve ADDRESS -cert FILE -key FILE")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Args()[1:], *ca, *unrequested); err != nil {
		fmt.Fprintln(os.Stderr, "connect-ip-go:", err)
		os.Exit(1)
	}
}

func run(proxy string, targets []string, ca string, unrequested bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	defer cancel()
	config := &tls.Config{NextProtos: []string{http3.NextProtoH3}}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s contains no certificates", ca)
		}
	}
	template, err := uritemplate.New("https://" + proxy + "/.well-known/masque/ip/*/*/")
	if err != nil {
		return err
	}
	request, err := connectip.NewRequest(ctx, template)
	if err != nil {
		return err
	}
	transport := &connectip.Transport{TLSClientConfig: config}
	conn, _, err := transport.Dial(request)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !unrequested {
		any := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::/128")}
		if _, err := conn.RequestAddresses(any); err != nil {
			return err
		}
	}
	routes, err := conn.Routes(ctx)
	if err != nil {
		return fmt.Errorf("no routes: %w", err)
	}
	addresses, err := conn.ReceiveAddressAssignment(ctx)
	if err != nil {
		return fmt.Errorf("no addresses: %w", err)
	}
	fmt.Println("routes", routes, "addresses", addresses)
	for _, target := range targets {
		if err := ping(conn, addresses, netip.MustParseAddr(target)); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		fmt.Println("reply from", target)
	}
	return nil
}

// ping sends echo requests until one is answered.
func ping(conn *connectip.Conn, addresses []connectip.AssignedAddress, target netip.Addr) error {
	for _, address := range addresses {
		source := address.IPPrefix.Addr()
		if address.Rejected() || source.Is4() != target.Is4() {
			continue
		}
		packet, err := echo(source, target)
		if err != nil {
			return err
		}
		replies := make(chan error, 1)
		go func() { replies <- reply(conn, target) }()
		for begun := time.Now(); time.Since(begun) < limit; {
			if _, err := conn.WritePacket(packet); err != nil {
				return err
			}
			select {
			case err := <-replies:
				return err
			case <-time.After(200 * time.Millisecond):
			}
		}
		return errors.New("no reply")
	}
	return errors.New("no address of this IP version")
}

// reply waits for an echo reply from target.
func reply(conn *connectip.Conn, target netip.Addr) error {
	buffer := make([]byte, 1<<16)
	for {
		length, err := conn.ReadPacket(buffer)
		if err != nil {
			return err
		}
		packet := buffer[:length]
		source, kind := netip.AddrFrom4([4]byte(packet[12:16])), packet[20]
		answer := byte(ipv4.ICMPTypeEchoReply)
		if packet[0]>>4 == 6 {
			source, kind = netip.AddrFrom16([16]byte(packet[8:24])), packet[40]
			answer = byte(ipv6.ICMPTypeEchoReply)
		}
		if source == target && kind == answer {
			return nil
		}
	}
}

// echo returns a packet with an echo request.
func echo(source, target netip.Addr) ([]byte, error) {
	body := &icmp.Echo{ID: 77, Seq: 1, Data: make([]byte, 56)}
	if target.Is4() {
		message := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: body}
		payload, err := message.Marshal(nil)
		if err != nil {
			return nil, err
		}
		packet := make([]byte, 20, 20+len(payload))
		packet[0], packet[8], packet[9] = 0x45, 64, 1
		binary.BigEndian.PutUint16(packet[2:], uint16(20+len(payload)))
		copy(packet[12:], source.AsSlice())
		copy(packet[16:], target.AsSlice())
		binary.BigEndian.PutUint16(packet[10:], checksum(packet))
		return append(packet, payload...), nil
	}
	message := icmp.Message{Type: ipv6.ICMPTypeEchoRequest, Body: body}
	payload, err := message.Marshal(icmp.IPv6PseudoHeader(source.AsSlice(), target.AsSlice()))
	if err != nil {
		return nil, err
	}
	packet := make([]byte, 40, 40+len(payload))
	packet[0], packet[6], packet[7] = 0x60, 58, 64
	binary.BigEndian.PutUint16(packet[4:], uint16(len(payload)))
	copy(packet[8:], source.AsSlice())
	copy(packet[24:], target.AsSlice())
	return append(packet, payload...), nil
}

// checksum returns the checksum of an IPv4 header.
func checksum(header []byte) uint16 {
	var sum uint32
	for at := 0; at < len(header); at += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[at:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
