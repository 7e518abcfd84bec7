// One end of a WireGuard tunnel in userspace (wireguard-go), for benchmarks.
package main

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "wireguard-go:", err)
		os.Exit(1)
	}
}

func run() error {
	generate := flag.Bool("keys", false, "print a new private key and its public key, and exit")
	name := flag.String("tun", "wg0", "name of the TUN device, which is created without addresses")
	mtu := flag.Int("mtu", 1420, "MTU of the device in bytes")
	private := flag.String("private", "", "private key of this end (hexadecimal)")
	peer := flag.String("peer", "", "public key of the other end (hexadecimal)")
	listen := flag.Int("listen", 0, "UDP port; 0 is any free port")
	endpoint := flag.String("endpoint", "", "address of the other end, if this end begins")
	allowed := flag.String("allowed", "", "prefixes of the other end's addresses, separated by commas")
	flag.Parse()
	if *generate {
		return printKeys()
	}
	link, err := tun.CreateTUN(*name, *mtu)
	if err != nil {
		return err
	}
	wireguard := device.NewDevice(link, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, *name+": "))
	defer wireguard.Close()
	settings := []string{"private_key=" + *private, fmt.Sprintf("listen_port=%d", *listen), "public_key=" + *peer}
	if *endpoint != "" {
		settings = append(settings, "endpoint="+*endpoint)
	}
	for _, prefix := range strings.Split(*allowed, ",") {
		settings = append(settings, "allowed_ip="+prefix)
	}
	if err := wireguard.IpcSet(strings.Join(settings, "\n") + "\n"); err != nil {
		return err
	}
	if err := wireguard.Up(); err != nil {
		return err
	}
	fmt.Println("ready", *name)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGTERM, os.Interrupt)
	select {
	case <-interrupted:
	case <-wireguard.Wait():
	}
	return nil
}

func printKeys() error {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(private.Bytes()), hex.EncodeToString(private.PublicKey().Bytes()))
	return nil
}
