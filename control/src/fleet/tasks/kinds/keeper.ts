// @pure
import { create } from "@bufbuild/protobuf";
import { databaseEngines } from "@svc/proto";
import { KeeperSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import type { Kind, NewTask } from "./kind.ts";

const spec = z.object({
  kind: z.literal("keeper"),
  databaseId: z.string(),
  engine: z.enum(databaseEngines),
  /** What the server runs in. */
  image: z.string(),
  /** What the copy may take of the disk, in MiB. */
  sizeMb: z.number().int(),
  baseEverySeconds: z.number().int(),
  keepSeconds: z.number().int(),
});
export type KeeperTaskSpec = z.infer<typeof spec>;

/** Keeps a copy of a branch in a volume of its node, as long as somebody wants it. */
export const keeper: Kind<KeeperTaskSpec, "copy"> = {
  owner: "copy",
  rules: {
    placement: "idle",
    crowd: null,
    hasImage: false,
    isLasting: true,
    // What it has so far is restored there and nowhere else, but the branch itself is elsewhere: another copy can be made.
    leaves: "redone",
    isVisited: false,
  },
  spec,
  // Its image is on the nodes already.
  needs: () => ({ pull: [], push: null, baseImages: false }),
  forNode: ({ kind: _, image, ...rest }, { owner }) => ({
    case: "keeper",
    value: create(KeeperSpecSchema, {
      ...rest,
      copyId: owner.id,
      image: { reference: image },
      password: owner.password(),
    }),
  }),
};

const resources = {
  ...{ memoryMb: 256, cpuMillicores: 500, pidsLimit: 64 },
  ...{ reservedMemoryMb: 24, reservedCpuMillicores: 10 },
  // Its volume is bounded by what the copy may take, and it writes to nothing else.
  storageMb: 0,
} as const;

/** Keeps the copy on the node that was chosen for it. */
export const keeperTask = (of: Omit<KeeperTaskSpec, "kind">, nodeId: string): NewTask<KeeperTaskSpec> => ({
  spec: { kind: "keeper", ...of },
  ...resources,
  nodeSelector: {},
  pinnedTo: nodeId,
});
