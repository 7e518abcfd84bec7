# The example of the documentation is valid.
"$1" balance --check --backends /check/backends.toml
