#!/usr/bin/env python3
"""Runs a flow file of draw.py for real: hosts and switches are namespaces, links are veth with a token bucket, and each
flow is one TCP connection over the path that the file names.

Not the prediction, and not what is judged (judge.py). Usage: bed.py FILE [--queues flow|link] [--queue BYTES] [--congestion NAME]; needs root.
Prints JSON: seconds until each flow's last byte was received, from the common start, and what the run was like.

With `--queues link` a link has one queue and a token bucket (tbf), as switches have it. With `--queues flow` each flow has
its own queue before each link, served in turns (htb, whose classes borrow in proportion to their quantum): what the
simulator assumes of sharing then holds in the network, whatever TCP does.

Hosts have an address for each spine, 10.(10 + spine).(leaf).(host + 1), and a flow uses those of its spine on both ends, so
that its acknowledgements come back the same way. Leaves know a route for each spine's addresses, spines for each leaf's.
Where a link is taken away, both it and the routes over it go, and other routes come.
"""

import argparse
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tomllib

libc = ctypes.CDLL(None, use_errno=True)
TAG = f"fab{os.getpid()}-"
HOME = os.open("/proc/self/ns/net", os.O_RDONLY)
CHUNK = 1 << 18
# A case of draw.py takes half a minute.
LIMIT_S = 150
BURST = 64 * 1024
# Segments that TCP hands over as one packet, and what a class sends in its turn: no less than such a packet.
SEGMENTS = 4
QUANTUM = SEGMENTS * 1514
FIRST_PORT = 7000
# Where struct tcp_info has tcpi_total_retrans, and the namespace that setns(2) is to change.
TOTAL_RETRANS = 100
CLONE_NEWNET = 0x40000000


def inside(node: str) -> None:
    """This thread continues in the namespace of a node, or in that in which it began."""
    namespace = os.open(f"/run/netns/{TAG}{node}", os.O_RDONLY) if node else HOME
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns to {node or 'the first namespace'}")
    if node:
        os.close(namespace)


def batch(tool: str, node: str, lines: list[str]) -> None:
    command = [tool] + (["-n", TAG + node] if node else []) + ["-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def possible() -> str | None:
    """Why there are no namespaces here, or nothing to shape links with; None if there are."""
    missing = [tool for tool in ("ip", "tc", "nft") if not shutil.which(tool)]
    if missing:
        return f"no {' and no '.join(missing)} here: install iproute2 and nftables"
    done = subprocess.run(["ip", "netns", "add", TAG + "x"], text=True, capture_output=True)
    if done.returncode:
        return done.stderr.strip() or "ip netns add failed"
    add = ["ip", "link", "add", "p", "netns", TAG + "x", "type", "veth", "peer", "name", "q", "netns", TAG + "x"]
    tbf = ["tc", "-n", TAG + "x", "qdisc", "add", "dev", "p", "root", "tbf", "rate", "1mbit", "burst", "64kb", "limit", "64kb"]
    for command in (add, tbf):
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode:
            break
    subprocess.run(["ip", "netns", "del", TAG + "x"], capture_output=True)
    return (done.stderr.strip() or "no veth or tbf") if done.returncode else None


class Bed:
    def __init__(self, case: dict, queues: str, queue: int):
        self.rates = {tuple(link["name"].split(">")): link["rate"] for link in case["links"]}
        self.queue = queue
        self.flows = len(case["flows"]) if queues == "flow" else 0
        self.nodes = sorted({node for link in self.rates for node in link})
        self.leaf_of = {a: b for a, b in self.rates if a[0] == "h"}
        self.spines = sorted(node for node in self.nodes if node[0] == "s")
        self.leaves = sorted(node for node in self.nodes if node[0] == "l")
        self.address = {}

    def shape(self, link: tuple[str, str], rate: float) -> list[str]:
        """Lines of tc: how fast a link is, and its queues."""
        device, bits = link[1], round(rate * 1e9)
        if not self.flows:
            return [f"qdisc replace dev {device} root tbf rate {bits}bit burst {BURST} limit {self.queue}"]
        whole = f"rate {bits}bit ceil {bits}bit burst {BURST} cburst {BURST} quantum {QUANTUM}"
        lines = [f"class replace dev {device} parent 1: classid 1:1 htb {whole}"]
        # Next to nothing of its own: all else is borrowed, in turns.
        own = f"rate 8kbit ceil {bits}bit burst 2kb cburst {BURST} quantum {QUANTUM}"
        return lines + [f"class replace dev {device} parent 1:1 classid 1:{number + 16:x} htb {own}" for number in range(self.flows)]

    def queues(self, link: tuple[str, str]) -> list[str]:
        if not self.flows:
            return self.shape(link, self.rates[link])
        device = link[1]
        # What is of no flow has class 1:10, that of the first: ARP.
        lines = [f"qdisc replace dev {device} root handle 1: htb default 10"] + self.shape(link, self.rates[link])
        return lines + [f"qdisc replace dev {device} parent 1:{number + 16:x} bfifo limit {self.queue}" for number in range(self.flows)]

    def classify(self) -> None:
        """Packets of this namespace go into their flow's class: data by its port, acknowledgements by where they come from."""
        ports = ", ".join(f"{FIRST_PORT + number} : 1:{number + 16:x}" for number in range(self.flows))
        rules = "".join(f"meta priority set tcp {end} map {{ {ports} }}\n" for end in ("dport", "sport"))
        chains = "".join(f"chain {hook} {{\ntype filter hook {hook} priority 0\n{rules}}}\n" for hook in ("forward", "output"))
        done = subprocess.run(["nft", "-f", "-"], input=f"table ip flows {{\n{chains}}}\n", text=True, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"nft: {done.stderr.splitlines()[0]}")

    def build(self) -> None:
        batch("ip", "", [f"netns add {TAG}{node}" for node in self.nodes])
        pairs = [link for link in self.rates if link[0] < link[1]]
        batch("ip", "", [f"link add {b} netns {TAG}{a} type veth peer name {a} netns {TAG}{b}" for a, b in pairs])
        for at, (a, b) in enumerate(pairs):
            for host, pair in enumerate(((a, b), (b, a)), 1):
                self.address[pair] = f"10.200.{at // 64}.{at % 64 * 4 + host}"
        for node in self.nodes:
            inside(node)
            for name, value in (("ip_forward", 1), ("conf/all/rp_filter", 0), ("conf/default/rp_filter", 0), ("conf/all/send_redirects", 0)):
                with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
                    file.write(str(value))
            if self.flows:
                self.classify()
            inside("")
            mine = [link for link in self.rates if link[0] == node]
            up = ["link set lo up"]
            for link in mine:
                up += [f"addr add {self.address[link]}/30 dev {link[1]}", f"link set {link[1]} gso_max_segs {SEGMENTS} up"]
            batch("ip", node, up + self.routes(node))
            batch("tc", node, [line for link in mine for line in self.queues(link)])

    def host_address(self, host: str, spine: str) -> str:
        return f"10.{10 + int(spine[1:])}.{int(self.leaf_of[host][1:])}.{int(host[1:]) + 1}"

    def via(self, node: str, other: str) -> str:
        return f"via {self.address[other, node]} dev {other}"

    def routes(self, node: str) -> list[str]:
        if node[0] == "h":
            own = [f"addr add {self.host_address(node, spine)}/32 dev lo" for spine in self.spines]
            return own + [f"route add default {self.via(node, self.leaf_of[node])}"]
        if node[0] == "s":
            every = ((10 + int(spine[1:]), leaf) for spine in self.spines for leaf in self.leaves)
            return [f"route add 10.{first}.{leaf[1:]}.0/24 {self.via(node, leaf)}" for first, leaf in every]
        below = [host for host, leaf in self.leaf_of.items() if leaf == node]
        down = [f"route add {self.host_address(host, spine)}/32 {self.via(node, host)}" for host in below for spine in self.spines]
        return down + [f"route add 10.{10 + int(spine[1:])}.0.0/16 {self.via(node, spine)}" for spine in self.spines]

    def slow(self, link: tuple[str, str], rate: float) -> None:
        batch("tc", link[0], self.shape(link, rate))

    def take_away(self, leaf: str, spine: str, instead: str) -> None:
        """What crossed this link takes another spine from now on, on both legs."""
        first = 10 + int(spine[1:])
        batch("ip", leaf, [f"link set {spine} down", f"route replace 10.{first}.0.0/16 {self.via(leaf, instead)}"])
        for other in self.leaves:
            if other != leaf:
                batch("ip", other, [f"route replace 10.{first}.{leaf[1:]}.0/24 {self.via(other, instead)}"])

    def sent(self) -> dict[str, int]:
        """Bytes that left by each link."""
        carried = {}
        for node in self.nodes:
            shown = subprocess.run(["tc", "-n", TAG + node, "-s", "-j", "qdisc", "show"], text=True, capture_output=True)
            for one in json.loads(shown.stdout or "[]"):
                if one["kind"] in ("tbf", "htb"):
                    carried[f"{node}>{one['dev']}"] = one["bytes"]
        return carried

    def remove(self) -> None:
        for node in self.nodes:
            subprocess.run(["ip", "netns", "del", TAG + node], capture_output=True)


class Late:
    """How late this process runs when it wanted to: what the processors were held by."""

    def __init__(self):
        self.ms: list[float] = []
        self.going = True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while self.going:
            wanted = time.monotonic() + 0.01
            time.sleep(0.01)
            self.ms.append((time.monotonic() - wanted) * 1e3)

    def percentile(self, share: float) -> float:
        self.going = False
        self.thread.join()
        return sorted(self.ms)[min(len(self.ms) - 1, int(len(self.ms) * share))]


def failures(case: dict) -> list[tuple[float, str, object]]:
    """The file's changes as what is done to the bed: (seconds, words, arguments)."""
    found = []
    gone = {}
    for change in case.get("changes", []):
        at = change["at_us"] / 1e6
        if "flow" in change:
            continue
        link = tuple(change["link"].split(">"))
        if change["rate"] > 0:
            found.append((at, "slow", (link, change["rate"])))
        elif link[0][0] == "l":
            gone[link] = at
    for (leaf, spine), at in gone.items():
        moved = [change["path"] for change in case["changes"] if "flow" in change]
        instead = next(node for path in moved for node in path[1].split(">") if node[0] == "s")
        found.append((at, "take_away", (leaf, spine, instead)))
    return sorted(found, key=lambda one: one[0])


def connections(bed: Bed, case: dict, congestion: str) -> list[dict]:
    """A connection for each flow, made, and not used yet."""
    flows = []
    for number, flow in enumerate(case["flows"]):
        nodes = [flow["path"][0].split(">")[0]] + [link.split(">")[1] for link in flow["path"]]
        spine = next((node for node in nodes if node[0] == "s"), bed.spines[0])
        a, b = bed.host_address(nodes[0], spine), bed.host_address(nodes[-1], spine)
        inside(nodes[-1])
        listener = socket.create_server((b, FIRST_PORT + number))
        inside(nodes[0])
        sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        sender.bind((a, 0))
        sender.connect((b, FIRST_PORT + number))
        inside("")
        receiver, _ = listener.accept()
        listener.close()
        sender.setblocking(False)
        receiver.setblocking(False)
        start = flow.get("start_us", 0) / 1e6
        left = {"to_send": flow["bytes"], "to_come": flow["bytes"]}
        flows.append({"name": flow["name"], "start": start, "sender": sender, "receiver": receiver, **left})
    return flows


def run(bed: Bed, case: dict, congestion: str) -> dict:
    flows = connections(bed, case, congestion)
    waiting = failures(case)
    applied, threads = [], []
    data, sink = memoryview(bytes(CHUNK)), bytearray(CHUNK)
    ready = selectors.DefaultSelector()
    for flow in flows:
        ready.register(flow["receiver"], selectors.EVENT_READ, flow)
    unstarted = sorted(flows, key=lambda flow: flow["start"])
    unfinished = len(flows)
    late = Late()
    idle = idle_jiffies()
    begun = time.monotonic()

    def apply(words: str, arguments: tuple) -> None:
        first = time.monotonic() - begun
        getattr(bed, words)(*arguments)
        applied.append({"what": words, "from_s": round(first, 3), "to_s": round(time.monotonic() - begun, 3)})

    while unfinished:
        now = time.monotonic() - begun
        if now > LIMIT_S:
            raise RuntimeError(f"{unfinished} flows are not done after {LIMIT_S} s")
        while unstarted and unstarted[0]["start"] <= now:
            flow = unstarted.pop(0)
            ready.register(flow["sender"], selectors.EVENT_WRITE, flow)
        while waiting and waiting[0][0] <= now:
            _, words, arguments = waiting.pop(0)
            threads.append(threading.Thread(target=apply, args=(words, arguments)))
            threads[-1].start()
        moments = [flow["start"] for flow in unstarted[:1]] + [one[0] for one in waiting[:1]]
        for key, _ in ready.select(min((at - now for at in moments), default=0.5)):
            flow = key.data
            try:
                if key.fileobj is flow["sender"]:
                    flow["to_send"] -= flow["sender"].send(data[: min(CHUNK, flow["to_send"])])
                    if flow["to_send"] == 0:
                        ready.unregister(flow["sender"])
                else:
                    came = flow["receiver"].recv_into(sink)
                    if came == 0:
                        raise RuntimeError(f"{flow['name']}: the connection was closed")
                    flow["to_come"] -= came
                    if flow["to_come"] == 0:
                        flow["done_s"] = time.monotonic() - begun
                        ready.unregister(flow["receiver"])
                        unfinished -= 1
            except BlockingIOError:
                pass
    took = time.monotonic() - begun
    busy = 1 - (idle_jiffies() - idle) / took / os.sysconf("SC_CLK_TCK") / os.cpu_count()
    for thread in threads:
        thread.join()
    again = [struct.unpack_from("I", flow["sender"].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), TOTAL_RETRANS)[0] for flow in flows]
    return {
        "flows": {flow["name"]: round(flow["done_s"], 4) for flow in flows},
        "all_s": round(max(flow["done_s"] for flow in flows), 4),
        "failures": applied,
        "segments_sent_again": sum(again),
        "late_ms_p99": round(late.percentile(0.99), 2),
        "busy": round(busy, 2),
        "elsewhere": elsewhere(bed, case),
    }


def elsewhere(bed: Bed, case: dict) -> dict[str, int]:
    """Links that no flow and no acknowledgement is to cross, and carried more than ARP does."""
    paths = [flow["path"] for flow in case["flows"]]
    paths += [change["path"] for change in case.get("changes", []) if "flow" in change]
    crossed = {link for path in paths for link in path}
    crossed |= {">".join(reversed(link.split(">"))) for link in crossed}
    return {link: sent for link, sent in bed.sent().items() if link not in crossed and sent > 20_000}


def idle_jiffies() -> int:
    with open("/proc/stat") as file:
        return sum(int(field) for field in file.readline().split()[4:6])


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("file", nargs="?")
    words.add_argument("--queues", choices=("flow", "link"), default="link")
    words.add_argument("--queue", type=int, default=100_000)
    words.add_argument("--congestion", default="cubic")
    words.add_argument("--possible", action="store_true")
    options = words.parse_args()
    why = possible()
    if why or options.possible:
        if why:
            print(why, file=sys.stderr)
        return 3 if why else 0
    with open(options.file, "rb") as file:
        case = tomllib.load(file)
    # So that nothing is left where the script is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bed = Bed(case, options.queues, options.queue)
    try:
        bed.build()
        print(json.dumps(run(bed, case, options.congestion)))
    finally:
        bed.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
