package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"

	connectip "github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// wellKnown is the path without the variables target and ipproto. connect-ip-go supports neither, so
// the client must ask for all targets and protocols.
const wellKnown = "/.well-known/masque/ip/*/*/"

// initialPacketSize leaves room for IPv6 packets of 1280 bytes in a QUIC datagram.
const initialPacketSize = 1400

var (
	// assigned contains the addresses of every client.
	assigned = []netip.Prefix{netip.MustParsePrefix("10.98.0.2/32"), netip.MustParsePrefix("fd00:98::2/128")}
	// gateways contains the proxy's addresses, which answer echo requests.
	gateways = []netip.Addr{netip.MustParseAddr("10.98.0.1"), netip.MustParseAddr("fd00:98::1")}
	routes   = []connectip.IPRoute{
		{StartIP: netip.MustParseAddr("10.98.0.0"), EndIP: netip.MustParseAddr("10.98.0.255")},
		{StartIP: netip.MustParseAddr("fd00:98::"), EndIP: netip.MustParseAddr("fd00:98::ffff:ffff:ffff:ffff")},
	}
)

// serve is a proxy until the process ends.
func serve(listen, cert, key string) error {
	certificate, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", listen)
	if err != nil {
		return err
	}
	server := &http3.Server{
		Handler:         http.HandlerFunc(open),
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}),
		QUICConfig:      &quic.Config{EnableDatagrams: true, InitialPacketSize: initialPacketSize},
		EnableDatagrams: true,
	}
	fmt.Println("listening", socket.LocalAddr())
	return server.Serve(socket)
}

// open serves one tunnel.
func open(writer http.ResponseWriter, request *http.Request) {
	if request.URL.Path != wellKnown {
		http.Error(writer, "only the well-known template, with * and *", http.StatusNotFound)
		return
	}
	template, err := uritemplate.New("https://" + request.Host + wellKnown)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	parsed, err := connectip.ParseProxyRequest(request, template)
	if err != nil {
		log.Print("refused: ", err)
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	conn, err := (&connectip.Proxy{}).Proxy(writer, parsed)
	if err != nil {
		log.Print("no tunnel: ", err)
		return
	}
	defer conn.Close()
	log.Print("tunnel opened")
	if err := relay(request.Context(), conn); err != nil {
		log.Print("tunnel ended: ", err)
	}
}

// relay advertises the routes, assigns the requested addresses, and answers echo requests.
func relay(ctx context.Context, conn *connectip.Conn) error {
	if err := conn.AdvertiseRoute(routes); err != nil {
		return err
	}
	go func() {
		for {
			request, err := conn.ReceiveAddressRequest(ctx)
			if err == nil {
				err = request.Respond(assignments(request.Prefixes), nil)
			}
			if err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		length, err := conn.ReadPacket(buffer)
		if err != nil {
			return err
		}
		if reply := answer(buffer[:length]); reply != nil {
			if _, err := conn.WritePacket(reply); err != nil {
				return err
			}
		}
	}
}

// assignments returns an address for each requested prefix, of the same IP version.
func assignments(requested []netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, prefix := range requested {
		which := 1
		if prefix.Addr().Is4() {
			which = 0
		}
		all = append(all, assigned[which])
	}
	return all
}

// answer turns an echo request for a gateway into its reply. It returns nil for all other packets.
// Swapping the addresses does not change the checksums, so only the type is accounted for.
func answer(packet []byte) []byte {
	var header, source, destination, request, reply int
	switch {
	case len(packet) >= 28 && packet[0] == 0x45 && packet[9] == 1:
		header, source, destination = 20, 12, 16
		request, reply = int(ipv4.ICMPTypeEcho), int(ipv4.ICMPTypeEchoReply)
	case len(packet) >= 48 && packet[0]>>4 == 6 && packet[6] == 58:
		header, source, destination = 40, 8, 24
		request, reply = int(ipv6.ICMPTypeEchoRequest), int(ipv6.ICMPTypeEchoReply)
	default:
		return nil
	}
	length := destination - source
	target, _ := netip.AddrFromSlice(packet[destination : destination+length])
	if int(packet[header]) != request || (target != gateways[0] && target != gateways[1]) {
		return nil
	}
	result := append([]byte(nil), packet...)
	copy(result[source:], packet[destination:destination+length])
	copy(result[destination:], packet[source:source+length])
	result[header] = byte(reply)
	// RFC 1624, equation 3: the type is the high byte of a word.
	sum := uint32(^binary.BigEndian.Uint16(result[header+2:]))
	sum += uint32(^(uint16(request) << 8)) + uint32(uint16(reply)<<8)
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(result[header+2:], ^uint16(sum))
	// The packet leaves the proxy with a full TTL or hop limit. WritePacket corrects the header's checksum.
	result[map[int]int{20: 8, 40: 7}[header]] = 64
	return result
}
