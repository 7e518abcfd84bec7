"""A download with curl_cffi's libcurl through an HTTP/3 proxy, for tests."""

import argparse
import sys

from curl_cffi import Curl, CurlError, CurlHttpVersion, CurlInfo, CurlOpt, __curl_version__
from curl_cffi.const import CurlProxyType

# Time limit in milliseconds.
LIMIT = 60_000
# The HTTP versions inside of the tunnel: HTTP/3 uses CONNECT-UDP, HTTP/1.1 uses CONNECT.
VERSIONS = {
    "1.1": CurlHttpVersion.V1_1,
    "3": CurlHttpVersion.V3ONLY,
}
# The values of CURLINFO_HTTP_VERSION.
REPORTED = {"1.1": 2, "3": 30}


def download(options):
    """Downloads the URL and returns an error message, or None."""
    with open(options.output, "wb") as output:
        curl = Curl()
        curl.setopt(CurlOpt.URL, options.url.encode())
        curl.setopt(CurlOpt.PROXY, options.proxy.encode())
        curl.setopt(CurlOpt.PROXYTYPE, int(CurlProxyType.HTTPS3))
        curl.setopt(CurlOpt.HTTPPROXYTUNNEL, 1)
        # An empty list overrides the environment variable no_proxy.
        curl.setopt(CurlOpt.NOPROXY, b"")
        curl.setopt(CurlOpt.CAINFO, options.ca.encode())
        curl.setopt(CurlOpt.PROXY_CAINFO, options.proxy_ca.encode())
        # Otherwise curl_cffi sets its own certificates.
        curl._is_cert_set = True
        curl.setopt(CurlOpt.HTTP_VERSION, int(VERSIONS[options.http]))
        curl.setopt(CurlOpt.TIMEOUT_MS, LIMIT)
        curl.setopt(CurlOpt.VERBOSE, int(options.verbose))
        curl.setopt(CurlOpt.WRITEDATA, output)
        curl.perform()
        status = curl.getinfo(CurlInfo.RESPONSE_CODE)
        version = curl.getinfo(CurlInfo.HTTP_VERSION)
        curl.close()
    if status != 200:
        return f"status {status}"
    if version != REPORTED[options.http]:
        return f"HTTP version {version} instead of {REPORTED[options.http]}"
    return None


def main():
    """Performs one download and returns the exit status."""
    parser = argparse.ArgumentParser(prog="curl", description=__doc__)
    parser.add_argument("--proxy", required=True, help="https://HOST:PORT of the proxy")
    parser.add_argument("--proxy-ca", required=True, help="certificate to trust for the proxy")
    parser.add_argument("--ca", required=True, help="certificate to trust for the server")
    parser.add_argument("--http", choices=VERSIONS, default="3", help="version in the tunnel")
    parser.add_argument("--output", required=True, help="file for the body")
    parser.add_argument("--verbose", action="store_true", help="print curl's log")
    parser.add_argument("url", help="https://localhost:PORT/path")
    options = parser.parse_args()
    try:
        error = download(options)
    except CurlError as failure:
        error = str(failure)
    if error:
        print(f"curl: {error} ({__curl_version__})", file=sys.stderr)
        return 1
    print(__curl_version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
