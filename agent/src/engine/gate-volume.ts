import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type Engine, labels, type Owner } from "./engine.ts";
import { EngineError } from "./errors.ts";
import { gateDirectory } from "./gate-directory.ts";

/** A volume without a name goes with its container. What the image has in that place does not get into it. */
export function toGateMount(marks: Readonly<Record<string, string>>, owner: Owner): Docker.MountSettings {
  const Labels = {
    [labels.cluster]: owner.clusterId,
    [labels.node]: owner.nodeId,
    [labels.gate]: marks[labels.placement] ?? "",
  };
  const VolumeOptions = { NoCopy: true, Labels, DriverConfig: { Name: "local", Options: {} } };
  return { Type: "volume", Target: gateDirectory, Source: "", VolumeOptions };
}

export const isGateMount = ({ Type, Destination }: { Type?: string; Destination: string }): boolean =>
  Type === "volume" && Destination === gateDirectory;

/** Gates whose container was never written down: an engine that ends in the middle of making one leaves the volume. */
export function gateCalls(clock: Clock, docker: Docker, owner: Owner): Pick<Engine, "removeStrayGates"> {
  const filters = JSON.stringify({
    label: [`${labels.cluster}=${owner.clusterId}`, `${labels.node}=${owner.nodeId}`, labels.gate],
    dangling: ["true"],
  });
  return {
    async removeStrayGates(isNeeded) {
      const { Volumes } = await withDeadline(clock, "list volumes", quickMs, () => docker.listVolumes({ filters }));
      for (const { Name: name, Labels } of Volumes ?? []) {
        if (isNeeded(Labels[labels.gate] ?? "")) continue;
        try {
          await withDeadline(clock, "remove volume", slowMs, () => docker.getVolume(name).remove());
        } catch (cause) {
          if (!(cause instanceof EngineError && (cause.kind === "not-found" || cause.kind === "conflict"))) throw cause;
        }
      }
    },
  };
}
