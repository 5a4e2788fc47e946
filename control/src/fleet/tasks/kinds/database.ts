// @pure
import { create } from "@bufbuild/protobuf";
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import { DatabaseSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import type { Kind, NewTask, TaskResources } from "./kind.ts";

const spec = z.object({
  kind: z.literal("database"),
  engine: z.enum(databaseEngines),
  image: z.string(),
  /** Whether there may be no data yet. */
  init: z.boolean(),
  /** What its owner may store, in MiB. */
  sizeMb: z.number().int(),
  /** Sessions at once, those of the platform included. */
  connections: z.number().int(),
  /** Nothing durable is written there. Tasks of a control of before do not say. */
  readOnly: z.boolean().default(false),
  /** Which of its volumes it serves. */
  generation: z.number().int().default(1),
  /** Where the data of a volume without any comes from: a copy that its node keeps, until that moment (RFC 3339) or whole. */
  restore: z.object({ copyId: z.string(), until: z.string().nullable() }).nullable().default(null),
});
export type DatabaseTaskSpec = z.infer<typeof spec>;

/** The server of a branch: where its data is, until somebody says otherwise. */
export const database: Kind<DatabaseTaskSpec, "database"> = {
  owner: "database",
  rules: {
    placement: "fit",
    crowd: null,
    hasImage: false,
    isLasting: true,
    leaves: { stays: "It holds the data of a database.", moveWith: "svc admin db move" },
    isVisited: true,
  },
  spec,
  // Its image is on the nodes already.
  needs: () => ({ pull: [], push: null, baseImages: false }),
  forNode: ({ engine, image, init, sizeMb, connections, readOnly, generation, restore }, { owner }) => ({
    case: "database",
    value: create(DatabaseSpecSchema, {
      ...{ databaseId: owner.branch.id, engine, init, sizeMb, connections, readOnly, generation },
      ...(restore !== null && { restore: { copyId: restore.copyId, until: restore.until ?? "" } }),
      image: { reference: image },
      adminVerifier: owner.adminVerifier(),
    }),
  }),
};

/** A server of a branch; pinned to where its data is, once that is known. */
export function databaseTask(
  branch: { engine: DatabaseEngine; node_id: string | null; role_connection_limit: number | null; generation: number },
  {
    image,
    sizeMb,
    connections,
    readOnly,
    restore = null,
    ...rest
  }: TaskResources & {
    image: string;
    sizeMb: number;
    connections: number;
    readOnly: boolean;
    restore?: DatabaseTaskSpec["restore"];
    nodeSelector: Record<string, string>;
  },
): NewTask<DatabaseTaskSpec> {
  return {
    spec: {
      ...{ kind: "database", engine: branch.engine, image, sizeMb, connections, readOnly },
      ...{ generation: branch.generation, restore },
      // Until its role was made once, nobody has had anything there, and a first try that failed may be tried again. From then
      // on data that is missing where it was is a failure, and never made anew.
      init: branch.role_connection_limit === null && restore === null,
    },
    ...rest,
    ...(branch.node_id !== null && { pinnedTo: branch.node_id }),
  };
}
