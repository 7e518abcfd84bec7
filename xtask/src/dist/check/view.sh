# A trace of the demo becomes a page.
"$1" demo --controller cubic --loss-for 500ms --qlog runs
"$1" view --html page.html runs/cubic-1.sqlog
grep --quiet --ignore-case '<!doctype html' page.html
