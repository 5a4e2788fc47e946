import { createHash } from "node:crypto";
import { createLimiter } from "@svc/runtime/limiter";
import { type Engine, labels, type Owner } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import { bridgePrefix } from "./firewall.ts";
import { freeSubnet } from "./subnets.ts";

const claimAttempts = 20;

/** The bridge networks of this node: one per project and channel, closed to every other. */
export interface Networks {
  /** Makes sure that the network exists and returns its name. */
  ensure(projectId: string, channel: string): Promise<string>;
  /** Removes it unless `isNeeded` says so or something is attached. Both run with no `ensure` between them. */
  release(projectId: string, channel: string, isNeeded: () => boolean): Promise<void>;
}

export function createNetworks(options: {
  engine: Engine;
  owner: Owner;
  pool: string;
  /** Resolves once containers are kept from everything they must not reach. */
  isolated(): Promise<void>;
}): Networks {
  const { engine, owner, pool } = options;
  const oneAtATime = createLimiter({ perKey: 1 });

  const claim = async (name: string, hash: string, projectId: string, channel: string): Promise<void> => {
    for (let attempt = 0; attempt < claimAttempts; attempt += 1) {
      const known = await engine.listNetworks();
      if (known.some((network) => network.name === name && network.labels[labels.node] === owner.nodeId)) return;
      const start = Number.parseInt(hash.slice(0, 8), 16) + attempt;
      const free = freeSubnet(
        pool,
        known.flatMap((network) => network.subnets),
        start,
      );
      if (free === null) break;
      try {
        await engine.createNetwork({
          name,
          bridge: `${bridgePrefix}${hash.slice(0, 12)}`,
          ...free,
          labels: { [labels.project]: projectId, [labels.channel]: channel },
        });
        return;
      } catch (cause) {
        // Another agent of this machine took the subnet, or an earlier attempt of ours got through.
        if (!isClash(cause)) throw cause;
      }
    }
    throw new EngineError("failed", `no free subnet is left in ${pool}`);
  };

  return {
    ensure(projectId, channel) {
      const { name, hash } = networkName(owner, projectId, channel);
      return oneAtATime(
        async () => {
          await options.isolated();
          await claim(name, hash, projectId, channel);
          return name;
        },
        { key: name },
      );
    },
    release(projectId, channel, isNeeded) {
      const { name } = networkName(owner, projectId, channel);
      return oneAtATime(
        async () => {
          if (!isNeeded()) await engine.removeNetwork(name);
        },
        { key: name },
      );
    },
  };
}

/** Names hold the node's short hash, so that agents which share an engine never meet in one. */
function networkName(owner: Owner, projectId: string, channel: string): { name: string; hash: string } {
  const nodeHash = digest(`${owner.clusterId}/${owner.nodeId}`).slice(0, 8);
  const hash = digest(`${owner.clusterId}/${owner.nodeId}/${projectId}/${channel}`);
  return { name: `svc-n-${nodeHash}-${hash.slice(0, 12)}`, hash };
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

const isClash = (cause: unknown): boolean =>
  cause instanceof EngineError &&
  (cause.kind === "conflict" || /overlap|already exists|already assigned|in use/i.test(cause.message));
