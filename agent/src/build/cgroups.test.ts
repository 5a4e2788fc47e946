import { expect, test } from "vitest";
import { groupDirectories, limitSettings, parseTrees, readCounter } from "./cgroups.ts";
import { groupsAt } from "./steps-of-engine.ts";

const apart = `
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`;
const together = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";

test.each([
  {
    when: "each controller has a tree",
    mounts: apart,
    trees: {
      version: 1,
      memory: "/sys/fs/cgroup/memory",
      cpu: "/sys/fs/cgroup/cpu,cpuacct",
      pids: "/sys/fs/cgroup/pids",
    },
  },
  { when: "all are in one tree", mounts: together, trees: { version: 2, unified: "/sys/fs/cgroup" } },
  { when: "one is missing", mounts: "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n", trees: null },
  { when: "there are none", mounts: "proc /proc proc rw 0 0\n", trees: null },
])("when $when", ({ mounts, trees }) => {
  expect(parseTrees(mounts)).toEqual(trees);
});

const written = (mounts: string, limits: Parameters<typeof limitSettings>[2]) => {
  const trees = parseTrees(mounts);
  if (trees === null) throw new Error("no trees");
  const settings = limitSettings(trees, "g", limits);
  return Object.fromEntries(settings.map(({ file, value }) => [file.replace("/sys/fs/cgroup/", ""), value]));
};
const limits = { memoryMb: 512, cpuMillicores: 1500, pidsLimit: 100 };
const none = { memoryMb: 0, cpuMillicores: 0, pidsLimit: 0 };

test("limits in trees of their own", () => {
  expect(written(apart, limits)).toEqual({
    "pids/g/pids.max": "100",
    "memory/g/memory.limit_in_bytes": "536870912",
    "memory/g/memory.memsw.limit_in_bytes": "536870912",
    "cpu,cpuacct/g/cpu.cfs_period_us": "100000",
    "cpu,cpuacct/g/cpu.cfs_quota_us": "150000",
  });
  expect(Object.values(written(apart, none))).toEqual(["max", "-1", "-1", "100000", "-1"]);
});

test("limits in one tree", () => {
  expect(written(together, limits)).toEqual({
    "g/pids.max": "100",
    "g/memory.max": "536870912",
    "g/memory.swap.max": "0",
    "g/cpu.max": "150000 100000",
  });
  expect(Object.values(written(together, none))).toEqual(["max", "max", "max", "max 100000"]);
});

test("a group has a directory in each tree", () => {
  expect(groupDirectories({ version: 1, memory: "/m", cpu: "/c", pids: "/p" }, "g")).toEqual(["/p/g", "/m/g", "/c/g"]);
  expect(groupDirectories({ version: 2, unified: "/u" }, "g")).toEqual(["/u/g"]);
});

test("a counter is read by its name", () => {
  expect(readCounter("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill")).toBe(3);
  expect(readCounter("max 2\n", "oom_kill")).toBe(0);
});

test.each([
  { when: "the engine keeps groups itself", path: "/docker/buildkit/x1", at: "/u/docker/buildkit/x1" },
  { when: "systemd does", path: "system.slice:docker:x1", at: "/u/system.slice/docker-x1.scope" },
  { when: "slices lie in slices", path: "a-b.slice::x1", at: "/u/a.slice/a-b.slice/x1.scope" },
])("a step's group is known in advance when $when", ({ path, at }) => {
  expect(groupsAt({ version: 2, unified: "/u" }, path)).toEqual([at]);
});
