#!/bin/sh
# Checks for the tools that the page's build and tests need: Node 20.19 or newer, and Chromium. With CI=true, missing tools
# are installed (Debian's packages; a Node that is new enough from npm, into target/tools), otherwise an error names them.
# Prints the folder of a newer Node that has to be put into PATH, if the one in PATH is too old.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tools=${CARGO_TARGET_DIR:-$here/../target}/tools/node

have() { command -v "$1" >/dev/null 2>&1; }
is_new_enough() {
    "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}
has_browser() { [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; }

install_package() {
    [ "${CI:-}" = true ] || {
        echo "viewer: $1 is missing; install the Debian package $1, or run this with CI=true" >&2
        exit 1
    }
    echo "viewer: installing $1" >&2
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    { $root apt-get update && $root apt-get install --yes --no-install-recommends "$1"; } >&2
}

has_browser || install_package chromium
have npm || install_package npm
if ! is_new_enough node; then
    if ! is_new_enough "$tools/node_modules/node/bin/node"; then
        [ "${CI:-}" = true ] || {
            echo "viewer: Node 20.19 or newer is needed, but this is $(node --version)" >&2
            exit 1
        }
        npm install --silent --no-save --prefix "$tools" node@22 >&2
    fi
    echo "$tools/node_modules/node/bin"
fi
