// @pure
import { create } from "@bufbuild/protobuf";
import { isOciManifest, type Manifest, manifestPort } from "@svc/proto";
import { ServeSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import { reservationOf } from "../../../identity/plans/rules.ts";
import type { Deployment, Plan } from "../../../stores/db/tables.ts";
import type { Kind, NewTask, TaskResources } from "./kind.ts";

const spec = z.object({
  kind: z.literal("serve"),
  /** repository@digest, with the registry's host unless it is the cluster's own. */
  repository: z.string(),
  digest: z.string(),
  /** Null: the cluster's registry. */
  registryHost: z.string().nullable(),
  command: z.array(z.string()),
  port: z.number().int(),
  health: z.object({ path: z.string(), timeoutSeconds: z.number().int() }),
  maxImageMb: z.number().int(),
});
export type ServeTaskSpec = z.infer<typeof spec>;

const stopGraceSeconds = 30;

/** One container of a deployment, which answers its visitors until it is told to go. */
export const serve: Kind<ServeTaskSpec, "deployment"> = {
  owner: "deployment",
  rules: { placement: "fit", crowd: null, hasImage: true, isLasting: true, leaves: "replaced", isVisited: true },
  spec,
  needs: ({ registryHost, repository }) => ({
    ...{ pull: registryHost === null ? [repository] : [], push: null, baseImages: false },
  }),
  forNode({ registryHost, repository, digest, maxImageMb, command, port, health }, facts) {
    return {
      case: "serve",
      value: create(ServeSpecSchema, {
        image: { reference: `${registryHost ?? facts.registryHost}/${repository}@${digest}`, maxSizeMb: maxImageMb },
        command,
        env: facts.owner.env,
        redact: [...facts.owner.secretValues],
        databaseId: facts.owner.databaseId,
        port,
        health,
        stopGraceSeconds,
      }),
    };
  },
};

/** What each container of an account with the plan may take, and what is set aside for it. */
export const limitsOfPlan = (plan: Plan): TaskResources => ({
  memoryMb: plan.memory_mb,
  cpuMillicores: plan.cpu_millicores,
  pidsLimit: plan.pids_limit,
  storageMb: plan.storage_mb,
  ...reservationOf(plan),
});

/** One container of a deployment whose image is known. */
export function serveTask(
  deployment: Deployment,
  plan: Plan,
  manifest: Manifest,
  registryHost: string | null,
): NewTask<ServeTaskSpec> {
  if (deployment.artifact_repository === null || deployment.artifact_digest === null) {
    throw new Error("the deployment has no image yet");
  }
  return {
    spec: {
      kind: "serve",
      repository: deployment.artifact_repository,
      digest: deployment.artifact_digest,
      registryHost,
      // A generated image carries its start command; an uploaded Dockerfile or a foreign image its own.
      command: [],
      port: manifestPort(manifest),
      health: { path: manifest.health.path, timeoutSeconds: manifest.health.timeoutSeconds },
      maxImageMb: isOciManifest(manifest) ? plan.max_image_mb : plan.storage_mb,
    },
    ...limitsOfPlan(plan),
    nodeSelector: plan.node_selector,
  };
}

/** How many containers a deployment with an image wants. */
export const replicasOf = (manifest: Manifest): number => (isOciManifest(manifest) ? 1 : manifest.app.replicas);

/** Slots of a deployment, counted from 0, that have no container among `tasks`. */
export function emptySlots(tasks: readonly { replica: number }[], replicas: number): number[] {
  const taken = new Set(tasks.map(({ replica }) => replica));
  return Array.from({ length: replicas }, (_, slot) => slot).filter((slot) => !taken.has(slot));
}
