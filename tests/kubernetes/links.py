#!/usr/bin/env python3
"""A CNI plugin, chained after `bridge`: every pod's link as slow as the cluster's folder says, before its program starts.
Not the network itself, and not a judge of it: tests/kubernetes.sh writes the two files that this reads.

DIR/rate: the rate of each link, both ways, such as 200mbit; absent or empty: as fast as it likes.
DIR/slow: INDEX RATE, the rate of the pod of that completion index.
Protocol: github.com/containernetworking/cni, SPEC.md, version 0.3.1: a JSON configuration on stdin, CNI_* variables."""

import json
import os
import subprocess
import sys


def words(path):
    try:
        with open(path) as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def rate(folder, pod):
    """The rate of a pod's link; a Job's pods are called JOB-INDEX-SUFFIX."""
    index = pod.rsplit("-", 2)[-2:-1]
    slow = words(os.path.join(folder, "slow"))
    if slow and index == slow[:1]:
        return slow[1]
    return "".join(words(os.path.join(folder, "rate")))


def shape(device, rate, inside=()):
    # A queue of 8 ms, as a switch has: tests/netlab/bed.sh.
    bucket = ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "8ms"]
    subprocess.run([*inside, *bucket], check=True, stdout=sys.stderr)


def main():
    command = os.environ.get("CNI_COMMAND")
    if command == "VERSION":
        print(json.dumps({"cniVersion": "0.3.1", "supportedVersions": ["0.3.1"]}))
    if command != "ADD":
        return
    given = json.load(sys.stdin)
    arguments = dict(pair.split("=", 1) for pair in os.environ.get("CNI_ARGS", "").split(";") if "=" in pair)
    one = rate(given["folder"], arguments.get("K8S_POD_NAME", ""))
    if one:
        for interface in given["prevResult"]["interfaces"]:
            if interface["name"].startswith("veth") and not interface.get("sandbox"):
                shape(interface["name"], one)
        shape(os.environ["CNI_IFNAME"], one, ["nsenter", "--net=" + os.environ["CNI_NETNS"]])
    print(json.dumps(given["prevResult"]))


if __name__ == "__main__":
    main()
