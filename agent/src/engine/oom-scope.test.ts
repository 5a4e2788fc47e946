import { expect, test } from "vitest";
import { oomScopeOf } from "./oom-scope.ts";

const id = "cc492a264ea1ca514d39210df56e9b3d5f65d1066edb42cd551e48d7eec04500";
const other = id.replace("cc", "dd");
const scope = (of: string) => `/system.slice/docker-${of}.scope`;

/** As kernels have said it since 5.0. `cpuset` is that of whoever asked for memory, not of the victim. */
const aKill = (by: string, victim: string, { task = "MainThread", priority = 6 } = {}) =>
  `${priority},3788,1342678925,-;oom-kill:constraint=${by === "global_oom" ? "CONSTRAINT_NONE" : "CONSTRAINT_MEMCG"},` +
  `nodemask=(null),cpuset=docker-${id}.scope,mems_allowed=0,${by},task_memcg=${victim},task=${task},pid=3403,uid=1000\n`;
const noise = "6,3787,1342678866,-;[  pid  ]   uid  tgid total_vm      rss oom_score_adj name\n";

test.each([
  { when: "it reached its limit", log: [noise, aKill(`oom_memcg=${scope(id)}`, scope(id)), noise], is: "limit" },
  { when: "it did on cgroup v1", log: [aKill(`oom_memcg=/docker/${id}`, `/docker/${id}`)], is: "limit" },
  { when: "the machine had no memory left", log: [aKill("global_oom", scope(id))], is: "machine" },
  { when: "a group around it reached its limit", log: [aKill("oom_memcg=/system.slice", scope(id))], is: "machine" },
  { when: "another one was killed", log: [aKill(`oom_memcg=${scope(other)}`, scope(other))], is: "unknown" },
  { when: "another one was killed while it asked", log: [aKill("global_oom", scope(other))], is: "unknown" },
  {
    when: "it was killed twice",
    log: [aKill(`oom_memcg=${scope(id)}`, scope(id)), aKill("global_oom", scope(id))],
    is: "machine",
  },
  {
    when: "its process has a name that says otherwise",
    log: [aKill(`oom_memcg=${scope(id)}`, scope(id), { task: ",global_oom," })],
    is: "limit",
  },
  {
    when: "not the kernel wrote it",
    log: [aKill("global_oom", scope(id), { priority: 14 })],
    is: "unknown",
  },
  { when: "the log is not shown", log: [], is: "unknown" },
])("when $when", ({ log, is }) => {
  expect(oomScopeOf(log, id)).toBe(is);
});
