package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// loadResult is the final line of the output of load.
type loadResult struct {
	Requests int     `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
}

// loadClient makes requests on one connection.
type loadClient struct {
	connection *http3.ClientConn
	url        string
	size       int64
}

// latencies are the latencies of the answered requests in microseconds.
type latencies struct {
	lock sync.Mutex
	took []int64
}

func (l *latencies) add(took time.Duration) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.took = append(l.took, took.Microseconds())
}

// load makes HTTP/3 requests, with a given number in flight, and prints how many were answered and how long they took.
// All connections share one socket.
func load(arguments []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust, PEM")
	connect := flags.String("connect", "", "the address of the server, whose certificate must be for localhost")
	connections := flags.Int("connections", 1, "number of connections")
	streams := flags.Int("streams", 1, "number of requests in flight on each connection")
	size := flags.Int64("size", 1024, "bytes in each response")
	seconds := flags.Float64("seconds", 3, "how long to make requests, in seconds")
	rate := flags.Float64("rate", 0, "requests per second of all connections together, regardless of how many are then in flight (default: a new request for each response)")
	datagramSize := mtuFlag(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	tlsConfig, err := clientTLS(*ca, false, "localhost")
	if err != nil {
		return err
	}
	config, err := quicConfig("", *datagramSize)
	if err != nil {
		return err
	}
	transport, opened, err := openAll(tlsConfig, *connect, *connections, config)
	if err != nil {
		return err
	}
	defer closeAll(transport, opened, quic.ApplicationErrorCode(http3.ErrCodeNoError))
	http := &http3.Transport{DisableCompression: true}
	clients := make([]*loadClient, len(opened))
	for index, connection := range opened {
		clients[index] = &loadClient{http.NewClientConn(connection), fmt.Sprintf("https://localhost/zero/%d", *size), *size}
	}
	all := &latencies{}
	start := time.Now()
	if *rate > 0 {
		err = askAtRate(clients, all, *rate, int(*rate**seconds))
	} else {
		err = askAgain(clients, all, *streams, start.Add(time.Duration(*seconds*float64(time.Second))))
	}
	if err != nil {
		return err
	}
	return printLoad(all.took, *size, time.Since(start))
}

// askAgain keeps the given number of requests in flight on each connection until the end.
func askAgain(clients []*loadClient, all *latencies, streams int, end time.Time) error {
	failed := make(chan error, len(clients)*streams)
	for range streams {
		for _, client := range clients {
			go func() {
				buffer := client.buffer()
				for began := time.Now(); began.Before(end); began = time.Now() {
					if err := client.ask(buffer); err != nil {
						failed <- err
						return
					}
					all.add(time.Since(began))
				}
				failed <- nil
			}()
		}
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// askAtRate makes requests when they are due, on one connection after the other. Latency is measured from the due time.
func askAtRate(clients []*loadClient, all *latencies, rate float64, count int) error {
	failed := make(chan error, count)
	buffers := sync.Pool{New: func() any { return clients[0].buffer() }}
	pace(rate, count, func(number int, due time.Time) {
		client := clients[number%len(clients)]
		go func() {
			buffer := buffers.Get().([]byte)
			err := client.ask(buffer)
			if err == nil {
				all.add(time.Since(due))
			}
			buffers.Put(buffer)
			failed <- err
		}()
	})
	for range count {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// pace calls due for each operation when it is due, on a separate thread that sleeps in the kernel: the runtime's timers
// are a millisecond late.
func pace(rate float64, count int, due func(number int, at time.Time)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Otherwise a thread that sleeps keeps the goroutines from running until the runtime notices.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	start := time.Now()
	for number := range count {
		at := start.Add(time.Duration(float64(number) / rate * float64(time.Second)))
		if wait := time.Until(at); wait > 0 {
			rest := syscall.NsecToTimespec(wait.Nanoseconds())
			// The runtime interrupts threads with signals.
			for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
			}
		}
		due(number, at)
	}
}

func (c *loadClient) buffer() []byte {
	return make([]byte, min(c.size+1, 256<<10))
}

// ask makes one request, and checks the response.
func (c *loadClient) ask(buffer []byte) error {
	request, err := http.NewRequest(http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	answer, err := c.connection.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	received, err := io.CopyBuffer(&sink{check: true}, answer.Body, buffer)
	if err != nil {
		return err
	}
	if received != c.size {
		return fmt.Errorf("the body ended after %d of %d bytes", received, c.size)
	}
	return nil
}

func printLoad(took []int64, size int64, elapsed time.Duration) error {
	slices.Sort(took)
	result := loadResult{Requests: len(took), Bytes: int64(len(took)) * size, Seconds: elapsed.Seconds()}
	if len(took) > 0 {
		result.P50 = took[len(took)/2]
		result.P99 = took[len(took)*99/100]
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
