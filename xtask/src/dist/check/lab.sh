# A scenario runs outside of the repository.
"$1" lab run collapse --controller cubic
