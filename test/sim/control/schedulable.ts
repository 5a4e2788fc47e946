import type { SchedulableNode } from "@svc/control/fleet/scheduler/placement";
import type { NodeRow } from "../stores/postgres.ts";
import type { Replica } from "./replica.ts";

/** A node with what the scheduler asks of it. */
export function schedulable(replica: Replica, node: NodeRow): SchedulableNode {
  const { fleet } = replica;
  return {
    id: node.id,
    link: fleet.nodeLink(node.id).link,
    schedulable: node.schedulable,
    draining: node.drain !== "none",
    quarantined: node.quarantinedAt !== null,
    diskFull: node.diskFull,
    memoryShort: false,
    engineStalled: false,
    refusesDockerfiles: false,
    os: "linux",
    architecture: "amd64",
    labels: {},
    zone: "",
    memoryMb: fleet.nodeSession(node.id)?.session.capacity.memoryMb ?? node.memoryMb,
    cpuMillicores: 100_000,
    pids: 100_000,
    diskMb: 0,
  };
}
