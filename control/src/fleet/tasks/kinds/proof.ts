// @pure
import { create } from "@bufbuild/protobuf";
import { databaseEngines } from "@svc/proto";
import { ProofSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import type { Kind, NewTask, TaskResources } from "./kind.ts";

const spec = z.object({
  kind: z.literal("proof"),
  /** Of `restore_proof`: what is found is written there. */
  proofId: z.string(),
  databaseId: z.string(),
  engine: z.enum(databaseEngines),
  /** What the server runs in. */
  image: z.string(),
  timeoutSeconds: z.number().int(),
});
export type ProofTaskSpec = z.infer<typeof spec>;

/** A restore keeps a disk as busy as it can be. */
const perNodeMax = 1;

/** Restores a copy where it is kept, looks at it, and ends by itself. */
export const proof: Kind<ProofTaskSpec, "copy"> = {
  owner: "copy",
  rules: {
    placement: "idle",
    crowd: { max: perNodeMax, reason: "busy with proofs of restores" },
    hasImage: false,
    isLasting: false,
    leaves: "redone",
    isVisited: false,
  },
  spec,
  needs: () => ({ pull: [], push: null, baseImages: false }),
  forNode: ({ kind: _, proofId: __, image, ...rest }, { owner }) => ({
    case: "proof",
    value: create(ProofSpecSchema, { ...rest, copyId: owner.id, image: { reference: image } }),
  }),
};

/** Restores the copy on the node that keeps it. */
export const proofTask = (
  of: Omit<ProofTaskSpec, "kind">,
  nodeId: string,
  resources: TaskResources,
): NewTask<ProofTaskSpec> => ({ spec: { kind: "proof", ...of }, ...resources, nodeSelector: {}, pinnedTo: nodeId });
