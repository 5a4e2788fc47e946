/** What had run out when the kernel killed for want of memory: what the container may have, or the whole machine. */
export type OomScope = "limit" | "machine" | "unknown";

/**
 * The kernel's own record of a kill, with the group whose limit was reached (none when it was the machine) and that of the
 * victim. The victim's name, which it gives itself, comes after them.
 */
const kill = /^[0-7],[^;]*;oom-kill:constraint=\w+,.*?,(?:global_oom|oom_memcg=([^,]*)),task_memcg=([^,]*),/;

/**
 * What killed a container last, by the records of the kernel. The engine does not tell: on cgroup v2 it goes by `oom_kill`
 * of the container's group, which counts those whom a machine without memory chose as well.
 */
export function oomScopeOf(records: readonly string[], containerId: string): OomScope {
  for (const record of records.toReversed()) {
    const [found, limited, victim] = kill.exec(record) ?? [];
    if (found === undefined || victim?.includes(containerId) !== true) continue;
    // The limit of a group around it is one of the machine, as far as it is concerned.
    return limited?.includes(containerId) === true ? "limit" : "machine";
  }
  return "unknown";
}
