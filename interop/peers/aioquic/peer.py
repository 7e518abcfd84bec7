"""An HTTP/3 file server and client on aioquic, for tests."""

import argparse
import asyncio
import signal
import ssl
import sys
import time
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import interop
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, StreamReset
from aioquic.quic.logger import QuicFileLogger

# Byte i of /zero/N is i mod 251; the pattern is a whole number of periods.
PATTERN = bytes(range(251)) * 512
# The largest /zero/N, because aioquic keeps all unsent data in memory.
LARGEST = 256 << 20
PARALLEL = 32


def zero_length(path):
    """Returns N of /zero/N, or None."""
    number = path.removeprefix("/zero/")
    return int(number) if number != path and number.isascii() and number.isdigit() else None


def find(root, path):
    """Returns the pieces of the file that a path names, and its length; None means 404."""
    length = zero_length(path)
    if length is not None:
        if length > LARGEST:
            return None
        rounds, rest = divmod(length, len(PATTERN))
        return [PATTERN] * rounds + [PATTERN[:rest]], length
    name = PurePosixPath(path.split("?")[0].lstrip("/"))
    file = root / name
    if ".." in name.parts or not file.is_file():
        return None
    data = file.read_bytes()
    size = len(PATTERN)
    return [data[at : at + size] for at in range(0, len(data), size)], len(data)


class Log(QuicFileLogger):
    """Writes a qlog file for each connection, even if it is open when the program ends."""

    def close(self):
        """Writes the files of connections that are still open."""
        for trace in list(self._traces):
            self.end_trace(trace)


def configuration(options, is_client):
    """Common to client and server: HTTP/3, large windows, qlog if requested."""
    result = QuicConfiguration(
        alpn_protocols=H3_ALPN, is_client=is_client, max_data=16 << 20, max_stream_data=16 << 20
    )
    if options.qlog:
        result.quic_logger = Log(options.qlog)
    return result


class ServerProtocol(QuicConnectionProtocol):
    """One connection of the server."""

    root = Path()
    http = None

    def quic_event_received(self, event):
        """Responds to each request as soon as its headers are received."""
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for received in self.http.handle_event(event):
            if isinstance(received, HeadersReceived):
                self.answer(received.stream_id, dict(received.headers))

    def answer(self, stream_id, headers):
        """Queues a complete response."""
        method = headers.get(b":method")
        found = find(self.root, headers.get(b":path", b"").decode("latin-1"))
        status, pieces, length = b"404", [], 0
        if method not in (b"GET", b"HEAD"):
            status = b"405"
        elif found is not None:
            status, (pieces, length) = b"200", found
        answer = [(b":status", status), (b"content-length", str(length).encode())]
        self.http.send_headers(stream_id, answer)
        for piece in pieces if method == b"GET" else []:
            self.http.send_data(stream_id, piece, end_stream=False)
        self.http.send_data(stream_id, b"", end_stream=True)
        self.transmit()


async def serve(options):
    """Serves until SIGTERM or SIGINT."""
    settings = configuration(options, is_client=False)
    settings.load_cert_chain(options.cert, options.key)
    ServerProtocol.root = Path(options.root)
    host, port = options.listen.rsplit(":", 1)
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: QuicServer(
            configuration=settings, create_protocol=ServerProtocol, retry=options.retry
        ),
        local_addr=(host.strip("[]"), int(port)),
    )
    print("listening {}:{}".format(host, transport.get_extra_info("sockname")[1]), flush=True)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    server.close()
    if settings.quic_logger:
        settings.quic_logger.close()
    return 0


class Response:
    """One response: counts its body, checks known bytes, and writes it if requested."""

    def __init__(self, path, output):
        self.expected = zero_length(path)
        self.generated = self.expected is not None
        self.output = output
        self.status = 0
        self.received = 0
        self.done = asyncio.get_running_loop().create_future()

    def start(self, headers):
        """Receives the header section."""
        headers = dict(headers)
        self.status = int(headers[b":status"])
        if self.status != 200:
            self.generated, self.expected = False, None
        if self.expected is None and b"content-length" in headers:
            self.expected = int(headers[b"content-length"])

    def take(self, data):
        """Receives the next bytes of the body."""
        at = 0
        while self.generated and at < len(data):
            phase = (self.received + at) % 251
            piece = data[at : at + len(PATTERN) - 251]
            if piece != PATTERN[phase : phase + len(piece)]:
                raise ValueError(f"wrong bytes after {self.received + at}")
            at += len(piece)
        if self.output:
            self.output.write(data)
        self.received += len(data)

    def finish(self):
        """Receives the end of the body."""
        if self.expected is not None and self.received != self.expected:
            raise ValueError(f"the body ended after {self.received} of {self.expected} bytes")
        self.done.set_result(None)


class ClientProtocol(QuicConnectionProtocol):
    """The client's connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses = {}

    async def download(self, url, output):
        """Sends one request and returns its response."""
        stream_id = self._quic.get_next_available_stream_id()
        path = (url.path or "/") + ("?" + url.query if url.query else "")
        response = self.responses[stream_id] = Response(path, output)
        request = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", url.netloc.encode()),
            (b":path", path.encode()),
        ]
        self.http.send_headers(stream_id, request, end_stream=True)
        self.transmit()
        await response.done
        return response

    def quic_event_received(self, event):
        """Passes received data to the response that it belongs to."""
        if isinstance(event, ConnectionTerminated):
            self.fail(list(self.responses), f"the connection ended: {event.reason_phrase}")
        elif isinstance(event, StreamReset):
            self.fail([event.stream_id], f"stream {event.stream_id} was reset")
        for received in self.http.handle_event(event):
            response = self.responses.get(getattr(received, "stream_id", None))
            if response is None or response.done.done():
                continue
            try:
                if isinstance(received, HeadersReceived):
                    response.start(received.headers)
                elif isinstance(received, DataReceived):
                    response.take(received.data)
                if getattr(received, "stream_ended", False):
                    response.finish()
            except (OSError, ValueError) as error:
                response.done.set_exception(error)

    def fail(self, stream_ids, reason):
        """Marks the incomplete responses as failed."""
        for stream_id in stream_ids:
            response = self.responses.get(stream_id)
            if response is not None and not response.done.done():
                response.done.set_exception(ConnectionError(reason))


async def download(options):
    """Performs the requests that the options describe and prints the summary."""
    url = urlsplit(options.url)
    settings = configuration(options, is_client=True)
    settings.server_name = url.hostname
    if options.insecure:
        settings.verify_mode = ssl.CERT_NONE
    elif not options.ca:
        raise ValueError("either --ca or --insecure is required")
    else:
        settings.load_verify_locations(options.ca)
    host, port = (options.connect or f"127.0.0.1:{url.port}").rsplit(":", 1)
    permits = asyncio.Semaphore(PARALLEL)

    async def one(protocol, output):
        async with permits:
            return await protocol.download(url, output)

    output = None
    if options.output:
        output = sys.stdout.buffer if options.output == "-" else open(options.output, "wb")
    async with connect(
        host.strip("[]"), int(port), configuration=settings, create_protocol=ClientProtocol
    ) as protocol:
        begin = time.perf_counter()
        outputs = [output] + [None] * (options.count - 1)
        responses = await asyncio.gather(*(one(protocol, each) for each in outputs))
        seconds = time.perf_counter() - begin
        protocol.close(error_code=ErrorCode.H3_NO_ERROR)
    if output:
        output.flush()
    size = sum(response.received for response in responses)
    status = next((r.status for r in responses if r.status != 200), 200)
    line = f'{{"bytes":{size},"seconds":{seconds:.6f},"status":{status}}}'
    print(line, file=sys.stderr if options.output == "-" else sys.stdout)
    return 0 if status == 200 else 1


def arguments():
    """Parses the command line, which is that of the other peers."""
    parser = argparse.ArgumentParser(prog="aioquic", description=__doc__)
    commands = parser.add_subparsers(required=True)
    server = commands.add_parser("server", help="serve files, and generated bytes at /zero/N")
    server.set_defaults(run=serve)
    server.add_argument("--listen", required=True, help="address; port 0 takes any free port")
    server.add_argument("--root", required=True, help="directory whose files are served")
    server.add_argument("--cert", required=True, help="certificate chain, PEM")
    server.add_argument("--key", required=True, help="private key, PEM")
    server.add_argument("--qlog", help="directory for qlog files, one per connection")
    server.add_argument("--retry", action="store_true", help="send a Retry to new clients")
    client = commands.add_parser("client", help="download")
    client.set_defaults(run=download)
    client.add_argument("--ca", help="certificate to trust, PEM")
    client.add_argument("--insecure", action="store_true", help="trust any certificate")
    body = client.add_mutually_exclusive_group(required=True)
    body.add_argument("--output", help="file for the body; - is standard output")
    body.add_argument("--discard", action="store_true", help="only count and check the body")
    client.add_argument("--count", type=int, default=1, help="requests, at most 32 at a time")
    client.add_argument("--connect", help="address, instead of 127.0.0.1 and the URL's port")
    client.add_argument("--qlog", help="directory for qlog files, one per connection")
    client.add_argument("url", help="https://localhost:PORT/path")
    commands.add_parser(
        "interop", help="perform the test that the public interop runner's environment variables request"
    ).set_defaults(run=None)
    return parser.parse_args()


def main():
    """Runs one command and returns its exit status."""
    options = arguments()
    try:
        return interop.run() if options.run is None else asyncio.run(options.run(options))
    except (OSError, ValueError) as error:
        print(f"aioquic: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
