package main

import _ "github.com/quic-go/quic-go/http3"

func main() {}
