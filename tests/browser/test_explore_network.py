"""PHExplore and the network: other pages can't use it, it works offline, and it reports a busy port."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from phsafe.explorer.launch import Service

pytestmark = pytest.mark.needs("chromium")


def test_another_web_page_cannot_drive_it(browser: Browser, service: Service):
    """A page from another origin gets nothing, even with the token."""
    import http.server
    import threading

    script = """<script>
      fetch("http://127.0.0.1:PORT/api/start", {method: "POST", headers: {"x-phsafe-token": "TOKEN"}, body: "{}"})
        .then(r => r.text()).then(t => document.title = "got " + t.length, e => document.title = "refused");
    </script>""".replace("PORT", str(service.port)).replace("TOKEN", service.token)

    class AttackerPage(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(script.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), AttackerPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_context().new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    page.wait_for_function("() => document.title !== ''")
    assert page.title() == "refused"
    page.context.close()
    server.shutdown()
    server.server_close()


@pytest.mark.needs("ip")
def test_it_works_without_a_network(tmp_path: Path):
    """The server and a browser in a network namespace with nothing but loopback."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    script = tmp_path / "offline.py"
    script.write_text(
        "import socket, sys, threading\n"
        "from playwright.sync_api import sync_playwright\n"
        "from phsafe.explorer.launch import Service\n"
        "try:\n"
        "    socket.create_connection(('192.0.2.1', 80), timeout=2)\n"
        "except OSError as error:\n"
        "    print('network:', error.strerror)\n"
        "with Service(port=0) as service:\n"
        "    thread = threading.Thread(target=service.run, daemon=True)\n"
        "    thread.start()\n"
        "    with sync_playwright() as playwright:\n"
        "        quiet = ['--no-sandbox', '--headless', '--disable-gpu', '--disable-background-networking']\n"
        f"        browser = playwright.chromium.launch(executable_path={chromium!r}, args=quiet)\n"
        "        page = browser.new_page()\n"
        "        page.goto(service.link)\n"
        "        page.wait_for_selector('#total-unbounded')\n"
        "        print('total:', page.locator('#total-unbounded').inner_text())\n"
        "        browser.close()\n"
        "    service.server.should_exit = True\n"
        "    thread.join(5)\n"
    )
    command = f"ip link set lo up && exec {sys.executable} {script}"
    run = subprocess.run(
        ["unshare", "-rn", "sh", "-c", command], check=False, capture_output=True, text=True, timeout=90
    )
    if "unshare failed" in run.stderr or "Operation not permitted" in run.stderr:
        pytest.skip("creating a network namespace is not permitted here")
    assert "network: Network is unreachable" in run.stdout, run.stderr
    assert "total: 1.257281" in run.stdout, run.stderr


def test_a_busy_port_is_refused_with_a_reason():
    from phsafe.errors import PHSafeError

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PHSafeError, match="it is in use; choose another"):
            Service(port=taken.getsockname()[1])
