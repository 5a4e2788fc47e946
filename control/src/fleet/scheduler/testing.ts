import type { SchedulableNode } from "./placement.ts";
import type { DesiredTask } from "./steps.ts";

/** A node that takes whatever it has room for. */
export const aNode = (id: string, change: Partial<SchedulableNode> = {}): SchedulableNode => ({
  id,
  link: "connected",
  schedulable: true,
  draining: false,
  quarantined: false,
  diskFull: false,
  memoryShort: false,
  engineStalled: false,
  refusesDockerfiles: false,
  os: "linux",
  architecture: "amd64",
  labels: {},
  zone: "",
  memoryMb: 1024,
  cpuMillicores: 2000,
  pids: 4096,
  diskMb: 0,
  ...change,
});

/** A container that waits for a node. */
export const aTask = (id: string, change: Partial<DesiredTask> = {}): DesiredTask => ({
  id,
  projectId: "p1",
  ownerKind: "deployment",
  ownerId: "d1",
  kind: "serve",
  channel: "production",
  epoch: 1,
  desired: "running",
  drainSeconds: 0,
  specHash: "h",
  memoryMb: 256,
  cpuMillicores: 500,
  pidsLimit: 100,
  storageMb: 512,
  reservedMemoryMb: 256,
  reservedCpuMillicores: 500,
  platform: null,
  diskMb: 0,
  nodeSelector: {},
  pinnedTo: null,
  hasDockerfile: false,
  nodeId: null,
  refused: false,
  waitedMs: 0,
  ...change,
});
