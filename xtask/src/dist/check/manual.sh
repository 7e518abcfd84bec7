# Every page is found, and groff has no warnings about it.
export LC_ALL=C.UTF-8 MANWIDTH=80
for page in /usr/share/man/man1/clearway*.1; do
    warnings=$(man --warnings --encoding=UTF-8 --local-file --troff-device=utf8 --ditroff "$page" 2>&1 > /dev/null)
    [ -z "$warnings" ] || { echo "$page: $warnings"; exit 1; }
done
man clearway-serve > page
grep '^NAME' page
grep --after-context=3 '^EXAMPLES' page
