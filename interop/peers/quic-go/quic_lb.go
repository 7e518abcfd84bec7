package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go"
)

// The bounds of draft-ietf-quic-load-balancers: 7 is the configuration of IDs that cannot be routed, a nonce has at least 4
// octets, and an ID of QUIC version 1 at most 20.
const (
	lastConfig    = 6
	smallestNonce = 4
	largestID     = 20
)

// quicLB generates unencrypted connection IDs from which a load balancer reads the server.
type quicLB struct {
	config byte
	server []byte
	length int
}

// parseQUICLB parses CONFIG:SERVER:LENGTH: the number of the configuration, the server ID in hexadecimal digits, and the
// length of connection IDs in octets.
func parseQUICLB(text string) (*quicLB, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("--quic-lb %s: expected CONFIG:SERVER:LENGTH", text)
	}
	config, configErr := strconv.ParseUint(parts[0], 10, 8)
	server, serverErr := hex.DecodeString(parts[1])
	length, lengthErr := strconv.Atoi(parts[2])
	switch {
	case configErr != nil || config > lastConfig:
		return nil, fmt.Errorf("--quic-lb %s: the configuration must be 0 to %d", text, lastConfig)
	case serverErr != nil || len(server) == 0:
		return nil, fmt.Errorf("--quic-lb %s: the server ID must be hexadecimal digits", text)
	case lengthErr != nil || length > largestID || length < 1+len(server)+smallestNonce:
		return nil, fmt.Errorf("--quic-lb %s: the connection ID must have %d to %d octets", text, 1+len(server)+smallestNonce, largestID)
	}
	return &quicLB{byte(config), server, length}, nil
}

// GenerateConnectionID is called by quic-go for each connection ID. Its first octet contains the number of following octets.
func (g *quicLB) GenerateConnectionID() (quic.ConnectionID, error) {
	id := make([]byte, g.length)
	id[0] = g.config<<5 | byte(g.length-1)
	copy(id[1:], g.server)
	if _, err := rand.Read(id[1+len(g.server):]); err != nil {
		return quic.ConnectionID{}, err
	}
	return quic.ConnectionIDFromBytes(id), nil
}

// ConnectionIDLen returns the length of every connection ID.
func (g *quicLB) ConnectionIDLen() int {
	return g.length
}
