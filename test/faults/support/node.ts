import type { ProgramSpec } from "@svc/deploy/program";
import type { Inside } from "./inside.ts";
import type { Docker, Machine } from "./machine.ts";

/** A container of a site or a job, as the engine of its machine tells. */
export interface Container {
  id: string;
  /** What it calls itself. */
  hostname: string;
  state: string;
  project: string;
  kind: string;
}

/** One node of the fleet: a machine with an engine and an agent. */
export interface Node {
  machine: Machine;
  name: string;
  /** Null while it does not run. */
  readonly agent: Inside | null;
  /** Its database proxy; null while it does not run, and on a fleet without proxies. */
  readonly proxy: Inside | null;
  /** Switches the machine on and starts its engine, which has the images that its programs need. */
  bootEngine(): Promise<void>;
  /** Switches the machine on and starts engine, database proxy and agent. Resolves when the agent has spoken to control. */
  powerOn(): Promise<void>;
  /** Starts the agent; resolves with its first session. */
  startAgent(settings?: Record<string, string>): Promise<void>;
  /** Starts the agent without waiting for a session. */
  launchAgent(settings?: Record<string, string>): Promise<Inside>;
  /** Starts the database proxy; resolves when it serves. Nothing on a fleet without proxies. */
  startProxy(): Promise<void>;
  /** Containers of projects on its engine. */
  containers(): Promise<Container[]>;
}

const agentMs = 60_000;

export function createNode(options: {
  machine: Machine;
  spec: ProgramSpec;
  proxySpec: ProgramSpec | null;
  /** What its engine is to have. */
  imageNames: readonly string[];
  /** An engine that has them. */
  images: Docker;
}): Node {
  const { machine, spec, proxySpec, imageNames, images } = options;
  let agent: Inside | null = null;
  let proxy: Inside | null = null;

  async function loadImage(name: string): Promise<void> {
    const has = await machine.docker.listImages({ filters: { reference: [name] } });
    if (has.length > 0) return;
    const progress = await machine.docker.loadImage(await images.getImage(name).get());
    await new Promise<void>((resolve, reject) => {
      machine.docker.modem.followProgress(progress, (error) => (error === null ? resolve() : reject(error)));
    });
  }

  const node: Node = {
    machine,
    name: machine.name,
    get agent() {
      return agent;
    },
    get proxy() {
      return proxy;
    },
    async bootEngine() {
      await machine.boot();
      await machine.startEngine();
      for (const name of imageNames) await loadImage(name);
    },
    async powerOn() {
      await node.bootEngine();
      await node.startProxy();
      await node.startAgent();
    },
    async launchAgent(settings = {}) {
      agent = await machine.start("agent", spec.argv, {
        ...spec.env,
        SVC_AGENT_DIR: `${machine.disk}/agent`,
        SVC_AGENT_ADDRESS: machine.address,
        // Its machine is a node and nothing else.
        SVC_AGENT_EGRESS: "closed",
        SVC_DOCKER_SOCKET: machine.dockerSocket,
        ...settings,
      });
      return agent;
    },
    async startProxy() {
      if (proxySpec === null) return;
      const { argv, privileges = [], env } = proxySpec;
      proxy = await machine.start("dbproxy", ["setpriv", ...privileges, "--", ...argv], env);
      await proxy.line(`the proxy of ${machine.name}`, (line) => line.includes('"msg":"ready"'), proxySpec.readyMs);
    },
    async startAgent(settings) {
      const started = await node.launchAgent(settings);
      await started.line(`the agent of ${machine.name}`, (line) => line.includes('"msg":"ready"'), agentMs);
    },
    async containers() {
      const found = await machine.docker.listContainers({ all: true, filters: { label: ["svc.project"] } });
      return found.map(({ Id, State, Labels }) => ({
        id: Id,
        hostname: Id.slice(0, 12),
        state: State,
        project: Labels["svc.project"] ?? "",
        kind: Labels["svc.kind"] ?? "",
      }));
    },
  };
  return node;
}
