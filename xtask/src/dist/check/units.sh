# In the booted system: both units serve, reload, and are replaced by another instance.
set -x
umask 022
program=/usr/bin/clearway
cd "$(mktemp --directory)"

is_served() {
    "$program" get --quiet --ca "$1" --connect "127.0.0.1:$2" --output got "https://localhost:$2/file"
    cmp /srv/www/file got
}
# The old instance exits by itself, successfully.
is_replaced() {
    while systemctl is-active --quiet "$1"; do read -r -t 0.1 < "$pause" || true; done
    [ "$(systemctl show --property=Result --value "$1")" = success ]
}
mkfifo pause
pause=$PWD/pause
exec 9<> pause
# Waits for a line in the metrics.
has_metric() {
    while true; do
        exec 3<> "/dev/tcp/127.0.0.1/$1"
        printf 'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3
        if grep --quiet --fixed-strings "$2" <&3; then break; fi
        read -r -t 0.2 < "$pause" || true
    done
}

mkdir --parents /srv/www
head --bytes 1000000 /dev/urandom > /srv/www/file
install --mode=600 /check/first.pem /etc/clearway/cert.pem
install --mode=600 /check/first.key /etc/clearway/key.pem

systemd-analyze verify clearway-serve@1.service clearway-balance@1.service
systemctl start clearway-serve@1
is_served /check/first.pem 443
systemctl reload clearway-serve@1
is_served /check/first.pem 443
has_metric 9433 'clearway_doctor_verdict{outcome="no_loss"} 1'

# A doctor with the unit's restrictions sees every stage.
restrictions=()
for name in RestrictAddressFamilies SystemCallFilter SystemCallErrorNumber ProtectProc PrivateDevices User; do
    restrictions+=("--property=$name=$(systemctl show --property=$name --value clearway-serve@1)")
done
systemd-run --quiet --wait "${restrictions[@]}" --property=StandardOutput=file:/check/doctor "$program" doctor --for 300ms || true
grep --quiet receiving /check/doctor
if grep 'not permitted here' /check/doctor; then exit 1; fi

# A renewed certificate.
install --mode=600 /check/second.pem /etc/clearway/cert.pem
install --mode=600 /check/second.key /etc/clearway/key.pem
systemctl start clearway-serve@2
is_replaced clearway-serve@1
is_served /check/second.pem 443

install --mode=640 --group=clearway /check/one-server.toml /etc/clearway/backends.toml
sed --in-place 's/^LISTEN=.*/LISTEN=127.0.0.1:8443/' /etc/clearway/balance.conf
systemctl start clearway-balance@1
is_served /check/second.pem 8443
systemctl reload clearway-balance@1
has_metric 9434 'clearway_doctor_verdict{outcome="no_loss"} 1'
systemctl start clearway-balance@2
is_replaced clearway-balance@1
is_served /check/second.pem 8443

# An invalid file is not used.
systemctl stop clearway-balance@2
echo nonsense > /etc/clearway/backends.toml
if systemctl start clearway-balance@1; then exit 1; fi

systemctl enable clearway-serve@2
apt-get remove --yes clearway
if systemctl is-active clearway-serve@2; then exit 1; fi
