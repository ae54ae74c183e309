// One page of each kind, of what the repository holds and of samples. Not the checks.
import { join } from "node:path";
import { pairs, record, report, sweep, transports } from "./samples.mjs";

const logs = process.env.REPORT_LOGS;
const log = (name) => join(logs, name);
const planted = (name) => join(logs, "..", "explain_cases", name);

/** Each kind: what its first screen must say besides a verdict, and how its page is made. */
export const PAGES = {
  one: () => report("kind-one.html", [log("16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt")], "--machine", "dgx-h100"),
  slow: () => report("kind-slow.html", [planted("rtx4090_4_by_shared_memory.txt")]),
  many: () => {
    const names = Array.from({ length: 6 }, (_, number) => `many-${number}.jsonl`);
    names.forEach((name, number) => record(name, { seed: number, speed: 0.8 + number * 0.05, collective: number < 4 ? "all_reduce" : "alltoall" }));
    return report("kind-many.html", names);
  },
  public: () => report("kind-public.html", ["8x-h100-nvlink-all2all.txt", "8x-h800-nvlink-all-reduce.txt", "16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt", "32x-h800-nvlink-4x-400gbps-ib-all-reduce.txt", "gb200-2x4-ib400-all_reduce.txt", "gb200-2x4-mnnvl-all_reduce.txt"].map(log)),
  sweep: () => {
    sweep("kind-sweep.json");
    return report("kind-sweep.html", ["kind-sweep.json"]);
  },
  transports: () => {
    transports("kind-transports.json");
    return report("kind-transports.html", ["kind-transports.json"]);
  },
  pairs: () => {
    pairs("kind-pairs.json", { judged: true });
    return report("kind-pairs.html", ["kind-pairs.json"]);
  },
  latency: () => report("kind-latency.html", [log("oci-h100-osu_latency-host.txt"), log("oci-h100-osu_latency-device.txt")]),
  wrong: () => report("kind-wrong.html", [planted("wrong_data_at_19_sizes.txt")]),
  failed: () => report("kind-failed.html", [planted("cuda_oom_one_rank_of_16.txt")]),
};
