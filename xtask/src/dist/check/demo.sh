# Every controller finishes the download.
"$1" demo --limit 20s | tee /dev/stderr | grep --quiet bbr
