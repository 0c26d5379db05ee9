"""Programs named ib_write_bw and ib_write_lat that find each other over TCP as perftest's do, and print its tables."""

import sys
from pathlib import Path

PROGRAM = """#!{python} -IS
import json, os, socket, sys, time
from pathlib import Path
knobs = json.loads(Path({knobs!r}).read_text())
arguments = sys.argv[1:]
if "--help" in arguments:
    print(knobs.get("help", "Usage:"))
    sys.exit(0)
value = lambda flag: arguments[arguments.index(flag) + 1]
port, device, latency = int(value("-p")), value("-d"), "lat" in sys.argv[0]
with open({log!r}, "a") as log:
    print(" ".join([os.path.basename(sys.argv[0]), *arguments]), file=log)
if "stderr" in knobs:
    print(knobs["stderr"], file=sys.stderr)
    sys.exit(1)
client = arguments[-1] == "127.0.0.1"
if client:
    line = socket.create_connection(("127.0.0.1", port))
    if knobs.get("hang"):
        time.sleep(600)
else:
    listener = socket.create_server(("127.0.0.1", port))
    line, _ = listener.accept()
    line.recv(1)
    sys.exit(0)
rate = knobs["rates"][device]
if latency:
    print(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
          "   99% percentile[usec]   99.9% percentile[usec] ")
    print(" 8 1000 1.20 9.00 1.50 1.60 0.10 2.00 8.00")
elif "json" in knobs:
    print(knobs["json"])
else:
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(f" 1048576    {{value('-n')}}             {{rate + 1:.2f}}             {{rate:.2f}}		   0.046")
line.sendall(b"x")
"""


def install(folder: Path, knobs: Path) -> Path:
    """Both programs in a folder for PATH; each start is noted in `calls` beside the knobs."""
    text = PROGRAM.format(python=sys.executable, knobs=str(knobs), log=str(knobs.parent / "calls"))
    for name in ("ib_write_bw", "ib_write_lat"):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
