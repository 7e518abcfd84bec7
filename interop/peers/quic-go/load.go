package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// loadResult is the line that load ends with.
type loadResult struct {
	Requests int     `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
}

// loadWorker makes one request after the other.
type loadWorker struct {
	client   *http3.ClientConn
	url      string
	size     int64
	start    time.Time
	end      time.Time
	first    time.Duration
	interval time.Duration
	// The latencies of the answered requests in microseconds.
	took []int64
}

// load makes requests over HTTP/3, as many at a time as asked for, and prints how many were answered and how long they took.
// All connections share one socket.
func load(arguments []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust, PEM")
	connect := flags.String("connect", "", "the address of the server, whose certificate must be for localhost")
	connections := flags.Int("connections", 1, "number of connections")
	streams := flags.Int("streams", 1, "number of requests in flight on each connection")
	size := flags.Int64("size", 1024, "bytes in each response")
	seconds := flags.Float64("seconds", 3, "for how long requests are made")
	rate := flags.Float64("rate", 0, "requests per second of all connections together; by default as many as are answered")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	clients, closeAll, err := openAll(*ca, *connect, *connections)
	if err != nil {
		return err
	}
	defer closeAll()
	workers := make([]*loadWorker, *connections**streams)
	start := time.Now()
	for index := range workers {
		worker := &loadWorker{
			client: clients[index%len(clients)],
			url:    fmt.Sprintf("https://localhost/zero/%d", *size),
			size:   *size,
			start:  start,
			end:    start.Add(time.Duration(*seconds * float64(time.Second))),
		}
		if *rate > 0 {
			worker.interval = time.Duration(float64(len(workers)) / *rate * float64(time.Second))
			worker.first = worker.interval * time.Duration(index) / time.Duration(len(workers))
		}
		workers[index] = worker
	}
	failed := make(chan error, len(workers))
	for _, worker := range workers {
		go func() { failed <- worker.run() }()
	}
	for range workers {
		if err := <-failed; err != nil {
			return err
		}
	}
	return printLoad(workers, time.Since(start))
}

func openAll(ca, connect string, count int) ([]*http3.ClientConn, func(), error) {
	tlsConfig, err := clientTLS(ca, false, "localhost")
	if err != nil {
		return nil, nil, err
	}
	remote, err := net.ResolveUDPAddr("udp", connect)
	if err != nil {
		return nil, nil, err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, nil, err
	}
	transport := &quic.Transport{Conn: socket}
	client := &http3.Transport{DisableCompression: true}
	opened := make([]*http3.ClientConn, count)
	failed := make([]error, count)
	var group sync.WaitGroup
	// How many connections are opened at the same time.
	permits := make(chan struct{}, 32)
	for index := range opened {
		permits <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			connection, err := transport.Dial(context.Background(), remote, tlsConfig, quicConfig(""))
			if err == nil {
				opened[index] = client.NewClientConn(connection)
			}
			failed[index] = err
			<-permits
		}()
	}
	group.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, nil, err
		}
	}
	closeAll := func() {
		for _, connection := range opened {
			connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
		}
		transport.Close()
	}
	return opened, closeAll, nil
}

// due returns from when on the latency of a request counts, after waiting for that time, and whether the run is not over then.
func (w *loadWorker) due(index int) (time.Time, bool) {
	now := time.Now()
	if w.interval == 0 {
		return now, now.Before(w.end)
	}
	due := w.start.Add(w.first + w.interval*time.Duration(index))
	if due.After(now) && due.Before(w.end) {
		time.Sleep(due.Sub(now))
		// The timer's own delay is not the server's.
		due = time.Now()
	}
	return due, due.Before(w.end)
}

func (w *loadWorker) run() error {
	buffer := make([]byte, min(w.size+1, 256<<10))
	for index := 0; ; index++ {
		began, more := w.due(index)
		if !more {
			return nil
		}
		request, err := http.NewRequest(http.MethodGet, w.url, nil)
		if err != nil {
			return err
		}
		answer, err := w.client.RoundTrip(request)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		received, err := io.CopyBuffer(&sink{check: true}, answer.Body, buffer)
		answer.Body.Close()
		if err != nil {
			return err
		}
		if received != w.size {
			return fmt.Errorf("the body ended after %d of %d bytes", received, w.size)
		}
		w.took = append(w.took, time.Since(began).Microseconds())
	}
}

func printLoad(workers []*loadWorker, elapsed time.Duration) error {
	result := loadResult{Seconds: elapsed.Seconds()}
	var took []int64
	for _, worker := range workers {
		took = append(took, worker.took...)
		result.Bytes += int64(len(worker.took)) * worker.size
	}
	slices.Sort(took)
	result.Requests = len(took)
	if len(took) > 0 {
		result.P50 = took[len(took)/2]
		result.P99 = took[len(took)*99/100]
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
