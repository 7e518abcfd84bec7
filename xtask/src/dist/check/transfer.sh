# A file arrives as it was.
mkdir www
head --bytes 5000000 /dev/urandom > www/file
mkfifo lines
"$1" serve www --save-cert cert.pem > lines &
server=$!
exec 3< lines
while read -r line <&3; do
    case $line in "listening on"*) break ;; esac
done
"$1" get --quiet --ca cert.pem --output got https://localhost:4433/file
cmp www/file got
kill "$server"
wait "$server"
