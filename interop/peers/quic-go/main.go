// An HTTP/3 and raw-stream server and client on quic-go, for tests and benchmarks.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Byte i of /zero/N is i mod 251; the pattern below is a whole number of periods.
const period = 251

var pattern = func() []byte {
	bytes := make([]byte, period*512)
	for i := range bytes {
		bytes[i] = byte(i % period)
	}
	return bytes
}()

// zeroLength returns N of /zero/N.
func zeroLength(path string) (int64, bool) {
	number, found := strings.CutPrefix(path, "/zero/")
	if !found {
		return 0, false
	}
	length, err := strconv.ParseInt(number, 10, 64)
	return length, err == nil && length >= 0
}

func main() {
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	err := errors.New("usage: quic-go server|client|load|handshakes|handshakes-server|raw-server|raw-client|interop OPTIONS")
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "server":
			err = serve(os.Args[2:])
		case "client":
			err = download(os.Args[2:])
		case "load":
			err = load(os.Args[2:])
		case "handshakes":
			err = handshakes(os.Args[2:])
		case "handshakes-server":
			// Go's TLS prefers X25519MLKEM768.
			err = serve(os.Args[2:])
		case "raw-server":
			err = serveRaw(os.Args[2:])
		case "raw-client":
			err = transferRaw(os.Args[2:])
		case "interop":
			err = interop()
		}
	}
	if errors.Is(err, errUnsupported) {
		os.Exit(127)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go:", err)
		os.Exit(1)
	}
}
