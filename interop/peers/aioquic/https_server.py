"""An HTTPS server over TCP with HTTP/1.1, the target of TCP tunnels in tests."""

import argparse
import functools
import http.server
import ssl


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Ignores the message."""


def main():
    """Serves until the process is terminated."""
    parser = argparse.ArgumentParser(prog="https_server", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", help="address; port 0: any free port")
    parser.add_argument("--root", required=True, help="directory whose files are served")
    parser.add_argument("--cert", required=True, help="certificate chain, PEM")
    parser.add_argument("--key", required=True, help="private key, PEM")
    options = parser.parse_args()
    host, port = options.listen.rsplit(":", 1)
    handler = functools.partial(Handler, directory=options.root)
    server = http.server.ThreadingHTTPServer((host, int(port)), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert, options.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("listening {}:{}".format(*server.server_address), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
