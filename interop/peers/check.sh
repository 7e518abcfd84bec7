#!/bin/sh
# Checks the built peers against each other: every server with the quinn client, every client with the quinn server.
# usage: check.sh      the programs are in $PEERS_OUT (default: target/peers of the repository)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${PEERS_OUT:-$here/../../target/peers}
work=$(mktemp -d)
server=
bad=0
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 7 -subj "/CN=$1" \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -addext basicConstraints=critical,CA:FALSE \
        -keyout "$work/$1-key.pem" -out "$work/$1.pem" 2>/dev/null
}
certificate localhost
certificate stranger
mkdir "$work/root" "$work/qlog"
head -c 10000000 /dev/urandom >"$work/root/file"

# Starts the server of a peer: its name, the command, and more options.
start() {
    : >"$work/ready"
    "$out/$1" $2 --listen 127.0.0.1:0 --cert "$work/localhost.pem" \
        --key "$work/localhost-key.pem" $3 >"$work/ready" 2>"$work/server.log" &
    server=$!
    tries=0
    while ! grep -q '^listening ' "$work/ready"; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "server $1 does not listen"; cat "$work/server.log"; exit 1; }
        sleep 0.1
    done
    port=$(sed -n 's/^listening .*://p' "$work/ready")
}

# On SIGTERM the server must exit with status 0, and it must have written a qlog file.
stop() {
    kill "$server"
    wait "$server" || fail "$1 server: exit status $?"
    server=
    [ -n "$(find "$work/qlog" -type f -size +0 -print -quit)" ] || fail "$1 server: no qlog"
    rm -f "$work/qlog"/*
}

fail() { echo "FAILED $1"; bad=1; }

get() {
    client=$1 path=$2
    shift 2
    timeout 120 "$out/$client" client "$@" "https://localhost:$port$path" 2>"$work/client.log"
}

pair() {
    title="$1 <- $2$3"
    start "$1" server "--root $work/root --qlog $work/qlog$3"
    rm -f "$work/copy"
    ca=$work/localhost.pem
    if line=$(get "$2" /file --ca "$ca" --output "$work/copy") &&
        cmp -s "$work/copy" "$work/root/file"; then
        echo "ok     $title: $line"
    else
        fail "$title: file"
        cat "$work/client.log" "$work/server.log"
    fi
    get "$2" /file --ca "$ca" --output - | cmp -s - "$work/root/file" ||
        fail "$title: standard output"
    get "$2" /file --insecure --discard >/dev/null || fail "$title: --insecure"
    line=$(get "$2" /zero/10003 --ca "$ca" --discard --count 100) || fail "$title: 100 requests"
    case $line in '{"bytes":1000300,'*) ;; *) fail "$title: 100 requests: $line" ;; esac
    line=$(get "$2" /../localhost-key.pem --ca "$ca" --discard) &&
        fail "$title: exit status 0 for a 404"
    case $line in *'"status":404}') ;; *) fail "$title: no 404: $line" ;; esac
    line=$(get "$2" /file --ca "$work/stranger.pem" --discard) &&
        fail "$title: accepted a certificate that it does not trust"
    stop "$1"
}

# Runs a transfer, which must transfer the given number of bytes: arguments are this number, a title, and the client's name,
# command and options.
transfer() {
    bytes=$1 title=$2 client=$3
    shift 3
    line=$(timeout 120 "$out/$client" "$@" 2>"$work/client.log") || {
        fail "$title"
        cat "$work/client.log" "$work/server.log"
        return
    }
    case $line in *'"bytes":'"$bytes,"*'"status":200}') ;; *) fail "$title: $line" ;; esac
}

# Downloads and uploads of one and of many connections, over HTTP/3 and on raw streams: server, client, size of datagrams.
bulk() {
    ca=$work/localhost.pem mtu=
    [ -z "$3" ] || mtu="--mtu $3"
    start "$1" server "--root $work/root $mtu"
    for pair in "1 5000000" "100 50000"; do
        count=${pair% *} size=${pair#* } title="$1 <- $2 $mtu, $pair"
        to="--ca $ca --connect 127.0.0.1:$port --discard --connections $count $mtu"
        transfer $((count * size)) "$title: download" "$2" client $to "https://localhost/zero/$size"
        transfer $((count * size)) "$title: upload" "$2" client $to --upload "$size" https://localhost/sink
    done
    end
    start "$1" raw-server "$mtu"
    for pair in "1 5000000" "100 50000"; do
        count=${pair% *} size=${pair#* } title="$1 <- $2 $mtu, $pair"
        to="--ca $ca --bytes $size --connections $count $mtu"
        transfer $((count * size)) "$title: raw download" "$2" raw-client $to "127.0.0.1:$port"
        transfer $((count * size)) "$title: raw upload" "$2" raw-client $to --upload "127.0.0.1:$port"
    done
    end
    echo "ok     $1 <- $2 $mtu bulk"
}

end() {
    kill "$server"
    wait "$server" || true
    server=
}

for name in quinn tokio-quiche quic-go aioquic; do
    [ -x "$out/$name" ] || { echo "not built: $name"; continue; }
    pair "$name" quinn ""
    pair "$name" quinn " --retry"
    [ "$name" = quinn ] || pair quinn "$name" ""
done

for name in quinn s2n-quic tokio-quiche quic-go; do
    [ -x "$out/$name" ] || { echo "not built: $name"; continue; }
    for datagram in "" 1452 8952; do
        # quic-go's largest datagrams have 1452 bytes.
        [ "$name,$datagram" != quic-go,8952 ] || continue
        bulk "$name" "$name" "$datagram"
        [ "$name" = quinn ] || { bulk "$name" quinn "$datagram"; bulk quinn "$name" "$datagram"; }
    done
done
exit $bad
