import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type Engine, labels, type Owner } from "./engine.ts";
import { EngineError } from "./errors.ts";

/** The network half of the engine. */
export function networkCalls(
  clock: Clock,
  docker: Docker,
  owner: Owner,
): Pick<Engine, "listNetworks" | "createNetwork" | "removeNetwork"> {
  return {
    async listNetworks() {
      const list = await withDeadline(clock, "list networks", quickMs, () => docker.listNetworks());
      return list.map((network) => ({
        id: network.Id,
        name: network.Name,
        subnets: (network.IPAM?.Config ?? []).flatMap((config) => config.Subnet ?? []),
        // Networks of others may have it with the length of their prefix.
        addresses: (network.IPAM?.Config ?? []).flatMap(({ Gateway }) => Gateway?.split("/")[0] ?? []),
        labels: network.Labels ?? {},
      }));
    },

    async createNetwork(spec) {
      await withDeadline(clock, "create network", slowMs, () =>
        docker.createNetwork({
          Name: spec.name,
          CheckDuplicate: true,
          Driver: "bridge",
          Internal: false,
          EnableIPv6: false,
          IPAM: { Driver: "default", Config: [{ Subnet: spec.subnet, Gateway: spec.gateway }] },
          Options: { "com.docker.network.bridge.name": spec.bridge },
          Labels: { ...spec.labels, [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId },
        }),
      );
    },

    async removeNetwork(name) {
      const network = docker.getNetwork(name);
      try {
        const info = await withDeadline(clock, "inspect network", quickMs, () => network.inspect());
        if (info.Labels?.[labels.node] !== owner.nodeId || info.Labels?.[labels.cluster] !== owner.clusterId) {
          throw new EngineError("foreign", `the network ${name} belongs to somebody else`);
        }
        await withDeadline(clock, "remove network", slowMs, () => network.remove());
        return true;
      } catch (cause) {
        if (!(cause instanceof EngineError)) throw cause;
        if (cause.kind === "not-found") return true;
        // The engine answers 403 while a container is attached.
        if (cause.status === 403 || cause.kind === "conflict") return false;
        throw cause;
      }
    },
  };
}
