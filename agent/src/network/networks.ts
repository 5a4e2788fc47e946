import { createHash } from "node:crypto";
import { createLimiter } from "@svc/runtime/limiter";
import { type Engine, labels, type Network, type Owner } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import { bridgePrefix } from "./firewall.ts";
import { freeSubnet } from "./subnets.ts";

const claimAttempts = 20;

/** The bridge network of a project and channel, as its containers see it. */
export interface ProjectNetwork {
  name: string;
  /** This machine's own address in it. */
  address: string;
}

/** The bridge networks of this node: one per project and channel, closed to every other. */
export interface Networks {
  /** Makes sure that the network exists. */
  ensure(projectId: string, channel: string): Promise<ProjectNetwork>;
  /** Removes it unless `isNeeded` says so or something is attached. Both run with no `ensure` between them. */
  release(projectId: string, channel: string, isNeeded: () => boolean): Promise<void>;
  /** Those that are there now. */
  list(): Promise<(Pick<ProjectNetwork, "address"> & { projectId: string; channel: string })[]>;
}

export function createNetworks(options: {
  engine: Engine;
  owner: Owner;
  pool: string;
  /** Resolves once containers are kept from everything they must not reach. */
  isolated(): Promise<void>;
  /** One came or went. */
  onChange(): void;
}): Networks {
  const { engine, owner, pool } = options;
  const oneAtATime = createLimiter({ perKey: 1 });

  const isOwn = (network: Network): boolean =>
    network.labels[labels.cluster] === owner.clusterId && network.labels[labels.node] === owner.nodeId;

  /** Returns this machine's own address in it. */
  const claim = async (name: string, hash: string, projectId: string, channel: string): Promise<string> => {
    for (let attempt = 0; attempt < claimAttempts; attempt += 1) {
      const known = await engine.listNetworks();
      const [address] = known.find((network) => network.name === name && isOwn(network))?.addresses ?? [];
      if (address !== undefined) return address;
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
        options.onChange();
        return free.gateway;
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
          return { name, address: await claim(name, hash, projectId, channel) };
        },
        { key: name },
      );
    },
    release(projectId, channel, isNeeded) {
      const { name } = networkName(owner, projectId, channel);
      return oneAtATime(
        async () => {
          if (!isNeeded() && (await engine.removeNetwork(name))) options.onChange();
        },
        { key: name },
      );
    },
    list: async () =>
      (await engine.listNetworks()).filter(isOwn).flatMap(({ addresses, labels: marks }) => {
        const [address] = addresses;
        const { [labels.project]: projectId = "", [labels.channel]: channel = "" } = marks;
        return address === undefined ? [] : [{ projectId, channel, address }];
      }),
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
