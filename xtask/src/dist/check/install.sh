# The package needs nothing that a minimal system lacks; nothing here can compile Rust.
export DEBIAN_FRONTEND=noninteractive
if command -v cargo rustc; then exit 1; fi
apt-get install --yes /check/clearway.deb
clearway --version
ls --format=long /etc/clearway /usr/share/doc/clearway
