// What the tests' pages are made of: records of the fake backend, made noisy with a fixed seed, and the
// results and matrices that need hardware. Not the checks.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
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

/** A result of `busbw tune`: a ladder on two hosts that gains at large sizes, loses at a small one, and has a step that crashes. */
export function tuning(name) {
  const next = random(5);
  const sizes = [2 ** 20, 2 ** 24, 2 ** 28];
  const set = (value) => (value ? [{ name: "NCCL_IB_QPS_PER_CONNECTION", value }, { name: "NCCL_BUFFSIZE", value: "8388608" }] : []);
  const compared = (gain, half, launches = 7) => ({ gain, interval: { low: gain - half, high: gain + half, coverage: 0.962 }, p: launches < 7 ? 0.03 : half > Math.abs(gain) ? 0.3 : 0.00058, decides_below: 0.0006, launches: [launches, launches] });
  const history = [];
  const launch = (purpose, environment, speed) => history.push({
    number: history.length, environment, purpose, took_s: 4,
    times: speed ? sizes.map((size) => ({ operation: "all_reduce", size, seconds: ((size / 4e10 + 3e-5) / speed) * (1 + 0.02 * (next() - 0.5)) })) : [],
    failed: speed ? null : { failure: "crashed", text: "rank 3: NCCL WARN Cuda failure 'out of memory'" },
  });
  launch("baseline", [], 1);
  for (const [step, [value, speed]] of [["2", 1.1], ["4", 1.3], ["8", 0.9], ["16", 0]].entries()) {
    for (let again = 0; again < 2; again++) {
      launch({ rung: 0 }, [], 1);
      launch({ rung: step + 1 }, set(value), speed);
    }
  }
  for (let again = 0; again < 7; again++) {
    launch({ final: 0 }, [], 1);
    launch({ final: 1 }, set("4"), 1.3);
  }
  const at = (size, gain) => ({ operation: "all_reduce", size, default_s: size / 4e10 + 3e-5, with_it_s: (size / 4e10 + 3e-5) / (1 + gain), compared: compared(gain, 0.04) });
  const step = (value, gain) => ({ sets: set(value), gain, failed: gain === null ? history.find((one) => one.failed).failed : null });
  const failed = history.filter((one) => one.failed).map((one) => ({ trial: one.number, environment: one.environment, ...one.failed }));
  const result = {
    tune_schema: 1, busbw: "0.1.0", started: "2026-11-25 10:00:00", args: ["tune", "all_reduce", "-b", "1M", "-e", "256M", "-f", "16"], is_ladder: true, backend: "nccl", ranks: 16, nccl: "2.32.3", took_s: 128.2, interrupted: false,
    before: [{ rule: "shared-path", severity: "slow", cause: "two flows share one link of the fabric", evidence: ["ports 3 and 7 send 50 % each"], confidence: "likely", remedy: "use more queue pairs" }],
    parts: [],
    variables_left_out: [{ name: "NCCL_IB_TC", reason: "others' queues: only with -x" }],
    rungs_left_out: [{ name: "socket threads", reason: "ranks are joined over InfiniBand" }],
    outcome: {
      advice: "set", environment: set("4"), best: { environment: set("4"), compared: compared(0.298, 0.02) }, within: 0.318,
      variables: [{ variable: set("4")[0], compared: compared(0.27, 0.03, 4) }, { variable: set("4")[1], compared: compared(0.01, 0.03, 4) }],
      calls: [at(sizes[0], -0.12), at(sizes[1], 0.02), at(sizes[2], 0.41)], choices: [],
      rungs: [{ name: "queue pairs", steps: [step("2", 0.1), step("4", 0.3), step("8", -0.1), step("16", null)], compared: compared(0.297, 0.03, 5), kept: set("4") }], rungs_unreached: ["rails"],
      disqualified: failed, suspected: [{ values: [{ name: "NCCL_IB_QPS_PER_CONNECTION", value: "16" }], failed: failed.length }], trials: history.length,
    },
    by_call: {
      advice: "leave", environment: [], best: null, within: 0, variables: [], calls: [], rungs: [], rungs_unreached: [], disqualified: [], suspected: [], trials: 30,
      choices: sizes.map((size, number) => ({ operation: "all_reduce", size, environment: number ? [] : [{ name: "NCCL_ALGO", value: "Tree" }], compared: number ? null : compared(0.2, 0.05) })),
    },
    tuner_file: ["allreduce,1048576,4194304,tree,simple,0,2,16"], file_settings: [], history_with_file: [],
    with_file: {
      advice: "leave", environment: [], best: { environment: [], compared: compared(0.01, 0.03) }, within: 0.04, variables: [], calls: [at(sizes[0], 0.01)],
      choices: [], rungs: [], rungs_unreached: [], disqualified: [], suspected: [], trials: 14,
    },
    remains: ["all_reduce reaches 71 % of the limit at 256 MiB"], history, history_by_call: [],
  };
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

/** A result of `busbw check` that blocks: a line of each verdict, and a text that is markup. */
export function check(name) {
  const line = (which, verdict, text, extra = {}) => ({ check: which, verdict, text, measured: 0, took_s: 0, ...extra });
  const made = {
    check_schema: 1, busbw: "0.1.0", started: "2026-11-25 02:00:00", started_unix: 1795572000, args: ["busbw", "check", "-H", "n1:8,n2:8,n3:8,n4:8", "--within", "60s"],
    hosts: ["n1", "n2", "n3", "n4"], ranks: 32, within_s: 60, took_s: 31.4, decision: "blocked", reason: "settings: n3: MTU on 10.0.0.0/24 1500 where 3 others have 9000",
    lines: [
      line("doctor", "pass", "4 hosts: no fault", { took_s: 2.5 }),
      line("settings", "fail", "MTU on 10.0.0.0/24 1500 where 3 others have 9000", { subject: { is: "host", host: "n3" }, measured: 2, remedy: "make it the same on all hosts", confirm: "ip link" }),
      line("collective", "pass", "all_reduce float sum: 331.0 GB/s at 256 MiB, data right, in 2 launches", { took_s: 8.1, figure: { value: 331, unit: "GB/s", size: 2 ** 28 } }),
      line("limit", "pass", "331.0 GB/s of 388.0 GB/s, set by NIC 0", { figure: { value: 331, unit: "GB/s", size: 2 ** 28, wanted: 388 } }),
      line("pairs", "cannot-tell", "<img src=x onerror=alert(1)> sends 30 % slower, seen once", { subject: { is: "link", from: "n1 gpu 1", to: "n2 gpu 2", both: false }, measured: 1 }),
      line("transports", "waived", "left to `busbw transports`"),
    ],
  };
  writeFileSync(path(name), JSON.stringify(made));
  return made;
}

/** The profiler's files of a job of many ranks in one communicator; `late` comes 1 ms after the others in the second half. */
export function ranks(name, { count = 1024, calls = 200, late = 777 } = {}) {
  mkdirSync(path(name), { recursive: true });
  for (let rank = 0; rank < count; rank++) {
    const duration = (call) => (rank === late && call >= calls / 2 ? 400_000 : 1_400_000 + ((call * 7919 + rank * 104729) % 10_000));
    const lines = [
      { kind: "process", version: 1, busbw: "0.1.0", host: `node-${Math.floor(rank / 8)}`, pid: 4000 + rank, job: "4711", rank, began: 1795757041000000000, gpu_origin: 1, interface: 6, mask: 70 },
      { kind: "communicator", number: 0, id: "0x5a1", name: "default_pg", nodes: count / 8, ranks: count, rank, at: 1 },
      { kind: "heartbeat", at: 1000200300, clock: 1795757042000200300, late: 61000, core_wait: 1200000, dropped_calls: 0, dropped_steps: 0 },
      { kind: "clock", communicator: 0, at: 1000200300, ahead: 5000 },
      { kind: "calls", communicator: 0, operation: "AllReduce", count: 16777216, datatype: "ncclFloat32", size: 67108864, algorithm: "RING", protocol: "SIMPLE", channels: 8, calls: Array.from({ length: calls }, (_, call) => [call, call * 2e8, call * 2e8 + 9000, duration(call)]) },
    ];
    writeFileSync(path(join(name, `node-${Math.floor(rank / 8)}.${4000 + rank}.jsonl`)), lines.map((line) => JSON.stringify(line)).join("\n") + "\n");
  }
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
