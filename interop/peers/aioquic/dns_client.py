"""A DNS client on dnspython, over QUIC, HTTP/3, UDP and TCP, for tests."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import dns.exception
import dns.message
import dns.query
import dns.quic
import dns.rcode

# Time limit for each query in seconds.
LIMIT = 20
# The block lengths of padding (RFC 8467 §4.1).
QUERY_BLOCK = 128
RESPONSE_BLOCK = 468


def describe(response):
    """Returns the answers, or the response code if there are none."""
    answers = [data.to_text() for records in response.answer for data in records]
    return "|".join(answers) or dns.rcode.to_text(response.rcode())


def check(response, expected):
    """Compares a response with what was expected."""
    if describe(response) != expected:
        raise ValueError(f"expected {expected}, received {describe(response)}")


def over_quic(options, url, exchanges):
    """Queries on two connections over QUIC or HTTP/3; the second one resumes the session."""
    is_http = url.scheme == "https"

    def ask(exchange):
        name, kind, expected = exchange
        query = dns.message.make_query(name, kind, use_edns=0, pad=QUERY_BLOCK)
        if is_http:
            version = dns.query.HTTPVersion.H3
            response = dns.query.https(
                query,
                options.url,
                LIMIT,
                session=connection,
                http_version=version,
                post=is_resumed,
            )
        else:
            response = dns.query.quic(query, url.hostname, LIMIT, connection=connection)
        check(response, expected)
        if response.id != 0 or len(response.wire) % RESPONSE_BLOCK != 0:
            raise ValueError(f"the response has ID {response.id} and {len(response.wire)} octets")

    manager = dns.quic.SyncQuicManager(
        verify_mode=options.ca, server_name="localhost", h3=is_http
    )
    with manager:
        for is_resumed in (False, True):
            connection = manager.connect(url.hostname, url.port)
            try:
                with ThreadPoolExecutor() as threads:
                    list(threads.map(ask, exchanges))
                if connection._connection.tls.session_resumed != is_resumed:
                    raise ValueError(f"resumed: {not is_resumed}")
            finally:
                connection.close()


def over_udp_or_tcp(_, url, exchanges):
    """Queries without encryption."""
    send = {"udp": dns.query.udp, "tcp": dns.query.tcp}[url.scheme]
    for name, kind, expected in exchanges:
        query = dns.message.make_query(name, kind, use_edns=0)
        check(send(query, url.hostname, LIMIT, url.port), expected)


def main():
    """Sends all queries and returns the exit status."""
    parser = argparse.ArgumentParser(prog="dnspython", description=__doc__)
    parser.add_argument("--ca", required=True, help="certificate to trust, PEM")
    parser.add_argument("url", help="quic://, https://, udp:// or tcp:// and ADDRESS:PORT")
    parser.add_argument(
        "exchanges",
        nargs="+",
        help="name, type and expected result of each query; the result is a response code, or the "
        "data of all answers, separated by |",
    )
    options = parser.parse_args()
    url, rest = urlsplit(options.url), options.exchanges
    ask = over_quic if url.scheme in ("quic", "https") else over_udp_or_tcp
    try:
        ask(options, url, list(zip(rest[::3], rest[1::3], rest[2::3], strict=True)))
    except (OSError, ValueError, EOFError, dns.exception.DNSException) as error:
        print(f"dnspython: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
