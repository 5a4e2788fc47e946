/** What had run out when the kernel killed for want of memory: what the container may have, or the whole machine. */
export type OomScope = "limit" | "machine" | "unknown";

/**
 * The kernel's own record of a kill, with the group whose limit was reached (none when it was the machine) and that of the
 * victim. The victim's name, which it gives itself, comes after them.
 */
const kill = /^[0-7],[^;]*;oom-kill:constraint=\w+,.*?,(?:global_oom|oom_memcg=([^,]*)),task_memcg=([^,]*),/;

/**
 * What killed last in a control group, by the records of the kernel. Nobody else tells: on cgroup v2 the engine goes by
 * `oom_kill` of a container's group, which counts those whom a machine without memory chose as well.
 *
 * @param name in the path of the group and no other, such as a container's id
 */
export function oomScopeOf(records: readonly string[], name: string): OomScope {
  for (const record of records.toReversed()) {
    const [found, limited, victim] = kill.exec(record) ?? [];
    if (found === undefined || victim?.includes(name) !== true) continue;
    // The limit of a group around it is one of the machine, as far as it is concerned.
    return limited?.includes(name) === true ? "limit" : "machine";
  }
  return "unknown";
}
