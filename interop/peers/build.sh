#!/bin/sh
# Builds the peers, each with its own ecosystem's tools, into $PEERS_OUT (default: target/peers of the repository).
# usage: build.sh [NAME...]      names: quinn tokio-quiche s2n-quic quic-go quic-go-masque connect-ip-go coredns caddy
# aioquic (default: all of these), wireguard-go
# PEERS_JOBS limits parallelism (default 2). With CI=true, missing Debian packages are installed, a missing toolchain or a
# failed build is an error, not a reason to skip that peer, and peers in Rust are built with little optimization, since
# nothing is measured.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${PEERS_OUT:-$here/../../target/peers}
jobs=${PEERS_JOBS:-2}
mkdir -p "$out"
out=$(cd "$out" && pwd)
failed=0

have() { command -v "$1" >/dev/null 2>&1; }

have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    for library in /usr/lib/llvm-*/lib/libclang.so* /usr/lib/llvm-*/lib/libclang-[0-9]*.so* \
        /usr/lib/libclang.so* /usr/lib64/libclang.so* /usr/lib/*/libclang-[0-9]*.so*; do
        [ -e "$library" ] && return 0
    done
    return 1
}

have_venv() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Prints what is missing to build a peer; prints nothing if everything is installed.
missing() {
    case $1 in
        quinn) have cargo || echo "no cargo" ;;
        s2n-quic)
            if ! have cargo; then echo "no cargo"
            elif ! have cmake; then echo "no cmake"
            elif ! have cc; then echo "no C compiler"
            fi ;;
        tokio-quiche)
            if ! have cargo; then echo "no cargo"
            elif ! have cmake; then echo "no cmake"
            elif ! have c++; then echo "no C++ compiler"
            elif ! have git; then echo "no git"
            elif ! have_libclang; then echo "no libclang"
            fi ;;
        quic-go | quic-go-masque | connect-ip-go | coredns | wireguard-go) have go || echo "no go" ;;
        caddy) have caddy || { have apt-get && have dpkg-deb; } || echo "no caddy" ;;
        aioquic)
            if ! have python3; then echo "no python3"
            elif ! have_venv; then echo "no python3-venv"
            fi ;;
        *) echo "no such peer" ;;
    esac
}

# The Debian package for each thing that may be missing.
package() {
    case $1 in
        "no cmake") echo cmake ;;
        "no C++ compiler") echo g++ ;;
        "no C compiler") echo gcc ;;
        "no git") echo git ;;
        "no libclang") echo libclang-dev ;;
        "no go") echo golang-go ;;
        "no python3" | "no python3-venv") echo python3-venv ;;
    esac
}

update_packages() {
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    $as_root apt-get update -qq
}

install_package() {
    update_packages && $as_root apt-get install -y -qq --no-install-recommends "$1"
}

# Installs what `missing` prints, one package after the other, until an installation changes nothing.
install_missing() {
    have apt-get || return 0
    last=
    while lack=$(missing "$1"); [ -n "$lack" ] && [ "$lack" != "$last" ]; do
        wanted=$(package "$lack")
        [ -n "$wanted" ] || return 0
        install_package "$wanted" || return 0
        last=$lack
    done
}

# Copies a file only if it changed, and as a new file, so that a running program is not overwritten.
place() { cmp -s "$1" "$2" || { rm -f "$2" && cp "$1" "$2"; }; }

build_cargo() {
    set -- "$1" --release --locked -j "$jobs"
    if [ "${CI:-}" = true ]; then
        export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off
        [ "$1" != tokio-quiche ] || set -- "$@" --config profile.release.package.boring-sys.opt-level=0
    fi
    peer=$1 && shift
    (cd "$here/$peer" && CARGO_TARGET_DIR="$out/cargo" cargo build "$@") &&
        place "$out/cargo/release/peer-$peer" "$out/$peer"
}

build_go() {
    (cd "$here/$1" && go build -p "$jobs" -mod=readonly -trimpath -o "$out/$1.new" .) &&
        place "$out/$1.new" "$out/$1" && rm -f "$out/$1.new"
}

download_debian() {
    apt-get download "$1" && return
    [ "${CI:-}" = true ] && update_packages && apt-get download "$1"
}

# Unpacks Debian's package of a program, without installing it, unless the program is installed.
unpack_debian() {
    if have "$1"; then place "$(command -v "$1")" "$out/$1"; return; fi
    folder=$out/$1.package
    rm -rf "$folder" && mkdir "$folder" &&
        (cd "$folder" && download_debian "$1" && dpkg-deb -x "$1"_*.deb .) &&
        place "$folder/usr/bin/$1" "$out/$1" && rm -rf "$folder"
}

# Creates the program $1, which runs the Python script $2 in the virtual environment.
wrap() {
    printf '#!/bin/sh\nexec "%s/bin/python" "%s/aioquic/%s" "$@"\n' "$venv" "$here" "$2" >"$out/$1.new"
    chmod +x "$out/$1.new" && place "$out/$1.new" "$out/$1" && rm -f "$out/$1.new"
}

build_python() {
    venv=$out/venv
    if ! cmp -s "$here/aioquic/requirements.txt" "$venv/requirements.txt"; then
        rm -rf "$venv" && python3 -m venv "$venv" &&
            "$venv/bin/pip" install --quiet --requirement "$here/aioquic/requirements.txt" &&
            cp "$here/aioquic/requirements.txt" "$venv/requirements.txt" || return 1
    fi
    wrap aioquic peer.py && wrap aioquic-masque connect_udp.py && wrap curl-cffi curl.py && wrap https-server https_server.py &&
        wrap dnspython dns_client.py
}

build() {
    case $1 in
        quinn | tokio-quiche | s2n-quic) build_cargo "$1" ;;
        quic-go | quic-go-masque | connect-ip-go | coredns | wireguard-go) build_go "$1" ;;
        caddy) unpack_debian caddy ;;
        aioquic) build_python ;;
    esac
}

skip() {
    echo "peer $1: skipped ($2)"
    [ "${CI:-}" != true ] || failed=1
}

[ $# -gt 0 ] || set -- quinn quic-go quic-go-masque connect-ip-go coredns caddy aioquic s2n-quic tokio-quiche
# Only one at a time builds into a folder.
if have flock; then
    exec 9>"$out/.lock"
    flock -n 9 || { echo "peers: waiting for another build in $out" && flock 9; }
fi
# Everything that is missing is installed before the first build: later another program may be installing packages, too.
for name in "$@"; do
    [ "${CI:-}" != true ] || install_missing "$name" >"$out/$name.log" 2>&1
done
for name in "$@"; do
    log=$out/$name.log
    lack=$(missing "$name")
    if [ -n "$lack" ]; then
        skip "$name" "$lack"
    elif build "$name" >>"$log" 2>&1; then
        echo "peer $name: built"
        rm -f "$log"
    else
        tail -n 40 "$log" >&2
        skip "$name" "build failed, see $log"
    fi
done
exit $failed
