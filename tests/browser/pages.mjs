// One page of each kind, of what the repository holds and of samples. Not the checks.
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, pairs, path, ranks, record, report, sweep, transports, tuning } from "./samples.mjs";

const logs = process.env.REPORT_LOGS;
const log = (name) => join(logs, name);
const planted = (name) => join(logs, "..", "explain_cases", name);

const MAKE = {
  one: () => report("kind-one.html", [log("16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt")], "--machine", "dgx-h100"),
  slow: () => report("kind-slow.html", [planted("rtx4090_4_by_shared_memory.txt")]),
  many: () => {
    const names = Array.from({ length: 6 }, (_, number) => `many-${number}.jsonl`);
    names.forEach((name, number) => record(name, { seed: number, speed: 0.8 + number * 0.05, from: "1M", collective: number < 4 ? "all_reduce" : "alltoall" }));
    return report("kind-many.html", names);
  },
  public: () => report("kind-public.html", ["8x-h100-nvlink-all2all.txt", "8x-h800-nvlink-all-reduce.txt", "16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt", "32x-h800-nvlink-4x-400gbps-ib-all-reduce.txt", "gb200-2x4-ib400-all_reduce.txt", "gb200-2x4-mnnvl-all_reduce.txt"].map(log)),
  folder: () => {
    mkdirSync(path("bundle/node-1"), { recursive: true });
    for (const name of ["8x-h100-nvlink-all2all.txt", "16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt"]) copyFileSync(log(name), path(join("bundle", name)));
    copyFileSync(log("rtx4090-cx5-topo-ib.xml"), path("bundle/node-1/topology.xml"));
    writeFileSync(path("bundle/node-1/ibstat.txt"), "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n");
    writeFileSync(path("bundle/notes.txt"), "The customer says that it was faster last week.\n");
    return report("kind-folder.html", ["bundle"], "--machine", "dgx-h100");
  },
  sweep: () => {
    sweep("kind-sweep.json");
    return report("kind-sweep.html", ["kind-sweep.json"]);
  },
  transports: () => {
    transports("kind-transports.json");
    return report("kind-transports.html", ["kind-transports.json"]);
  },
  tuning: () => {
    tuning("kind-tuning.json");
    return report("kind-tuning.html", ["kind-tuning.json"]);
  },
  pairs: () => {
    pairs("kind-pairs.json", { judged: true });
    return report("kind-pairs.html", ["kind-pairs.json"]);
  },
  check: () => {
    check("kind-check.json");
    return report("kind-check.html", ["kind-check.json"]);
  },
  job: () => {
    mkdirSync(path("kind-job"), { recursive: true });
    for (let rank = 0; rank < 4; rank++) copyFileSync(join(logs, "../watch/late", `h0.${rank}.jsonl`), path(`kind-job/h0.${rank}.jsonl`));
    return report("kind-job.html", ["kind-job"], "--machine", "dgx-h100");
  },
  ranks: () => {
    ranks("kind-ranks");
    return report("kind-ranks.html", ["kind-ranks"]);
  },
  latency: () => report("kind-latency.html", [log("oci-h100-osu_latency-host.txt"), log("oci-h100-osu_latency-device.txt")]),
  wrong: () => report("kind-wrong.html", [planted("wrong_data_at_19_sizes.txt")]),
  failed: () => report("kind-failed.html", [planted("cuda_oom_one_rank_of_16.txt")]),
};

/** Each kind, and its page's address; a page is made once. */
export const PAGES = Object.fromEntries(Object.entries(MAKE).map(([kind, make]) => {
  let address;
  return [kind, () => (address ??= make())];
}));
