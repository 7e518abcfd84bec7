# The settings, and what was enabled, remain until the package is purged.
export DEBIAN_FRONTEND=noninteractive
files='/etc/clearway/serve.conf /etc/systemd/system/multi-user.target.wants/clearway-serve@2.service'
for file in $files; do [ -e "$file" ] || [ -L "$file" ]; done
apt-get purge --yes clearway
for file in $files; do [ ! -e "$file" ] && [ ! -L "$file" ]; done
