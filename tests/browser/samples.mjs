// What the tests' pages are made of: records of the fake backend, made noisy with a fixed seed, and the
// results and matrices that need hardware. Not the checks.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

export const busbw = process.env.BUSBW;
export const folder = mkdtempSync(join(tmpdir(), "busbw-report-"));
export const path = (name) => join(folder, name);

/** Numbers from 0 to 1, the same in every run (Numerical Recipes, 3rd edition, section 7.1: an LCG). */
function random(seed) {
  let state = BigInt(seed);
  return () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
    return Number(state >> 11n) / 2 ** 53;
  };
}

const quantile = (sorted, at) => sorted[Math.floor((sorted.length - 1) * at)];

/** A record of the fake backend with noise in its batches; `speed` scales it. Returns its lines as objects. */
export function record(name, { seed = 1, speed = 1, collective = "all_reduce", from = "8", to = "8G", edit = () => {} } = {}) {
  const made = path(`${name}.made`);
  execFileSync(busbw, [collective, "--backend", "fake", "-g", "8", "-b", from, "-e", to, "-f", "2", "-n", "5", "--batches", "9", "--record", made], { stdio: "ignore" });
  const next = random(seed);
  const lines = readFileSync(made, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  for (const row of lines.filter((line) => line.kind === "row")) {
    for (const half of [row.out_of_place, row.in_place].filter(Boolean)) {
      const was = half.time_us;
      half.batches_us = half.batches_us.map(() => [(was / speed) * (1 + 0.12 * (next() - 0.3) * (next() > 0.8 ? 2 : 1))]);
      const sorted = half.batches_us.map(([us]) => us).sort((a, b) => a - b);
      half.time_us = quantile(sorted, 0.5);
      half.algbw = (half.algbw * was) / half.time_us;
      half.busbw = (half.busbw * was) / half.time_us;
    }
  }
  edit(lines);
  writeFileSync(path(name), lines.map((line) => JSON.stringify(line)).join("\n") + "\n");
  return lines;
}

/** A result of `busbw transports`, as two H200 gave it (docs/data/h200x2-transports.txt), with more sizes. */
export function transports(name) {
  const environment = (asked, verdict, found, by, extra = {}) => ({
    name: asked,
    variables: extra.variables ?? {},
    launches: 6,
    transport: { asked, scope: "all", found, verdict, log: { says: "yes", words: "log" }, counters: { says: "yes", words: by }, ...extra.transport },
    ...extra.also,
  });
  const result = {
    sweep_schema: 1, command: "transports", busbw: "0.1.0", started: "2026-11-20 10:00:00", args: ["busbw", "transports", "all_reduce", "-b", "1M", "-e", "1G", "-f", "4"],
    program: "all_reduce_perf", on: "2 ranks on nccl (NVIDIA H200), NCCL 2.28.9, host vm", show: "busbw", baseline: 0, launches: 6, took_s: 200.5,
    environments: [
      environment("p2p", "proven", "P2P/CUMEM", "NVLink 733 GB of 733 GB", { transport: { limit: 73.05 } }),
      environment("shm", "proven", "SHM/direct", "no device moved 645 GB", { variables: { NCCL_P2P_DISABLE: "1" }, transport: { limit: 49.6 } }),
      environment("socket:eth0", "proven", "NET/Socket (eth0)", "lo 206 GB of 205 GB", { variables: { NCCL_P2P_DISABLE: "1", NCCL_SHM_DISABLE: "1", NCCL_IB_DISABLE: "1", NCCL_SOCKET_IFNAME: "=eth0" }, transport: { limit: "sockets of one host meet in its memory, which no link limits" } }),
      { name: "ib", variables: {}, launches: 0, waived: "there is no RDMA device" },
      { name: "sharp", variables: {}, launches: 0, waived: "no active InfiniBand port: SHARP is in its switches" },
      { name: "nvls", variables: { NCCL_NVLS_ENABLE: "2" }, launches: 2, failed: { exit: 3, reason: "NCCL: invalid usage" } },
    ],
    rows: [],
  };
  const next = random(7);
  for (const size of [2 ** 20, 2 ** 22, 2 ** 24, 2 ** 26, 2 ** 28, 2 ** 30]) {
    const top = [328.74, 27.27, 2.97];
    const cells = top.map((speed, number) => {
      const busbw = (speed * size) / (size + speed * 8000);
      const time = size / busbw / 1e3;
      const launches = Array.from({ length: 6 }, () => time * (1 + 0.04 * (next() - 0.5))).sort((a, b) => a - b);
      return {
        launches_us: launches, time_us: time, interval_us: { low: launches[0], high: launches[5], coverage: 0.96875 }, algbw: busbw, busbw, batches: 5, iterations: 20,
        ...(number ? { against: { verdict: "Slower", ratio: null, interval: null, guard: null } } : {}),
      };
    });
    result.rows.push({ size, cells: [...cells, null, null, null] });
  }
  writeFileSync(path(name), JSON.stringify(result));
  return result;
}

/** A result of `busbw sweep` over a number of channels: more are faster, with little at small sizes. */
export function sweep(name) {
  const next = random(11);
  const channels = ["unset", "8", "16", "32"];
  const result = {
    sweep_schema: 1, command: "sweep", busbw: "0.1.0", started: "2026-11-20 10:00:00", args: ["busbw", "sweep", "-x", "NCCL_MIN_NCHANNELS=unset,8,16,32", "all_reduce", "-b", "1M", "-e", "4G", "-f", "4"],
    program: "all_reduce_perf", on: "8 ranks on nccl (NVIDIA H100), NCCL 2.28.9, host node-1", show: "busbw", baseline: 0, launches: 6, took_s: 180.2,
    environments: channels.map((count) => ({ name: count === "unset" ? "default" : `NCHANNELS=${count}`, variables: count === "unset" ? {} : { NCCL_MIN_NCHANNELS: count }, launches: 6 })),
    rows: [],
  };
  for (let size = 2 ** 20; size <= 2 ** 32; size *= 4) {
    const cells = [360, 241, 322, 371].map((speed, number) => {
      const busbw = (speed * size) / (size + speed * 9000);
      const time = (size * 1.75) / busbw / 1e3;
      const launches = Array.from({ length: 6 }, () => time * (1 + 0.01 * (next() - 0.5))).sort((a, b) => a - b);
      const verdict = number === 3 ? "Faster" : "Slower";
      return {
        launches_us: launches, time_us: (launches[2] + launches[3]) / 2, interval_us: { low: launches[0], high: launches[5], coverage: 0.96875 }, algbw: busbw / 1.75, busbw, batches: 5, iterations: 20, limit: 480,
        ...(number ? { against: { verdict, ratio: null, interval: null, guard: null } } : {}),
      };
    });
    result.rows.push({ size, cells });
  }
  writeFileSync(path(name), JSON.stringify(result));
  return result;
}

/** A matrix of pairs with one slow rank; `judged` adds the verdict that busbw gives of it. */
export function pairs(name, { hosts = 2, gpus = 8, unit = "GB/s", judged = false } = {}) {
  const next = random(3);
  const labels = Array.from({ length: hosts * gpus }, (_, rank) => `node-${Math.floor(rank / gpus) + 1} gpu ${rank % gpus}`);
  const value = (from, to) => {
    if (from === to) return null;
    const inside = Math.floor(from / gpus) === Math.floor(to / gpus);
    const speed = (inside ? 378 : 48.6) * (1 - 0.03 * next()) * (to === 11 && !inside ? 0.5 : 1);
    return unit === "us" ? 1000 / speed : speed;
  };
  const made = { pairs_schema: 2, what: "Send and receive, one pair at a time", command: "busbw pairs -b 64M", labels, size: 2 ** 26, unit, values: labels.map((_, from) => labels.map((_, to) => value(from, to))) };
  if (judged) {
    made.verdict = {
      basis: "retest", unit, hosts: labels.map((_, rank) => Math.floor(rank / gpus)),
      levels: [{ class: "within hosts", value: 372.4, "spread-percent": 1.1, cells: 112, samples: 9 }, { class: "between hosts", value: 47.9, "spread-percent": 1.2, cells: 128, samples: 9 }],
      findings: [{ subject: { is: "receiver", rank: 11 }, class: "between hosts", "slower-percent": 49.8, "slow-cells": 8, cells: 8, confidence: 0.9998 }],
    };
  }
  writeFileSync(path(name), JSON.stringify(made));
  return made;
}

/** Writes a page from these files. */
export function report(name, files, ...options) {
  // By their names alone, as a reader has them: pages show where they were read from.
  const here = files.map((file) => {
    if (file.includes("/")) copyFileSync(file, path(basename(file)));
    return basename(file);
  });
  execFileSync(busbw, ["report", ...here, "-o", name, "--force", ...options], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  return `file://${path(name)}`;
}
